"""The same comparison at several lengths: shorter runs beside the whole ones, and whether a difference still changes.

A verdict at one length may turn at another. Shorter runs have schedules of their own, which end at their last step, so
they are not the first part of the long ones. They take the same seeds, so each difference is paired with its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from leanformer.experiments.arms import LEAN, ORIGINAL
from leanformer.experiments.judging.estimates import Estimate, estimate
from leanformer.experiments.judging.stopping_rules import fixed
from leanformer.experiments.plan import ComparisonPlan
from leanformer.foundation.records.base import RecordPart

FOLDER = "lengths"
FEWEST_STEPS = 2


class Trend(RecordPart):
    """How the difference of lean against the original changes from one length to the next."""

    before: float
    after: float
    """Shares of the whole length."""
    change: Estimate
    """Over seeds: the difference at the greater length minus that at the smaller one."""

    @property
    def is_clear(self) -> bool:
        interval = self.change.t
        return interval is not None and (interval.low > 0 or interval.high < 0)


def shares_of(lengths: str | Sequence[float | str]) -> list[float]:
    """Shares below 1 as given in "1/4,1/2,1", smallest first; the whole length is always run."""
    listed = lengths.split(",") if isinstance(lengths, str) else list(lengths)
    found = set()
    for given in listed:
        try:
            share = float(Fraction(given.strip()) if isinstance(given, str) else given)
        except (ValueError, ZeroDivisionError, TypeError):
            share = 0.0
        if not 0 < share <= 1:
            raise ValueError(f"budgets are shares of the steps above 0 and up to 1, as in 1/4,1/2,1; got {given!r}")
        found.add(share)
    return sorted(found - {1.0})


def length_folder(out: Path, share: float) -> Path:
    return out / FOLDER / f"{share:g}"


def shortened(plan: ComparisonPlan, share: float) -> ComparisonPlan:
    """The plan of the same runs with fewer steps, all seeds planned from the start."""
    steps = {arm: max(FEWEST_STEPS, round(share * whole)) for arm, whole in plan.steps.items()}
    training = plan.training.with_warmup_for(share)
    return plan.changed(
        steps=steps,
        training=training,
        rule=fixed(len(plan.seeds)),
        tuning=None,
        lengths=[],
        amendments=[],
        starts=plan.starts_below(2),
    )


def trends(scores: Mapping[float, Mapping[str, Mapping[str, float]]], sign: float, resolution: float) -> list[Trend]:
    """The change of lean against the original between neighbouring lengths.

    Args:
        scores: by share of the whole length, arm and seed.
        sign: 1 if a higher score is better, else -1.
        resolution: the smallest step between two scores.
    """
    found, shares = [], sorted(scores)
    for before, after in itertools.pairwise(shares):
        runs = [scores[share].get(arm, {}) for share in (before, after) for arm in (LEAN, ORIGINAL)]
        seeds = [seed for seed in runs[0] if all(seed in of_arm for of_arm in runs)]
        if seeds:
            changes = [sign * (runs[2][seed] - runs[3][seed] - runs[0][seed] + runs[1][seed]) for seed in seeds]
            found.append(Trend(before=before, after=after, change=estimate(changes, resolution=resolution)))
    return found
