"""Models in the form that the page computes with: sizes, coefficients of the closed forms, and candidates."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from leanformer.app.folders import CONFIG, Folder
from leanformer.architecture import REGIMES, Architecture, Stage
from leanformer.conditioning import gaussian
from leanformer.costs.cache import cached_values
from leanformer.costs.closed_forms import Count, Formula, Polynomial, formula
from leanformer.costs.references import BATCHES, LARGE_BATCHES
from leanformer.costs.setting import STATE_BYTES, Optimizer, Setting
from leanformer.costs.tracing import Precision
from leanformer.designing import findings
from leanformer.designing.candidates import candidates
from leanformer.designing.emit import Form, emit
from leanformer.designing.guards import GAIN
from leanformer.foundation.yaml_files import as_yaml
from leanformer.models import families
from leanformer.models.base import Attention
from leanformer.models.catalogue import listed_names
from leanformer.models.names import architecture_of
from leanformer.models.weights import read_folder, saved_in

Json = dict[str, Any]

SAVED = "saved:"
"""Begins the name of a model that is a place in the folder."""
SIZES = ("depth", "heads", "head_dim", "mlp_dim")
"""What the page changes, in the order in which it names them."""

FORMS: tuple[Form, ...] = ("leanformer", "timm", "hf", "yaml")

_COUNTING = threading.Lock()
"""Models are built by one thread at a time: upstream's libraries are not made for more."""


def constants() -> Json:
    """What the page's own arithmetic needs beside the coefficients: the same numbers as here, from one place."""
    return {
        "tracy_widom_mean": gaussian.TRACY_WIDOM_MEAN,
        "hard_edge": list(gaussian.HARD_EDGE),
        "cliff": gaussian.CLIFF,
        "gain": GAIN,
        "safe": findings.SAFE,
        "counterpoint": findings.COUNTERPOINT,
        "findings": [
            {**asdict(found), "text": str(found), "record": found.record, "level": findings.level(found.head_dim)}
            for found in findings.FINDINGS
        ],
        "state_bytes": dict(STATE_BYTES),
        "settings": {
            "precision": list(get_args(Precision)),
            "attention": list(get_args(Attention)),
            "optimizer": list(get_args(Optimizer)),
        },
        "batch": Setting().batch,
    }


class Designs:
    """Models by name, each counted once."""

    def __init__(self, folder: Folder | None) -> None:
        self.folder = folder
        self.architecture = functools.lru_cache(maxsize=256)(self._architecture)
        self.model = functools.lru_cache(maxsize=64)(self._model)
        self.closed_form = functools.lru_cache(maxsize=512)(self._closed_form)

    def _architecture(self, name: str) -> Architecture:
        """Of a listed name, or of a saved model inside the folder; nothing else is looked for."""
        with _COUNTING:
            if name.startswith(SAVED):
                return self._saved(name.removeprefix(SAVED))
            if not any(name in names for names in listed_names().values()):
                raise ValueError("there is no model of that name: `leanformer models` lists all")
            return architecture_of(name)

    def _saved(self, place: str) -> Architecture:
        if self.folder is None:
            raise ValueError("saved models need a folder")
        home = saved_in(self.folder.inside(place))
        self.folder.plain(home / CONFIG)  # it must be inside too, and JSON
        found = _known(read_folder(home))
        return families.family(found.family).canonical(found)

    def _model(self, name: str) -> Json:
        base = self.architecture(name)
        with _COUNTING:
            return described(base, name)

    def _closed_form(self, name: str, setting: Setting) -> Json:
        base = self.architecture(name)
        with _COUNTING:
            return coefficients(formula(base, setting))

    def emitted(self, name: str, stages: Sequence[Sequence[int]], form: Form) -> str:
        return emit(design_of(self.architecture(name), stages), form)


def _known(architecture: Architecture) -> Architecture:
    """A file may name a family of its own; here only those that are installed are used."""
    if architecture.family not in families.FAMILIES.names():
        raise ValueError("this model belongs to no installed family")
    return architecture


