"""Rare failures: what a mean over a few seeds hides.

A model that fails in one run of ten looks perfect in most sets of five seeds. So beside the mean stand the share of
bad runs with its upper bound, and a warning where a single seed makes most of the spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special  # scipy.stats has the same quantiles, and takes a second to import

from leanformer.foundation.records.base import RecordPart

CONFIDENCE = 0.95
FAR = 5.0
"""A run is bad if it is worse than its arm's median by more than so many deviations (and by more than the margin)."""
OUTLIER_ERROR = 0.01
"""How often normal differences may raise the warning about one seed."""


class BadRuns(RecordPart):
    """Of one arm: how many runs diverged or ended far below the others."""

    bad: int
    runs: int
    upper: float
    """Shares of bad runs above this are excluded with 95 % confidence (Clopper and Pearson)."""


def upper_bound(bad: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """The largest share of bad runs that is compatible with what was seen."""
    return 1.0 if bad >= runs else float(special.betaincinv(bad + 1, runs - bad, confidence))


def bad_runs(
    scores: Mapping[str, Sequence[float]], diverged: Sequence[str], margin: float, sign: int = 1
) -> dict[str, BadRuns]:
    """By arm. The usual spread is that of all arms together, around their medians, so that one bad run hides nothing.

    Args:
        scores: of the finished runs, by arm.
        diverged: the arm of each run that diverged.
        margin: a run within the margin of its arm's median is not bad.
        sign: 1 where more is better, −1 where less is.
    """
    shortfalls = {arm: float(np.median(found)) - np.asarray(found) for arm, found in scores.items() if len(found)}
    around = np.concatenate([np.abs(found) for found in shortfalls.values() if found.size > 1] or [np.zeros(1)])
    usual = 1.4826 * float(np.median(around))  # of normal scores, their standard deviation
    limit = max(FAR * usual, margin)
    found = {}
    for arm in scores:
        far = int(np.sum(sign * shortfalls[arm] > limit)) if arm in shortfalls else 0
        runs = len(scores[arm]) + diverged.count(arm)
        if runs:
            bad = far + diverged.count(arm)
            found[arm] = BadRuns(bad=bad, runs=runs, upper=upper_bound(bad, runs))
    return found


def dominating(differences: Mapping[Any, float], least: float = 0.0) -> Any | None:
    """The seed whose difference is an outlier by Grubbs's test, so that it alone makes most of the spread; or None.

    Args:
        differences: by seed.
        least: seeds that are closer to the median than this do not matter.
    """
    values, count = np.asarray(list(differences.values()), dtype=np.float64), len(differences)
    if count < 4 or not (deviation := float(values.std(ddof=1))):
        return None
    distances = np.abs(values - values.mean()) / deviation
    if abs(values[distances.argmax()] - np.median(values)) <= least:
        return None
    t = float(special.stdtrit(count - 2, 1 - OUTLIER_ERROR / (2 * count)))
    limit = (count - 1) / math.sqrt(count) * math.sqrt(t**2 / (count - 2 + t**2))
    return list(differences)[int(distances.argmax())] if distances.max() > limit else None
