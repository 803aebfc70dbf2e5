"""Arms of a comparison: named designs, those that are given and those that follow from them.

The four usual arms are a 2 × 2 of depth and of what a layer is (heads, head_dim, MLP). `original` and `lean` are given;
`shallow` has lean's depth and the original's layers, `wide` the original's depth and lean's layers. `matched-mlp` and
`matched-depth` are controls of lean's size (`leanformer.experiments.matched`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator

from leanformer.architecture import Architecture

ORIGINAL, LEAN, SHALLOW, WIDE = "original", "lean", "shallow", "wide"
MATCHED_MLP, MATCHED_DEPTH = "matched-mlp", "matched-depth"
RANDOM = "random"
"""Lean's design with random weights, where the other arms begin with those of a trained model."""
FOLDERS = ("figures", "tuning", "tuned", "lengths", "pretrained")
"""What a comparison's folder holds beside its arms."""


@dataclass(frozen=True)
class Arm:
    """A design under the name that reports and folders use."""

    name: str
    architecture: Architecture

    def __post_init__(self) -> None:
        checked_name(self.name)


def checked_name(name: str) -> str:
    """A name that is safe as a folder's: it comes from people and from files."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.+-]{0,99}", name) or name in FOLDERS:
        raise ValueError(
            f"an arm's name is up to 100 letters, digits and . _ + -, begins with a letter, and is not "
            f"{' or '.join(FOLDERS)}; got {name!r}"
        )
    return name


ArmName = Annotated[str, AfterValidator(checked_name)]
"""An arm's name inside a record."""


def _checked_label(name: str) -> str:
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError(f"an arm is shown by up to 100 printable characters, got {name!r}")
    return name


ArmLabel = Annotated[str, AfterValidator(_checked_label)]
"""What an arm is called in a record of scores, which never becomes the name of a folder."""


def crossed(deep: Architecture, layers: Architecture) -> Architecture:
    """The depth of one and the layers of the other, stage by stage."""
    if len(deep.stages) != len(layers.stages):
        if len(layers.stages) == 1:  # the other is a schedule of heads: only its depth is wanted
            return layers.resized(depth=deep.depth)
        raise ValueError(
            f"a schedule of heads has no form with {deep.depth} layers: give that arm its own sizes, under a new name"
        )
    stages = tuple(replace(layer, depth=stage.depth) for stage, layer in zip(deep.stages, layers.stages, strict=True))
    return replace(layers, stages=stages)


def _matched(name: str) -> Callable[[Architecture, Architecture], Architecture]:
    """A control of lean's size. Its module counts parameters, and is imported when such an arm is asked for."""

    def compute(original: Architecture, lean: Architecture) -> Architecture:
        from leanformer.experiments import matched

        found: Architecture = getattr(matched, name)(original, lean)
        return found

    return compute


COMPUTED: Mapping[str, Callable[[Architecture, Architecture], Architecture]] = MappingProxyType(
    {
        SHALLOW: lambda original, lean: crossed(lean, original),
        WIDE: crossed,
        MATCHED_MLP: _matched("matched_mlp"),
        MATCHED_DEPTH: _matched("matched_depth"),
    }
)
"""Arms that follow from the original and the lean design."""
USUAL = (ORIGINAL, LEAN, *COMPUTED)
"""Arms that every recipe has."""
