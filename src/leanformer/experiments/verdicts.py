"""What a few seeds allow to be said: paired differences, their intervals, and a verdict against a stated margin.

Runs of one seed see the same batches in every arm, so differences are taken seed by seed: what a seed does to all arms
drops out. NumPy and SciPy only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
POWER = 0.8
FEWEST_SEEDS = 3
"""A verdict on fewer seeds would rest on a spread that is hardly known."""
MOST_SEEDS = 1000
"""Beyond so many seeds the answer is "more than anyone would run"."""

Outcome = Literal["holds", "loses", "cannot tell"]


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its spread and intervals; None where one seed gives none."""

    mean: float
    deviation: float | None
    t: Interval | None
    bootstrap: Interval | None
    seeds: int


def estimate(values: Sequence[float], confidence: float = CONFIDENCE, resolution: float = 0.0) -> Estimate:
    """Mean, standard deviation, Student's t interval and the bootstrap's (percentiles of 10,000 resamples).

    Scores come in steps of `resolution` (one sample more or less), so that two may be equal by chance: the spread is
    never taken to be less than that of rounding to such steps.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("an estimate needs at least one value, got none")
    if not np.isfinite(sample).all():
        raise ValueError(f"an estimate needs finite values, got {list(values)}")
    mean = float(sample.mean())
    if sample.size == 1:
        return Estimate(mean, None, None, None, 1)
    deviation = max(float(sample.std(ddof=1)), resolution / math.sqrt(12))
    half = float(stats.t.ppf((1 + confidence) / 2, sample.size - 1)) * deviation / math.sqrt(sample.size)
    return Estimate(
        mean, deviation, Interval(mean - half, mean + half), _bootstrap(sample, confidence), int(sample.size)
    )


def _bootstrap(sample: np.ndarray, confidence: float, resamples: int = 10_000) -> Interval:
    draws = np.random.default_rng(0).integers(0, sample.size, (resamples, sample.size))
    low, high = np.quantile(sample[draws].mean(axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class Verdict:
    """One arm against another, in the direction where more is better."""

    arm: str
    against: str
    outcome: Outcome
    difference: Estimate
    margin: float
    more_seeds: int | None
    """About how many more seeds would decide it, where it is undecided; None if more than anyone would run."""
    words: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_pairs(
    arm: str,
    against: str,
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    margin: float,
    sign: int = 1,
    unit: str = "",
    resolution: float = 0.0,
) -> Verdict:
    """Non-inferiority by seeds that both arms have finished: the arm holds if it is worse by no more than the margin.

    Args:
        arm, against: names, for the words.
        ours, theirs: a score for every seed.
        margin: what difference would matter, in the score's units.
        sign: 1 where more is better, −1 where less is.
        unit: of the score, for the words.
        resolution: the smallest step between two scores.
    """
    if margin < 0:
        raise ValueError(f"the margin must not be negative, got {margin}")
    difference = paired(ours, theirs, sign, resolution)
    if difference is None:
        raise ValueError(f"{arm} and {against} have no seed in common")
    outcome, more = _decide(difference, margin)
    words = _words(arm, against, outcome, difference, margin, more, unit)
    return Verdict(arm, against, outcome, difference, margin, more, words)


def paired(
    ours: Mapping[Any, float], theirs: Mapping[Any, float], sign: int = 1, resolution: float = 0.0
) -> Estimate | None:
    """The difference seed by seed, where more is better; None without a seed in common."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    return estimate([sign * (ours[seed] - theirs[seed]) for seed in seeds], resolution=math.sqrt(2) * resolution)


def _decide(difference: Estimate, margin: float) -> tuple[Outcome, int | None]:
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


def _words(
    arm: str, against: str, outcome: Outcome, difference: Estimate, margin: float, more: int | None, unit: str
) -> str:
    if difference.t is None:
        shown = f"{signed(difference, unit)} in one seed, which has no interval"
    else:
        shown = f"{signed(difference, unit)} over {difference.seeds} seeds"
    limit = f"margin {margin:g}"
    if outcome == "cannot tell":
        roughly = "about" if difference.seeds >= FEWEST_SEEDS else "at least"
        needed = (
            f"{roughly} {more} more seed{'s' * (more > 1)} needed" if more else f"more than {MOST_SEEDS} seeds needed"
        )
        return f"cannot tell: {needed} for {arm} against {against} ({shown}, {limit})"
    extra = ""
    if outcome == "holds" and difference.t is not None:
        if difference.t.low > 0:
            extra = " and is better"
        elif difference.t.high < 0:
            extra = ", measurably lower but within the margin"
    return f"{arm} {outcome} against {against}{extra}: {shown}, {limit}"


def signed(difference: Estimate, unit: str) -> str:
    """A difference with its unit and interval: hundredths of points, thousandths of anything else."""
    places, name = (2, "points") if unit == "%" else (3, unit)
    shown = f"{difference.mean:+.{places}f}" + (f" {name}" if name else "")
    if difference.t is None:
        return shown
    return f"{shown} [{difference.t.low:+.{places}f}, {difference.t.high:+.{places}f}]"


@dataclass(frozen=True)
class Effects:
    """Where the difference between lean and original comes from, seed by seed; all where more is better."""

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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def effects(scores: Mapping[str, Mapping[int, float]], sign: int = 1, resolution: float = 0.0) -> Effects | None:
    """The parts due to depth and to heads, from the seeds that all arms concerned have; None without the control."""
    if any(not scores.get(arm) for arm in ("original", "lean", "shallow")):
        return None

    common = set.intersection(*(set(scores[arm]) for arm in ("original", "lean", "shallow")))

    def combined(**weights: int) -> Estimate | None:
        """Over the seeds that all arms have, so that parts add up to the whole."""
        seeds = sorted(common.intersection(*(set(scores[arm]) for arm in weights)))
        if not seeds:
            return None
        values = [sign * sum(w * scores[arm][seed] for arm, w in weights.items()) for seed in seeds]
        return estimate(values, resolution=math.sqrt(len(weights)) * resolution)

    parts = [
        combined(lean=1, original=-1),
        combined(shallow=1, original=-1),
        combined(lean=1, shallow=-1),
    ]
    if any(part is None for part in parts):
        return None
    more = {}
    if scores.get("wide"):
        more["heads_at_full_depth"] = combined(wide=1, original=-1)
        more["interaction"] = combined(lean=1, shallow=-1, wide=-1, original=1)
    return Effects(*parts, **more)  # type: ignore[arg-type]
