"""What a sweep varies: axes of sizes and settings, and the designs at their crossings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leanformer.architecture import KEEPS

SIZES = ("depth", "heads", "head_dim", "mlp_dim", "width", "groups", "regime")
"""Sizes of a design that can be varied. Groups are of heads that fill the width."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What `leanformer sweep` varies of a recipe's original."""

    axes: Mapping[str, tuple[Any, ...]]
    """Values of each size or setting. Scores are drawn along the first, with a line for each value of the second and a
    panel for each value of the others."""
    equal_params: bool = False
    """Whether the MLPs make up for what heads cost, so that all designs of one depth are of one size."""

    def __post_init__(self) -> None:
        names = [name for joined in self.axes for name in joined.split("+")]
        for name in names:
            if name not in SIZES and not re.fullmatch(r"(task|training)\.\w+", name):
                raise ValueError(f'there is no axis "{name}"; there are {", ".join(SIZES)}, task.NAME, training.NAME')
        for joined, values in self.axes.items():
            _check_values(joined, values)
        if "regime" in names and "heads" not in names:
            raise ValueError("regime says what stays when heads change, so heads must be varied too")
        if "mlp_dim" in names and self.equal_params:
            raise ValueError("mlp_dim cannot be varied at equal parameters, which decide it")


def _check_values(joined: str, values: tuple[Any, ...]) -> None:
    if not values or len(set(map(str, values))) < len(values):
        raise ValueError(f"the axis {joined} needs values, each of them once, got {list(values)}")
    if joined == "regime" and not KEEPS.keys() >= set(values):
        raise ValueError(f"regime must be fixed or split, got {', '.join(map(str, values))}")
    sizes = [name for name in joined.split("+") if name in SIZES and name != "regime"]
    if sizes and not all(isinstance(value, int) and value > 0 for value in values):
        raise ValueError(f"{joined} must be whole numbers from 1 on, got {', '.join(map(str, values))}")
