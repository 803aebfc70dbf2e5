"""Means over seeds with their intervals, and the parts of a difference that are due to depth and to heads.

Runs of one seed see the same batches in every arm. Differences are therefore taken seed by seed, so that what a seed
does to all arms cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW, WIDE
from leanformer.experiments.judging.stopping_rules import ERROR, Rule, fixed
from leanformer.foundation.records.base import RecordPart

Scores = Mapping[str, Mapping[Any, float]]
"""By arm, the score of every seed."""


class Interval(RecordPart):
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


class Estimate(RecordPart):
    """A mean over seeds with its spread and intervals, which are None for a single seed."""

    mean: float
    deviation: float | None
    t: Interval | None
    """The mean ± a number of standard errors: Student's t, or more where results are looked at more than once. None
    where the rule allows no interval at so few seeds."""
    bootstrap: Interval | None
    seeds: int


def estimate(
    values: Sequence[float], *, rule: Rule | None = None, error: float = ERROR, resolution: float = 0.0
) -> Estimate:
    """Mean, standard deviation, t interval and the bootstrap's (percentiles of 10,000 resamples).

    Scores come in steps of `resolution` (one sample more or less), so two scores may be equal by chance. The spread is
    therefore never taken to be less than that of rounding to such steps.

    Args:
        values: one for every seed, in the order of the seeds; a rule with planned looks judges the first ones only.
        rule: when results are looked at [default: once].
        error: how often the true mean may lie beyond one end of the interval.
        resolution: the smallest step between two values.
    """
    rule = rule or fixed(len(values))
    sample = np.asarray(values, dtype=np.float64)[: rule.judged(len(values))]
    if sample.size == 0:
        raise ValueError("an estimate needs at least one value, got none")
    if not np.isfinite(sample).all():
        raise ValueError(f"an estimate needs finite values, got {list(values)}")
    several = sample.size > 1
    return Estimate(
        mean=float(sample.mean()),
        deviation=_deviation(sample, resolution) if several else None,
        t=interval(sample, rule, error, resolution),
        bootstrap=_bootstrap(sample, 1 - 2 * error) if several else None,
        seeds=int(sample.size),
    )


def interval(
    sample: Float[ndarray, " seeds"], rule: Rule, error: float = ERROR, resolution: float = 0.0
) -> Interval | None:
    """The mean ± as many standard errors as the rule asks for at this number of seeds; None where that is infinite."""
    if sample.size < 2:
        return None
    half = rule.critical(sample.size, error) * _deviation(sample, resolution) / math.sqrt(sample.size)
    mean = float(sample.mean())
    return Interval(low=mean - half, high=mean + half) if math.isfinite(half) else None


def _deviation(sample: Float[ndarray, " seeds"], resolution: float) -> float:
    return max(float(sample.std(ddof=1)), resolution / math.sqrt(12))


def _bootstrap(sample: Float[ndarray, " seeds"], confidence: float, resamples: int = 10_000) -> Interval:
    draws = np.random.default_rng(0).integers(0, sample.size, (resamples, sample.size))
    low, high = np.quantile(sample[draws].mean(axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low=float(low), high=float(high))


def differences(ours: Mapping[Any, float], theirs: Mapping[Any, float], sign: int = 1) -> list[float]:
    """Seed by seed, over the seeds that both have, where more is better."""
    return [sign * (ours[seed] - theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def paired(
    ours: Mapping[Any, float],
    theirs: Mapping[Any, float],
    sign: int = 1,
    resolution: float = 0.0,
    *,
    rule: Rule | None = None,
    error: float = ERROR,
) -> Estimate | None:
    """The difference seed by seed, where more is better; None without a seed in common."""
    found = differences(ours, theirs, sign)
    return estimate(found, rule=rule, error=error, resolution=math.sqrt(2) * resolution) if found else None


class Effects(RecordPart):
    """Where the difference between lean and original comes from, seed by seed. More is better in all of them."""

    total: Estimate
    """lean − original."""
    depth: Estimate
    """shallow − original: fewer layers alone."""
    heads: Estimate
    """lean − shallow: heads and MLP, at the lean depth."""
    heads_at_full_depth: Estimate | None = None
    """wide − original: heads and MLP, at the original's depth."""
    interaction: Estimate | None = None
    """How much more heads and MLP give in the shallow model than in the deep one."""


def effects(scores: Scores, sign: int = 1, resolution: float = 0.0, rule: Rule | None = None) -> Effects | None:
    """The parts due to depth and to heads, from the seeds that all arms concerned have; None without the control."""
    if any(not scores.get(arm) for arm in (ORIGINAL, LEAN, SHALLOW)):
        return None
    common = set.intersection(*(set(scores[arm]) for arm in (ORIGINAL, LEAN, SHALLOW)))

    def combined(weights: Mapping[str, int]) -> Estimate | None:
        """Over the seeds that all arms have, so that parts add up to the whole."""
        seeds = sorted(common.intersection(*(set(scores[arm]) for arm in weights)))
        if not seeds:
            return None
        values = [sign * sum(w * scores[arm][seed] for arm, w in weights.items()) for seed in seeds]
        return estimate(values, rule=rule, resolution=math.sqrt(len(weights)) * resolution)

    total = combined({LEAN: 1, ORIGINAL: -1})
    depth = combined({SHALLOW: 1, ORIGINAL: -1})
    heads = combined({LEAN: 1, SHALLOW: -1})
    if total is None or depth is None or heads is None:
        return None
    if not scores.get(WIDE):
        return Effects(total=total, depth=depth, heads=heads)
    return Effects(
        total=total,
        depth=depth,
        heads=heads,
        heads_at_full_depth=combined({WIDE: 1, ORIGINAL: -1}),
        interaction=combined({LEAN: 1, SHALLOW: -1, WIDE: -1, ORIGINAL: 1}),
    )
