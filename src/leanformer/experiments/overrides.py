"""A recipe with other models, data or settings, as a command line or a notebook asks for them.

May import recipe, tasks, training, zoo and designs.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.designing.plan import design
from leanformer.experiments.recipe import ARMS, Recipe
from leanformer.models import names as zoo
from leanformer.tasks import load
from leanformer.training.run import Training

SIZES = ("depth", "heads", "head_dim", "mlp_dim", "width", "keep")


def adjusted(
    recipe: Recipe,
    *,
    data: str | None = None,
    model: str | None = None,
    original: str = "",
    lean: str = "",
    arms: Sequence[str] = (),
    settings: Sequence[str] = (),
    start: str = "",
    training: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe with what was asked for changed.

    Args:
        data: the folder of the recipe's data; for the recipe `images`, the folder of images itself.
        model: another original, by name; the lean design is then what `leanformer design` recommends.
        original, lean: changes to these two, such as "depth=4,heads=8,mlp_dim=128,keep=width".
        arms: further arms, each "NAME:changes to the original".
        settings: "training.lr=1e-3", "task.flip=true", …
        start: a comparison whose trained models these begin with; models and tokenizer are then its.
        training: changes to the training, by name; None leaves a setting as it is.
    """
    changes = {key: value for key, value in (training or {}).items() if value is not None}
    task_changes: dict[str, Any] = {}
    for setting in settings:
        room, key, value = _setting(setting)
        (changes if room == "training" else task_changes)[key] = value
    known = {item.name for item in fields(Training)}
    if unknown := changes.keys() - known:
        raise ValueError(f"training has no setting {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    if recipe.name == "images":
        if data is None:
            raise ValueError("the recipe images needs --data DIR, a folder with train/CLASS/*.png and val/CLASS/*.png")
        model = model or recipe.original.name  # built anew, for the classes that the folder has
    if data is not None:
        data = str(Path(data).expanduser().resolve())  # a run must find its data from anywhere
        task_changes["dataset" if recipe.name == "images" else "root"] = data
    recipe = replace(
        recipe,
        training=replace(recipe.training, **changes),
        task=tasks.read({**recipe.task.to_dict(), **task_changes}),
    )
    if start:
        recipe = started(recipe, start)
    if model is not None:
        recipe = replace(recipe, original=zoo.architecture_of(model, **load(recipe.task).options))
    if original:
        recipe = replace(recipe, original=redesigned(recipe.original, original))
    if model is not None and not lean:
        recipe = replace(recipe, lean=_recommended(recipe.original))
    if lean:
        recipe = replace(recipe, lean=redesigned(recipe.original, lean))
    for arm in arms:
        name, colon, text = arm.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z][\w-]*", name) or name in (*ARMS, "figures"):
            raise ValueError(f'--arm takes a new name and sizes, as in "narrow:heads=2,mlp_dim=64", got "{arm}"')
        recipe = replace(recipe, others={**recipe.others, name: redesigned(recipe.original, text)})
    return recipe


def started(recipe: Recipe, start: str) -> Recipe:
    """A recipe whose models begin with those of a comparison: its arms, with the recipe's own options."""
    path = Path(start) / "plan.json"
    if not path.is_file():
        raise ValueError(f"--start {start} is no comparison: it holds no plan.json")
    plan = json.loads(path.read_text(encoding="utf-8"))
    tokenizers = sorted(Path(start).glob("*/seed-*/model/tokenizer.json"))
    if not tokenizers:
        raise ValueError(f"--start {start} holds no finished run with a tokenizer")
    options = {key: value for key, value in recipe.original.options.items() if key != "vocab_size"}
    designs = {
        arm: Architecture.from_dict(design).with_options(**options) for arm, design in plan["architectures"].items()
    }
    if missing := {"original", "lean"} - designs.keys():
        raise ValueError(f"--start {start} lacks the arm {', '.join(sorted(missing))}")
    return replace(
        recipe,
        original=designs["original"],
        lean=designs["lean"],
        others={arm: design for arm, design in designs.items() if arm not in ARMS},
        arms=tuple(arm for arm in plan["arms"] if arm in ARMS),
        task=tasks.read({**recipe.task.to_dict(), "tokenizer": str(tokenizers[0].parent)}),
        start=start,
    )


def _recommended(original: Architecture) -> Architecture:
    """The plan that `leanformer design` would give; a model that cannot take the data is told here."""
    try:
        return design(original).recommended.architecture
    except (RuntimeError, AssertionError) as error:
        options = ", ".join(f"{key}={value}" for key, value in original.options.items())
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{original.name} cannot be built for these data ({options}): {reason}; "
            f"--set task.img_size=224 scales images"
        ) from error


def redesigned(base: Architecture, text: str) -> Architecture:
    """An architecture with the sizes that a text names: "depth=4,heads=8" or "depth=[4,4,8,2]"."""
    sizes: dict[str, Any] = {}
    for item in re.split(r",(?![^\[]*\])", text):
        key, equals, value = item.strip().partition("=")
        if not equals or key not in SIZES:
            raise ValueError(f'sizes are given as in "depth=4,heads=8,mlp_dim=128" ({", ".join(SIZES)}), got "{item}"')
        sizes[key] = _value(value, text)
    keep = sizes.pop("keep", "head_dim")
    changed = base
    for key in ("width", "heads", "depth", "head_dim", "mlp_dim"):
        if key not in sizes:
            continue
        if key == "heads":
            changed = changed.with_heads(sizes[key], keep)
        else:
            method = {"width": "with_width", "depth": "with_depth", "head_dim": "with_head_dim", "mlp_dim": "with_mlp"}
            changed = getattr(changed, method[key])(sizes[key])
    return changed


def axes(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The axes of a grid: "heads=1,2,4,8", "regime=fixed,split", "task.points=16,64", "task.dim+width=8,16"."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        names, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ValueError(f'--vary takes an axis and its values, as in "heads=1,2,4", got "{text}"')
        if names in found:
            raise ValueError(f"--vary {names} is given twice: give all its values at once")
        found[names] = tuple(_plain(_value(value.strip(), text)) for value in values.split(","))
    return found


def _setting(text: str) -> tuple[str, str, Any]:
    match = re.fullmatch(r"(training|task)\.(\w+)=(.*)", text)
    if match is None:
        raise ValueError(f'--set takes "training.NAME=VALUE" or "task.NAME=VALUE", got "{text}"')
    return match[1], match[2], _plain(_value(match[3], text))


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # YAML reads 1e-3 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    return value


def _value(text: str, whole: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f'"{whole}": {text!r} is no value ({str(error).splitlines()[0]})') from error
