"""How often verdicts are wrong, and how many seeds they take: measured on scores whose truth is known.

The true difference is exactly the margin, which is the hardest case: every "holds" and every "loses" is an error then,
and each may occur in 2.5 % of comparisons. Then the true difference is moved away from the margin, to see how many
seeds a decision takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from leanformer.experiments.judging.stopping_rules import ALWAYS, ERROR, FEWEST_SEEDS, Rule, fixed, planned_looks
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of

MOST = 30
"""Seeds of the longest comparison."""
EFFECTS = (0.5, 1.0, 2.0)
"""Distances of the truth from the margin, in standard deviations of the differences."""

Draw = Callable[[np.random.Generator, tuple[int, int]], Float[ndarray, "sequences seeds"]]


def _rounded(draw: np.random.Generator, shape: tuple[int, int]) -> Float[ndarray, "sequences seeds"]:
    """Differences of two scores that come in steps of half their standard deviation, on a grid of random offset."""
    scores = draw.normal(0, math.sqrt(0.5), (2, *shape))
    offset = draw.uniform(0, 1, (shape[0], 1))
    return _to_steps(scores[0] + offset) - _to_steps(scores[1] + offset)


def _to_steps(scores: Float[ndarray, "sequences seeds"]) -> Float[ndarray, "sequences seeds"]:
    return np.round(scores / RESOLUTION) * RESOLUTION


RESOLUTION = 0.5
DISTRIBUTIONS: Mapping[str, Draw] = {
    "normal": lambda draw, shape: draw.standard_normal(shape),
    "heavy-tailed": lambda draw, shape: draw.standard_t(3, shape) / math.sqrt(3),
    "rounded": _rounded,
}
"""Differences with a mean of 0 and a standard deviation of about 1."""


class Stopping(RecordPart):
    """One way to add seeds, on one kind of scores."""

    way: str
    scores: str
    wrong_holds: float
    """Share of comparisons that say "holds" although the model is exactly a margin worse."""
    wrong_loses: float
    decided: dict[str, float]
    """By the distance of the truth from the margin: the share of comparisons that reach a verdict."""
    seeds: dict[str, float]
    """Likewise: the mean number of seeds at which they stop."""
    promised: bool
    """Whether the way promises at most 2.5 % each. Looking after every seed with a plain t interval does not."""


class Simulation(DatedRecord):
    """Error rates of verdicts."""

    kind: ClassVar[str] = "simulation"

    sequences: int
    seed: int
    rows: list[Stopping]
    better_by_chance: dict[str, float]
    """Four arms without any difference: how often at least one is called better, corrected and not."""

    def within_bounds(self, sigmas: float = 4.0) -> bool:
        """Whether every promised rate is at most 2.5 %, up to the simulation's own error."""
        allowed = ERROR + sigmas * math.sqrt(ERROR * (1 - ERROR) / self.sequences)
        return all(max(row.wrong_holds, row.wrong_loses) <= allowed for row in self.rows if row.promised)


def simulate(sequences: int = 20_000, seed: int = 0) -> Simulation:
    """Error rates and numbers of seeds of all ways to stop.

    Args:
        sequences: simulated comparisons per row. The standard error of a rate of 2.5 % is 0.11 points at 20,000.
        seed: of the generator.
    """
    if sequences < 100:
        raise ValueError(f"sequences must be at least 100, got {sequences}")
    ways = {
        **{f"{seeds} seeds, judged once": (fixed(seeds), [seeds], True) for seeds in (3, 5, 10, 30)},
        f"planned looks, up to {MOST}": (planned_looks(MOST), planned_looks(MOST).looks, True),
        f"no plan, every seed to {MOST}": (ALWAYS, range(FEWEST_SEEDS, MOST + 1), True),
        f"plain t, every seed to {MOST}": (None, range(FEWEST_SEEDS, MOST + 1), False),
    }
    draw = np.random.default_rng(seed)
    rows = [
        _row(way, rule, list(looks), promised, name, functools.partial(DISTRIBUTIONS[name], draw), sequences)
        for way, (rule, looks, promised) in ways.items()
        for name in DISTRIBUTIONS
    ]
    return Simulation(
        sequences=sequences,
        seed=seed,
        rows=rows,
        better_by_chance=_better_by_chance(draw, sequences),
        **fields_of(circumstances()),
    )


def _row(
    way: str,
    rule: Rule | None,
    looks: Sequence[int],
    promised: bool,
    name: str,
    draw: Callable[[tuple[int, int]], Float[ndarray, "sequences seeds"]],
    sequences: int,
) -> Stopping:
    resolution = RESOLUTION if name == "rounded" else 0.0

    def stopped(effect: float) -> tuple[Int[ndarray, " sequences"], Int[ndarray, " sequences"]]:
        return _stop(draw((sequences, max(looks))) + effect, rule, looks, resolution)

    outcome, _ = stopped(0.0)
    decided, seeds = {}, {}
    for effect in EFFECTS:
        found, at = stopped(effect)
        decided[str(effect)], seeds[str(effect)] = float(np.mean(found != 0)), float(np.mean(at))
    return Stopping(
        way=way,
        scores=name,
        wrong_holds=float(np.mean(outcome == 1)),
        wrong_loses=float(np.mean(outcome == -1)),
        decided=decided,
        seeds=seeds,
        promised=promised,
    )


def _stop(
    differences: Float[ndarray, "sequences seeds"], rule: Rule | None, looks: Sequence[int], resolution: float
) -> tuple[Int[ndarray, " sequences"], Int[ndarray, " sequences"]]:
    """Of each sequence, 1 for holds, −1 for loses, 0 for undecided; and the number of seeds at which it stopped.

    The margin is zero here: only the distance from it matters.
    """
    outcome = np.zeros(len(differences), dtype=np.int64)
    stopped_at = np.full(len(differences), looks[-1])
    sums, squares = np.cumsum(differences, axis=1), np.cumsum(differences**2, axis=1)
    least = math.sqrt(2) * resolution / math.sqrt(12)
    for look in looks:
        mean = sums[:, look - 1] / look
        variance = (squares[:, look - 1] - look * mean**2) / (look - 1)
        error = np.maximum(np.sqrt(np.maximum(variance, 0)), least) / math.sqrt(look)
        half = (rule or fixed(look)).critical(look) * error
        sides = (mean - half >= 0).astype(np.int64) - (mean + half < 0)
        new: Bool[ndarray, " sequences"] = (outcome == 0) & (sides != 0)
        outcome[new], stopped_at[new] = sides[new], look
    return outcome, stopped_at


def _better_by_chance(draw: np.random.Generator, comparisons: int, others: int = 3, seeds: int = 5) -> dict[str, float]:
    """How often one of several arms without any difference is called better than the original.

    With Holm's correction some arm is, exactly if the clearest of them survives the smallest error.
    """
    scores = draw.standard_normal((comparisons, 1 + others, seeds))
    differences = scores[:, 1:] - scores[:, :1]
    clearest = np.max(differences.mean(axis=2) / differences.std(axis=2, ddof=1), axis=1) * math.sqrt(seeds)
    rule = fixed(seeds)
    return {
        "corrected": float(np.mean(clearest > rule.critical(seeds, ERROR / others))),
        "not corrected": float(np.mean(clearest > rule.critical(seeds, ERROR))),
    }
