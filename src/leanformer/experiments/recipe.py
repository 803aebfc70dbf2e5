"""A recipe: one task, the models to compare on it, and how they are trained. May import architecture, tasks, training.

The four arms are a 2 × 2 of depth and of what a layer is (heads, head_dim, MLP): `original` and `lean` are given;
`shallow` has lean's depth and the original's layers, `wide` the original's depth and lean's layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leanformer.architecture import KEEPS, Architecture
from leanformer.tasks.base import Task
from leanformer.training.run import Training

ARMS = ("original", "lean", "shallow", "wide")
SIZES = ("depth", "heads", "head_dim", "mlp_dim", "width", "groups", "regime")
"""What a grid can vary of a design; groups are of heads that fill the width."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What `leanformer sweep` varies of a recipe's original."""

    axes: Mapping[str, tuple[Any, ...]]
    """Values of each size or setting; drawn along the first, a line for each value of the second, then panels."""
    equal_params: bool = False
    """Whether MLPs make up for what heads cost, so that all designs of one depth are of one size."""

    def __post_init__(self) -> None:
        names = [name for joined in self.axes for name in joined.split("+")]
        for name in names:
            if name not in SIZES and not re.fullmatch(r"(task|training)\.\w+", name):
                raise ValueError(
                    f'there is no axis "{name}"; there are {", ".join(SIZES)}, task.NAME and training.NAME'
                )
        for joined, values in self.axes.items():
            if not values or len(set(map(str, values))) < len(values):
                raise ValueError(f"the axis {joined} needs values, each once, got {list(values)}")
            numbers = [name for name in joined.split("+") if name in SIZES and name != "regime"]
            if numbers and not all(isinstance(value, int) and value > 0 for value in values):
                raise ValueError(f"{joined} takes whole numbers from 1 on, got {', '.join(map(str, values))}")
        if not KEEPS.keys() >= set(self.axes.get("regime", ())):
            raise ValueError(f"regime takes fixed and split, got {', '.join(map(str, self.axes['regime']))}")
        if "regime" in names and "heads" not in names:
            raise ValueError("regime says what stays when heads change: vary heads too")
        if "mlp_dim" in names and self.equal_params:
            raise ValueError("mlp_dim cannot be varied at equal parameters, which decide it")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What `leanformer compare` runs."""

    name: str
    task: Task
    original: Architecture
    lean: Architecture
    training: Training
    margin: float
    """By how much a model may be worse and still hold, in the metric's units."""
    arms: tuple[str, ...] = ("original", "lean", "shallow")
    seeds: int = 3
    others: Mapping[str, Architecture] = field(default_factory=dict)
    """More arms, by name."""
    budget: str = "steps"
    """What is held equal between arms."""
    start: str = ""
    """A comparison whose trained models these begin with, arm by arm and seed by seed."""
    grid: Grid | None = None

    def architecture(self, arm: str) -> Architecture:
        if arm in self.others:
            return self.others[arm]
        if arm not in ARMS:
            known = ", ".join((*ARMS, *self.others))
            raise ValueError(f'there is no arm "{arm}"; there are {known}, and --arm NAME:depth=4,heads=8 adds one')
        if arm in ("original", "lean"):
            return self.original if arm == "original" else self.lean
        return crossed(self.lean, self.original) if arm == "shallow" else crossed(self.original, self.lean)

    def fitted(self, options: Mapping[str, Any]) -> Recipe:
        """With the options that the data ask for, where the models do not say them: classes, vocabulary."""

        def fit(design: Architecture) -> Architecture:
            return design.with_options(**{key: value for key, value in options.items() if key not in design.options})

        others = {arm: fit(design) for arm, design in self.others.items()}
        return replace(self, original=fit(self.original), lean=fit(self.lean), others=others)

    def architectures(self) -> dict[str, Architecture]:
        return {arm: self.architecture(arm) for arm in self.arms}

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.task.to_dict(),
            "training": {**vars(self.training), "betas": list(self.training.betas)},
            "margin": self.margin,
            "start": self.start,
            "original": self.original.to_dict(),
            "lean": self.lean.to_dict(),
            "architectures": {arm: design.to_dict() for arm, design in self.architectures().items()},
        }


def crossed(deep: Architecture, layers: Architecture) -> Architecture:
    """The depth of one and the layers of the other, stage by stage."""
    if len(deep.stages) != len(layers.stages):
        if len(layers.stages) == 1:  # the other is a schedule of heads: only its depth is wanted
            return layers.with_depth(deep.depth)
        raise ValueError(
            f"a schedule of heads has no form with {deep.depth} layers: give that arm by name, --arm NAME:depth=…"
        )
    stages = tuple(replace(layer, depth=stage.depth) for stage, layer in zip(deep.stages, layers.stages, strict=True))
    return replace(layers, stages=stages)