def design_of(base: Architecture, stages: Sequence[Sequence[int]]) -> Architecture:
    """The design with these sizes, stage by stage, checked by its family."""
    widths = [stage.width for stage in base.stages]
    widths = widths if len(widths) == len(stages) else widths[:1] * len(stages)
    sized = tuple(
        Stage(width=width, **dict(zip(SIZES, sizes, strict=True))) for width, sizes in zip(widths, stages, strict=True)
    )
    return families.family(base.family).canonical(replace(base, stages=sized))


def described(base: Architecture, name: str) -> Json:
    """A model as the page needs it."""
    family = families.family(base.family)
    unit = family.head_unit(base)
    return {
        "name": name,
        "constants": constants(),
        "title": base.name if not name.startswith(SAVED) else Path(name.removeprefix(SAVED)).name or base.name,
        "upstream": base.name,
        "family": base.family,
        "origin": family.origin(base),
        "stages": [asdict(stage) for stage in base.stages],
        "structural": family.stage_count is not None,
        "unit": unit,
        "steps": {word: _step(base, word) for word in ("head_dim", "mlp_dim")},
        "takes_tokens": _takes_tokens(base),
        "caches": bool(cached_values(base)),
        "forms": [form for form in FORMS if _has_form(family, form)],
        "python_name": repr(base.name),
        "python_options": "".join(f", {key}={value!r}" for key, value in base.options.items()),
        "yaml": {
            "head": f"family: {as_yaml(base.family)}\nname: {as_yaml(base.name)}\nstages:\n",
            "tail": f"options: {as_yaml(dict(base.options))}\n",
        },
        "candidates": [
            [
                list(REGIMES.values()).index(regime),
                [[getattr(stage, word) for word in SIZES] for stage in design.stages],
            ]
            for design, regime in candidates(base, list(REGIMES.values()))
        ],
    }


def _has_form(family: Any, form: str) -> bool:
    return hasattr(family, {"timm": "timm_options", "hf": "config"}.get(form, "key"))


def _step(base: Architecture, word: str) -> int:
    """2 if the family refuses odd sizes, else 1."""
    odd = tuple(replace(stage, **{word: getattr(stage, word) | 1}) for stage in base.stages)
    try:
        families.family(base.family).canonical(replace(base, stages=odd))
    except ValueError:
        return 2
    return 1


def _takes_tokens(base: Architecture) -> bool:
    """Whether the length of a text can be chosen; the size of images is fixed."""
    try:
        families.example_inputs(base, 1, tokens=8)
    except ValueError:
        return False
    return True


# Closed forms


def coefficients(closed: Formula) -> Json:
    """A formula in plain form. Whole numbers are texts, since the page reads them without rounding."""
    return {
        "unit": closed.unit,
        "tokens": list(closed.tokens),
        "embedding": str(closed.embedding),
        "params": _count(closed.params),
        "forward_macs": [_count(count) for count in closed.forward_macs],
        "saved": [_count(count) for count in closed.saved],
        "transient": list(closed.transient),
        "batches": list(BATCHES),
        "large_batches": list(LARGE_BATCHES),
    }


def _count(count: Count) -> Json:
    return {
        "scale": str(count.scale),
        "stages": [_polynomial(kind) for kind in count.stages],
        "tail": _polynomial(count.tail),
        "outside": str(count.outside),
        "outside_per_head_dim": str(count.outside_per_head_dim),
    }


def _polynomial(kind: Polynomial) -> list[str]:
    """Attention in (1, h, d, h·d, h·d²), MLP in (1, m), the rest."""
    return [str(number) for number in kind.coefficients()]


def setting_of(asked: Mapping[str, str]) -> Setting:
    """The part of a setting that coefficients depend on; the page does the rest."""
    tokens = asked.get("tokens", "")
    if tokens and not (tokens.isascii() and tokens.isdigit() and len(tokens) < 7):
        raise ValueError(f"tokens must be a whole number, got {tokens[:20]!r}")
    words: Json = {word: asked[word] for word in ("precision", "attention") if word in asked}
    return Setting(
        batch=1,
        optimizer="none",
        tokens=int(tokens) if tokens else None,
        checkpointing=asked.get("checkpointing") == "true",
        **words,
    )
