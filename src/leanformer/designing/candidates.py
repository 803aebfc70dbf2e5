"""What is tried: leaner variants of a model, and what is known about each before training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leanformer.architecture import Architecture, Regime
from leanformer.conditioning.gaussian import expected_log_kappa
from leanformer.costs.closed_forms import Cost, Formula, Setting
from leanformer.designing.guards import Guard, guards
from leanformer.models import families


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One design with everything that is known about it before training."""

    architecture: Architecture
    regime: Regime
    """How its heads changed: `fixed` keeps head_dim, `split` keeps the width."""
    cost: Cost
    gaussian: float
    """κ that a Gaussian block of its worst stage would have."""
    guards: tuple[Guard, ...]

    @property
    def warned(self) -> bool:
        return any(guard.level != "note" for guard in self.guards)

    @property
    def refusal(self) -> Guard | None:
        """The guard that keeps the design out, if there is one."""
        return next((guard for guard in self.guards if guard.level == "refuse"), None)

    def dominates(self, other: Candidate) -> bool:
        """No worse in parameters, memory, predicted κ and depth, and better in one."""
        mine, theirs = self.aims, other.aims
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))

    @property
    def aims(self) -> tuple[float, ...]:
        """What is compared, each better if smaller."""
        cost = self.cost
        return cost.params.total, cost.memory_bytes, round(self.gaussian, 3), -self.architecture.depth


def front(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that no other dominates, largest first."""
    best: list[Candidate] = []
    for candidate in sorted(found, key=lambda candidate: candidate.aims):
        if not any(other.dominates(candidate) for other in best):
            best.append(candidate)
    return sorted(best, key=lambda candidate: -candidate.cost.params.total)


def evaluate(base: Architecture, design: Architecture, regime: Regime, closed: Formula, setting: Setting) -> Candidate:
    """A design with its costs, its guards and its Gaussian prediction."""
    tokens = closed.tokens if len(closed.tokens) > 1 else closed.tokens * len(design.stages)
    concerns: dict[str, Guard] = {}
    for index, (stage, rows) in enumerate(zip(design.stages, tokens, strict=True)):
        for guard in guards(base.stages[min(index, len(base.stages) - 1)], stage, rows, regime):
            concerns.setdefault(guard.name, guard)
    worst = max(expected_log_kappa(rows, stage.inner_width) for stage, rows in zip(design.stages, tokens, strict=True))
    return Candidate(
        architecture=design,
        regime=regime,
        cost=closed.cost(design, setting),
        gaussian=math.exp(worst),
        guards=tuple(concerns.values()),
    )


# What is tried

Tried = tuple[Architecture, Regime]


def candidates(
    base: Architecture, regimes: Sequence[Regime], head_dims: Sequence[int] = (), heads_multiple: int | None = None
) -> Iterator[Tried]:
    """Designs with at least as many heads, at most as many layers and no wider MLP; never the original.

    In the regime `fixed`, `head_dims` may name other sizes to try, and models of one stage also get schedules: as many
    heads as before in one half of the layers and twice as many in the other. Heads, and the key heads that they share,
    are multiples of `heads_multiple`; by default of what the original's are, up to 8.
    """
    multiple = divisor(base) if heads_multiple is None else heads_multiple
    unit = multiple * families.family(base.family).head_unit(base)
    for regime in regimes:
        for sized in [base, *(base.resized(head_dim=size) for size in head_dims if regime == "fixed")]:
            for heads in _head_choices(sized, regime, unit):
                for depth in _depth_choices(base):
                    yield from _with_mlps(base, sized.resized(depth=depth, heads=heads, keep=regime), regime)
            if regime == "fixed" and len(base.stages) == 1:
                for schedule in _schedules(sized, unit):
                    yield from _with_mlps(base, schedule, regime)


MOST_FIXED, MOST_SPLIT = 3, 4
"""At most so many times the original's heads are tried."""
DEVICES = 8
"""The most devices that a layer is usually divided among: those of one machine."""


def divisor(design: Architecture) -> int:
    """The largest of 1, 2, 4 and 8 that divides the heads of every layer, and the key heads that they share.

    Tensor parallelism gives every device the same number of heads.
    """
    shared = families.family(design.family).head_unit(design)
    return math.gcd(DEVICES, *(stage.heads // shared for stage in design.stages))


def _with_mlps(base: Architecture, design: Architecture, regime: Regime) -> Iterator[Tried]:
    for quarters in (4, 3, 2, 1):
        sizes = [max(2, stage.mlp_dim * quarters // 8 * 2) for stage in base.stages]
        changed = design.resized(mlp_dim=sizes if len(sizes) > 1 else sizes[0])
        if changed != base:
            yield changed, regime


def _schedules(base: Architecture, unit: int) -> Iterator[Architecture]:
    heads = _multiple(base.stages[0].heads, unit)
    if 2 * heads > MOST_FIXED * base.stages[0].heads:
        return
    for (depth,) in _depth_choices(base):
        first, second = depth // 2, depth - depth // 2
        for schedule in ([heads] * second + [2 * heads] * first, [2 * heads] * first + [heads] * second):
            design = base.resized(depth=depth, heads=schedule)
            if len(design.stages) == 2 and _buildable(design):
                yield design


def _head_choices(base: Architecture, regime: Regime, unit: int) -> list[list[int]]:
    """For one stage, many counts up to three times the original's; for several, all or the deepest stage doubled.

    All are multiples of `unit`. Splitting the width between as many heads as before is the original again, and is left
    out.
    """
    return [heads for heads in _wanted_heads(base, regime, unit) if _possible(base, heads, regime)]


def _multiple(heads: int, unit: int) -> int:
    """The next multiple of `unit` from so many heads on."""
    return -(-heads // unit) * unit


def _possible(base: Architecture, heads: list[int], regime: Regime) -> bool:
    if regime == "split" and heads == [stage.heads for stage in base.stages]:
        return False
    try:
        return _buildable(base.resized(heads=heads, keep=regime))
    except ValueError:
        return False


def _buildable(design: Architecture) -> bool:
    try:
        families.family(design.family).canonical(design)
    except ValueError:
        return False
    return True


def _wanted_heads(base: Architecture, regime: Regime, unit: int) -> list[list[int]]:
    if len(base.stages) == 1:
        heads = base.stages[0].heads
        first = _multiple(heads, unit)
        if regime == "fixed":
            return [[count] for count in range(first, MOST_FIXED * heads + 1, max(1, heads // 6 // unit) * unit)]
        return [[count] for count in range(first, MOST_SPLIT * heads + 1, unit)]
    now = [stage.heads for stage in base.stages]
    deepest = max(range(len(now)), key=lambda index: base.stages[index].depth)
    wanted = [now, [2 * h for h in now], [2 * h if index == deepest else h for index, h in enumerate(now)]]
    rounded = dict.fromkeys(tuple(_multiple(h, unit) for h in heads) for heads in wanted)
    return [list(heads) for heads in rounded if all(h <= MOST_SPLIT * was for h, was in zip(heads, now, strict=True))]


def _depth_choices(base: Architecture) -> list[list[int]]:
    if len(base.stages) == 1:
        return [[depth] for depth in range(base.depth, math.ceil(base.depth / 4) - 1, -1)]
    return [[max(1, math.ceil(stage.depth * share / 8)) for stage in base.stages] for share in (8, 7, 6, 5, 4, 3, 2)]
