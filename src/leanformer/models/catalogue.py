"""The model names of every family, listed without importing timm, transformers or PyTorch.

timm's names are read from the source of the installed timm, whatever its version: its modules say with a decorator
which functions are models. A family that is not listed here, such as one of an installed package, is asked itself.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple


class TimmNames(NamedTuple):
    """Which of timm's models a family can resize."""

    modules: tuple[str, ...]
    """timm's modules whose models belong to the family."""
    not_resizable: tuple[str, ...] = ()
    """Patterns of names that are built of other layers."""


TIMM = {
    "vit": TimmNames(
        ("vision_transformer", "deit"),
        (
            *("aimv2_*", "beit3_*"),  # gated MLPs, normalised heads
            *("vit_giant_patch14_*dinov2", "vit_giant_patch14_*tipsv2"),
            *("*_18x2_*", "*_xp_*", "*_rpn_*"),  # other blocks
            *("vit_pwee_*", "vit_dpwee_*", "vit_dwee_*", "vit_dlittle_*"),
            *("*_siglip_[0-9]*", "*_map_*", "test_vit3"),  # pooling by attention
        ),
    ),
    "xcit": TimmNames(("xcit",)),
    "tnt": TimmNames(("tnt",)),
    "volo": TimmNames(("volo",)),
    "davit": TimmNames(("davit",), ("*_fl",)),
    "swin": TimmNames(("swin_transformer",)),
}
"""Families whose models are timm's."""

NAMES = {
    "crammed-bert": ("crammed-bert",),
    "story-gpt": ("tinystories-gpt2",),
    "nystromformer": tuple(f"nystromformer-{task}" for task in ("listops", "text", "retrieval", "image", "pathfinder")),
    "gpt2": ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
    "bert": ("bert-base-uncased", "bert-large-uncased", "bert-base-cased", "bert-large-cased"),
    "roberta": ("roberta-base", "roberta-large", "distilroberta-base"),
    "distilbert": tuple(f"distilbert-base-{kind}" for kind in ("uncased", "cased", "multilingual-cased")),
    "modernbert": ("ModernBERT-base", "ModernBERT-large"),
    "hf-vit": tuple(f"vit-{size}-{patch}" for size in ("base", "large") for patch in ("patch16-224", "patch32-384")),
    "dinov2": ("dinov2-base", "dinov2-small", "dinov2-large"),
    "decoder": ("llama", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "glm", "arcee", "seed_oss"),
    "point-encoder": ("farthest-point",),
}
"""Families whose models are transformers' or our own."""


def listed_names() -> dict[str, list[str]]:
    """The names that `lf.create` takes, by family; the paper's lean models are under "lean"."""
    from leanformer.models.published import LEAN_MODELS

    found = {key: resizable(*own) for key, own in TIMM.items()}
    found |= {key: list(names) for key, names in NAMES.items()}
    if installed := [point.name for point in entry_points(group="leanformer.families") if point.name not in found]:
        from leanformer.models.families import family

        found |= {key: list(family(key).names()) for key in installed}
    return {**found, "lean": list(LEAN_MODELS)}


def matching(containing: str = "") -> dict[str, list[str]]:
    """The names that contain a text, by family."""
    found = {key: [name for name in names if containing in name] for key, names in listed_names().items()}
    if not any(found.values()):
        raise ValueError(f"no model name contains {containing!r}; `leanformer models` lists all")
    return {key: names for key, names in found.items() if names}


def resizable(modules: tuple[str, ...], not_resizable: tuple[str, ...] = ()) -> list[str]:
    """The names of timm's modules, without those that match a pattern."""
    names = [name for module in modules for name in timm_names(module)]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in not_resizable)]


@functools.cache
def timm_names(module: str) -> list[str]:
    """The models of one of timm's modules, in timm's order."""
    spec = importlib.util.find_spec("timm")
    places = spec.submodule_search_locations if spec is not None else None
    file = Path(next(iter(places or ["."]))) / "models" / f"{module}.py"
    if not file.is_file():  # timm is packed in another way
        import timm

        return list(timm.list_models(module=module))
    decorated = re.compile(r"^@register_model\b.*\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
    return sorted(decorated.findall(file.read_text(encoding="utf-8")), key=_natural)


def _natural(name: str) -> list[str | int]:
    """In the order of numbers, not of their digits."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]
