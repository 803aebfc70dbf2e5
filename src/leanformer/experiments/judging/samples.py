"""What other samples would have said: seeds and held-out samples both random.

An interval over seeds speaks of other seeds on the very same held-out samples. For samples like these, the difference
of every seed on every sample is divided into a part of the seed, a part of the sample and a rest (two-way analysis of
variance, both factors random, crossed). The half-widths of the seeds' interval and of the samples' add up as squares.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import special

from leanformer.experiments.judging.estimates import Interval, interval
from leanformer.experiments.judging.stopping_rules import ERROR, Rule
from leanformer.foundation.records.base import RecordPart


class SampleInterval(RecordPart):
    """The difference of two arms for samples like the held-out ones. More is better."""

    interval: Interval | None
    """None for a single seed."""
    samples: int
    share_of_samples: float
    """How much of the squared half-width is due to the samples, from 0 to 1."""
    gained: float | None = None
    """Samples per seed that this arm gets right and the other wrong; None where outcomes are not right or wrong."""
    lost: float | None = None
    """Samples per seed that this arm gets wrong and the other right."""


def over_samples(
    ours: Float[ndarray, "seeds samples"],
    theirs: Float[ndarray, "seeds samples"],
    rule: Rule,
    *,
    error: float = ERROR,
    sign: int = 1,
    scale: float = 1.0,
    resolution: float = 0.0,
) -> SampleInterval:
    """The interval for seeds and samples like these.

    Args:
        ours, theirs: the outcome of every seed on every sample; a score is the mean over samples times `scale`.
        rule: when results are looked at.
        error: how often the true difference may lie beyond one end.
        sign: 1 where more is better, −1 where less is.
        scale: 100 for percentages of right answers.
        resolution: the smallest step between two scores.
    """
    if ours.shape != theirs.shape or ours.ndim != 2:
        raise ValueError(f"outcomes of two arms need one shape (seeds, samples), got {ours.shape} and {theirs.shape}")
    seeds, samples = ours.shape
    differences = sign * scale * (ours.astype(np.float64) - theirs)
    over_seeds = interval(differences.mean(axis=1), rule, error, math.sqrt(2) * resolution)
    variance = _variance_of_samples(differences) / samples if samples > 1 and seeds > 1 else 0.0
    half = float(special.stdtrit(samples - 1, 1 - error)) * math.sqrt(variance) if variance else 0.0
    right_or_wrong = bool(np.isin(ours, (0, 1)).all() and np.isin(theirs, (0, 1)).all())
    return SampleInterval(
        interval=None if over_seeds is None else _widened(over_seeds, half),
        samples=samples,
        share_of_samples=half**2 / total if over_seeds and (total := half**2 + over_seeds.half**2) else 0.0,
        gained=float(((ours == 1) & (theirs == 0)).sum(axis=1).mean()) if right_or_wrong else None,
        lost=float(((ours == 0) & (theirs == 1)).sum(axis=1).mean()) if right_or_wrong else None,
    )


def _widened(found: Interval, by: float) -> Interval:
    middle, half = (found.low + found.high) / 2, math.hypot(found.half, by)
    return Interval(low=middle - half, high=middle + half)


def _variance_of_samples(differences: Float[ndarray, "seeds samples"]) -> float:
    """Of the part that a sample has in common in all seeds: what another choice of samples would change."""
    seeds, samples = differences.shape
    by_sample = differences.mean(axis=0)
    rest = differences - by_sample - differences.mean(axis=1, keepdims=True) + differences.mean()
    of_rest = float((rest**2).sum()) / ((seeds - 1) * (samples - 1))
    return max(0.0, float(by_sample.var(ddof=1)) - of_rest / seeds)
