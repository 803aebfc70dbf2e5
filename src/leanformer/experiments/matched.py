"""Controls of lean's size: arms that have its parameters, but not its heads.

`shallow` separates heads from depth, but has fewer parameters than lean, or more. `matched-mlp` has lean's depth and
parameters and the original's heads: what heads would add to is put into the MLPs. `matched-depth` has the original's
layers, as many as lean's parameters allow. So the number of heads is separated from depth, from MLP width and from
size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula

STEP = 8
"""MLPs have a multiple of so many neurons, where that comes close enough; otherwise any number."""
CLOSE = 0.005
"""How far a matched arm's parameters may be from lean's, as a share, before every number of neurons is tried."""


def matched_mlp(original: Architecture, lean: Architecture) -> Architecture:
    """Lean's depth and parameters, the original's heads; the MLPs of all stages are scaled by one factor."""
    if len(original.stages) != len(lean.stages):
        raise ValueError(
            f"matched-mlp needs as many stages in the original ({len(original.stages)}) as in lean "
            f"({len(lean.stages)}): give that arm its own sizes, under a new name"
        )
    shallow = replace(
        original,
        stages=tuple(
            replace(ours, depth=theirs.depth) for ours, theirs in zip(original.stages, lean.stages, strict=True)
        ),
    )
    wanted = parameters(lean)
    for step in (STEP, 1):
        found = _closest(partial(_scaled, shallow, step), wanted)
        if abs(parameters(found) - wanted) <= CLOSE * wanted:
            return found
    return found


def matched_depth(original: Architecture, lean: Architecture) -> Architecture:
    """The original's layers, as many as lean's parameters allow, and at least one in each stage."""
    wanted, total = parameters(lean), original.depth
    for depth in range(total, len(original.stages), -1):
        found = _with_depth(original, depth)
        if parameters(found) <= wanted:
            return found
    return _with_depth(original, len(original.stages))


def parameters(design: Architecture) -> int:
    return formula(design, Setting()).parameters(design).total


def _scaled(design: Architecture, step: int, thousandths: int) -> Architecture:
    """With MLPs of so many thousandths of their width, in whole steps."""
    scale = thousandths / 1000
    return replace(
        design,
        stages=tuple(
            replace(stage, mlp_dim=max(step, round(stage.mlp_dim * scale / step) * step)) for stage in design.stages
        ),
    )


def _closest(design: Callable[[int], Architecture], wanted: int) -> Architecture:
    """The design whose parameters are closest, among scales that are found by bisection: parameters grow with it."""
    low, high = 1, 64_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(design(middle)) <= wanted else (low, middle)
    return min((design(low), design(high)), key=lambda found: abs(parameters(found) - wanted))


def _with_depth(design: Architecture, depth: int) -> Architecture:
    """So many layers, divided between stages as they were."""
    if len(design.stages) == 1:
        return design.resized(depth=depth)
    share = depth / design.depth
    depths = [max(1, int(stage.depth * share)) for stage in design.stages]
    while sum(depths) < depth:
        short = [stage.depth * share - have for stage, have in zip(design.stages, depths, strict=True)]
        depths[short.index(max(short))] += 1
    while sum(depths) > depth:
        depths[depths.index(max(depths))] -= 1
    return replace(design, stages=tuple(replace(s, depth=d) for s, d in zip(design.stages, depths, strict=True)))
