"""The sizes of a lean model that can begin with a trained one's weights; others are refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import nn

from leanformer.architecture import Architecture, Keep, Numbers, Regime
from leanformer.foundation.arguments import ArgumentError
from leanformer.inheriting.selection import check_given, given_layers
from leanformer.inheriting.units import stages_of
from leanformer.models import families


def wanted_architecture(
    trained: nn.Module,
    *,
    depth: Numbers | None,
    heads: Numbers | None,
    keep: Keep | Regime,
    mlp_dim: Numbers | None,
    layers: str | Sequence[int],
) -> tuple[Architecture, list[int] | None]:
    """The lean architecture, and the layers that were given by hand. What cannot be inherited is refused."""
    before, stages = families.describe(trained), stages_of(trained)
    _check_alike(before, "trained")
    by_hand = given_layers(layers)
    if depth is None and heads is None and mlp_dim is None and by_hand is None:
        raise ArgumentError("nothing would change: give {depth}, {heads} or {mlp_dim}")
    after = before.resized(heads=heads, mlp_dim=mlp_dim, keep=keep) if heads or mlp_dim else before
    if depth is not None or by_hand is not None:
        counts = None if depth is None else [stage.depth for stage in before.resized(depth=depth).stages]
        if by_hand is not None:
            check_given(by_hand, stages, counts)
            counts = [sum(stages[layer] == stage for layer in by_hand) for stage in range(max(stages) + 1)]
        after = after.resized(depth=counts if len(before.stages) > 1 else cast(list[int], counts)[0])
    after = families.family(after.family).canonical(after)
    check_inheritable(before, after)
    return after, by_hand


def stage_numbers(architecture: Architecture) -> list[int]:
    """For each layer, the stage that it belongs to by construction; 0 where stages are a schedule."""
    if families.family(architecture.family).stage_count is None:
        return [0] * architecture.depth
    return [number for number, stage in enumerate(architecture.stages) for _ in range(stage.depth)]


def _check_alike(design: Architecture, which: str) -> None:
    """A schedule of heads gives the layers of one stage different sizes."""
    if families.family(design.family).stage_count is None and len(design.merged().stages) > 1:
        raise ValueError(
            f"the {which} model has layers of different sizes ({design}); only models whose layers are alike can be "
            "inherited"
        )


def check_inheritable(before: Architecture, after: Architecture) -> None:
    """Layers can go, heads can be added or divided, and MLPs can have any size; nothing else."""
    _check_alike(before, "trained")
    _check_alike(after, "lean")
    for number, (old, new) in enumerate(zip(before.stages, after.stages, strict=False), start=1):
        where = f" in stage {number}" if len(before.stages) > 1 else ""
        if new.depth > old.depth:
            raise ArgumentError(
                "{depth}={new} is more than the trained model's {old} layers{where}: give at most as many",
                new=new.depth,
                old=old.depth,
                where=where,
            )
        if new.heads < old.heads:
            raise ArgumentError(
                "{heads}={new} is fewer than the trained model's {old}{where}: heads are added, not removed",
                new=new.heads,
                old=old.heads,
                where=where,
            )
        divided = new.heads % old.heads == 0 and new.inner_width == old.inner_width
        if new.head_dim != old.head_dim and not divided:
            raise ArgumentError(
                "{heads}={new} of {size} cannot be made of {old} heads of {width}{where}: dividing heads needs a "
                "multiple of {old} and the same width of all heads together; {keep}='head_dim' adds heads",
                new=new.heads,
                size=new.head_dim,
                old=old.heads,
                width=old.head_dim,
                where=where,
            )
