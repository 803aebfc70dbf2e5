"""What a few seeds allow to be said: paired differences, their intervals, and a verdict against a stated margin.

Runs of one seed see the same batches in every arm. Differences are therefore taken seed by seed, so that what a seed
does to all arms cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import computed_field
from scipy import stats

from leanformer.experiments import sentences
from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW, WIDE
from leanformer.experiments.sentences import FEWEST_SEEDS, MOST_SEEDS
from leanformer.foundation.records.base import RecordPart

CONFIDENCE = 0.95
POWER = 0.8

Outcome = Literal["holds", "loses", "cannot tell"]
Scores = Mapping[str, Mapping[int, float]]
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
    bootstrap: Interval | None
    seeds: int


def estimate(values: Sequence[float], confidence: float = CONFIDENCE, resolution: float = 0.0) -> Estimate:
    """Mean, standard deviation, Student's t interval and the bootstrap's (percentiles of 10,000 resamples).

    Scores come in steps of `resolution` (one sample more or less), so two scores may be equal by chance. The spread is
    therefore never taken to be less than that of rounding to such steps.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("an estimate needs at least one value, got none")
    if not np.isfinite(sample).all():
        raise ValueError(f"an estimate needs finite values, got {list(values)}")
    mean = float(sample.mean())
    if sample.size == 1:
        return Estimate(mean=mean, deviation=None, t=None, bootstrap=None, seeds=1)
    deviation = max(float(sample.std(ddof=1)), resolution / math.sqrt(12))
    half = float(stats.t.ppf((1 + confidence) / 2, sample.size - 1)) * deviation / math.sqrt(sample.size)
    return Estimate(
        mean=mean,
        deviation=deviation,
        t=Interval(low=mean - half, high=mean + half),
        bootstrap=_bootstrap(sample, confidence),
        seeds=int(sample.size),
    )


def _bootstrap(sample: np.ndarray, confidence: float, resamples: int = 10_000) -> Interval:
    draws = np.random.default_rng(0).integers(0, sample.size, (resamples, sample.size))
    low, high = np.quantile(sample[draws].mean(axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low=float(low), high=float(high))


class Verdict(RecordPart):
    """One arm against another. Differences are signed so that more is better."""

    arm: str
    against: str
    outcome_of_finished: Outcome
    """By the runs that finished."""
    difference: Estimate
    margin: float
    more_seeds: int | None
    """About how many more seeds would decide it, where it is undecided; None if more than anyone would run."""
    unit: str = ""
    """Of the score."""
    diverged: dict[str, int] = {}
    """Runs that diverged, by arm. An arm is not judged by its luckier runs."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Outcome:
        return "cannot tell" if self.diverged else self.outcome_of_finished

    @computed_field  # type: ignore[prop-decorator]
    @property
    def words(self) -> str:
        return sentences.verdict(self)


def compare_pairs(
    arm: str,
    against: str,
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    margin: float,
    sign: int = 1,
    unit: str = "",
    resolution: float = 0.0,
    diverged: Mapping[str, int] | None = None,
) -> Verdict:
    """Non-inferiority over the seeds that both arms have finished: an arm holds if it is worse by at most the margin.

    Args:
        arm, against: names, for the words.
        ours, theirs: a score for every seed.
        margin: what difference would matter, in the score's units.
        sign: 1 where more is better, −1 where less is.
        unit: of the score, for the words.
        resolution: the smallest step between two scores.
        diverged: runs that diverged, by arm.
    """
    if margin < 0:
        raise ValueError(f"the margin must not be negative, got {margin}")
    difference = paired(ours, theirs, sign, resolution)
    if difference is None:
        raise ValueError(f"{arm} and {against} have no seed in common")
    outcome, more = decide(difference, margin)
    return Verdict(
        arm=arm,
        against=against,
        outcome_of_finished=outcome,
        difference=difference,
        margin=margin,
        more_seeds=more,
        unit=unit,
        diverged=dict(diverged or {}),
    )


def paired(
    ours: Mapping[Any, float], theirs: Mapping[Any, float], sign: int = 1, resolution: float = 0.0
) -> Estimate | None:
    """The difference seed by seed, where more is better; None without a seed in common."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    return estimate([sign * (ours[seed] - theirs[seed]) for seed in seeds], resolution=math.sqrt(2) * resolution)


def decide(difference: Estimate, margin: float) -> tuple[Outcome, int | None]:
    if difference.t is None or difference.seeds < FEWEST_SEEDS:
        return "cannot tell", FEWEST_SEEDS - difference.seeds
    if difference.t.low >= -margin:
        return "holds", 0
    if difference.t.high < -margin:
        return "loses", 0
    return "cannot tell", more_seeds(difference, margin)


def more_seeds(difference: Estimate, margin: float) -> int | None:
    """About how many more seeds decide it with a probability of 80 %, if mean and spread are as seen so far."""
    assert difference.deviation is not None
    counts = np.arange(difference.seeds + 1, MOST_SEEDS + 1)
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, counts - 1) + stats.t.ppf(POWER, counts - 1)
    enough = np.flatnonzero(reach * difference.deviation / np.sqrt(counts) <= abs(difference.mean + margin))
    return int(counts[enough[0]]) - difference.seeds if enough.size else None


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


def effects(scores: Scores, sign: int = 1, resolution: float = 0.0) -> Effects | None:
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
        return estimate(values, resolution=math.sqrt(len(weights)) * resolution)

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
