"""What a number of seeds can show, before they are trained: by the spread of earlier records, where there are any."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leanformer.experiments.judging.stopping_rules import ERROR, FEWEST_SEEDS, Rule, fixed, t_statistics
from leanformer.foundation.formats import decimals

CHANCE = 0.8
"""How often a difference must be decided to count as one that the seeds can show."""
SHOWN = (3, 5, 10, 20, 30)
SEQUENCES = 20_000


@dataclass(frozen=True)
class Spread:
    """How much the paired difference of lean and original varied between seeds."""

    deviation: float
    seeds: int
    source: str
    """The folder of the record."""


def decidable(rule: Rule) -> float:
    """How far from the margin a true difference must be to be decided in most cases, in standard deviations."""
    return _decidable(rule.kind, tuple(rule.looks))


@functools.lru_cache(maxsize=64)
def _decidable(kind: str, looks: tuple[int, ...]) -> float:
    if not looks or looks[-1] < FEWEST_SEEDS:
        return math.inf
    rule = Rule.model_validate({"kind": kind, "looks": list(looks)})
    criticals = [rule.critical(look, ERROR) for look in looks]

    def chance(effect: float) -> float:
        found = t_statistics(looks, SEQUENCES, np.random.default_rng(0), effect)
        decided = np.zeros(SEQUENCES, dtype=bool)
        for statistics, critical in zip(found, criticals, strict=True):
            decided |= np.abs(statistics) >= critical
        return float(decided.mean())

    low, high = 0.0, 64.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= CHANCE else (middle, high)
    return high


def power_words(rule: Rule, unit: str, spread: Spread | None) -> str:
    """What the planned seeds decide, and what other numbers of seeds would."""
    others = [seeds for seeds in SHOWN if seeds != rule.most]
    planned = decidable(rule)
    if spread is None:
        listed = ", ".join(f"{seeds} seeds {decidable(fixed(seeds)):.1f}" for seeds in others)
        deviations = f"{planned:.1f} standard deviations of the paired differences"
        return (
            f"{_planned(rule, deviations)} (judged once: {listed}). "
            f"How large such a deviation is, no earlier record of this comparison says."
        )
    name, places = "points" if unit == "%" else unit, max(1, decimals(unit))

    def shown(distance: float) -> str:
        return f"{distance * spread.deviation:.{places}f}"

    listed = ", ".join(f"{seeds} seeds {shown(decidable(fixed(seeds)))}" for seeds in others)
    return (
        f"{_planned(rule, f'{shown(planned)} {name}'.strip())} (judged once: {listed}), if differences spread as in "
        f"{spread.source}: {spread.deviation:.{places}f} over {spread.seeds} seeds."
    )


def _planned(rule: Rule, distance: str) -> str:
    if not math.isfinite(decidable(rule)):
        return f"Fewer than {FEWEST_SEEDS} seeds decide nothing"
    seeds = f"Up to {rule.most} seeds" if rule.kind == "looks" else f"{rule.most} seeds"
    return f"{seeds} decide true differences that are {distance} from the margin, in {100 * CHANCE:.0f} % of cases"


def earlier_spread(name: str, metric: str, out: Path, record: str) -> Spread | None:
    """The spread in the record of that name with the most seeds, in a folder or beside it.

    Args:
        name: of the comparison.
        metric: whose differences are meant.
        out: the folder.
        record: what records are called.
    """
    from leanformer.experiments.comparison_records import Comparison

    found = []
    for file in sorted({out / record, *out.parent.glob(f"*/{record}")}):
        if not file.is_file():
            continue
        try:
            earlier = Comparison.read(file)
        except ValueError:  # damaged ones are reported where they are used
            continue
        main = earlier.verdict.main
        if earlier.name == name and earlier.metric.name == metric and main is not None and main.difference.seeds > 2:
            deviation = main.difference.deviation
            if deviation:
                found.append(Spread(deviation, main.difference.seeds, str(file.parent)))
    return max(found, key=lambda spread: spread.seeds, default=None)
