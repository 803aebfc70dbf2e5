"""When the results of seeds may be looked at, and how wide an interval must be for it.

Whoever looks after every seed and stops when the verdict is welcome is wrong more often than a t interval says. Three
rules keep the promise, each for another way to work:

- **fixed**: the number of seeds is chosen beforehand, and the results are judged once. Student's t.
- **looks**: the results are judged at planned numbers of seeds, and training stops at the first verdict. The critical
  values are those of a group-sequential t test: the error is spent in proportion to the seeds (a look at n of N seeds
  may have used up n/N of it). They are exact for normal differences, because the t statistics of all looks have a
  joint distribution without unknowns, which is simulated here with a fixed seed.
- **always**: seeds were added without a plan. The interval is a confidence sequence, valid at every number of seeds:
  the values against which a Bayes factor with a normal prior on the standardized difference, and the right Haar prior
  on its spread, stays below 1/α. (Lai 1976 has the test; Grünwald, de Heide and Koolen 2024 have its validity.)

`leanformer judge --simulate` measures the error rates of all three, and how many seeds they take.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Annotated, Literal, Self

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field, model_validator
from scipy import special

from leanformer.foundation.records.base import RecordPart

ERROR = 0.025
"""How often "holds" may be wrong, and how often "loses" may be: the two tails of a 95 % interval."""
FEWEST_SEEDS = 3
"""A verdict on fewer seeds would rest on a spread that is hardly known."""
MOST_SEEDS = 1000
"""Beyond so many seeds the answer is "more than anyone would run"."""
FIRST_LOOK = 4
"""At 3 seeds the critical value of a planned look is above 10: such a look decides nothing and costs error."""
GROWTH = 1.45
"""Each look has about so many times the seeds of the one before."""
PRIOR_DEVIATION = 1.0
"""Of the standardized difference, in the confidence sequence: tightest from about 6 to 30 seeds."""
SIMULATED = 2_000_000
"""Sequences from which critical values are taken. They vary by less than 1 % with the generator's seed."""

Seeds = Annotated[int, Field(ge=2)]


class Rule(RecordPart):
    """When the results are judged."""

    kind: Literal["fixed", "looks", "always"]
    looks: list[Seeds] = []
    """The numbers of seeds at which the results are judged; for the fixed rule, one number."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "looks" and (not self.looks or any(b <= a for a, b in itertools.pairwise(self.looks))):
            raise ValueError(f"looks must be growing numbers of seeds, such as [4, 6, 9], got {self.looks}")
        return self

    def judged(self, seeds: int) -> int:
        """Of so many finished seeds, how many are judged: those of the last look that is complete, or all."""
        if self.kind != "looks":
            return seeds
        return max((look for look in self.looks if look <= seeds), default=seeds)

    def critical(self, seeds: int, error: float = ERROR) -> float:
        """How many standard errors the interval reaches to each side, at this number of seeds; may be infinite.

        Args:
            seeds: how many differences there are.
            error: how often the true value may lie beyond one end.
        """
        if seeds < 2:
            return math.inf
        if self.kind == "always":
            return always_valid(seeds, 2 * error)
        if self.kind == "fixed" or seeds < self.looks[0]:
            return float(special.stdtrit(seeds - 1, 1 - error))
        reached = max(index for index, look in enumerate(self.looks) if look <= seeds)
        return boundaries(tuple(self.looks), error)[reached]

    def following(self, seeds: int) -> int | None:
        """The next planned number of seeds after so many; None exactly at a look, after the last, or without a plan."""
        return None if seeds in self.looks else next((look for look in self.looks if look > seeds), None)

    @property
    def most(self) -> int | None:
        """The last number of seeds; None where there is none."""
        return self.looks[-1] if self.looks else None


ALWAYS = Rule(kind="always")


def fixed(seeds: int) -> Rule:
    """Judged once."""
    return Rule(kind="fixed", looks=[seeds] if seeds >= 2 else [])


def planned_looks(most: int) -> Rule:
    """Looks at growing numbers of seeds, up to the most that will be run."""
    if most < FIRST_LOOK:
        raise ValueError(f"stopping at a verdict needs a limit of at least {FIRST_LOOK} seeds, got {most}")
    looks = [FIRST_LOOK]
    while (following := max(looks[-1] + 1, round(GROWTH * looks[-1]))) < most:
        looks.append(following)
    if len(looks) > 1 and most < 1.2 * looks[-1]:
        looks.pop()
    return Rule(kind="looks", looks=[*looks, most] if most > looks[-1] else looks)


def always_valid(seeds: int, error: float) -> float:
    """The critical value of the confidence sequence, for both sides together."""
    growth = 1 + seeds * PRIOR_DEVIATION**2
    ratio = (math.sqrt(growth) / error) ** (2 / seeds)
    if ratio >= growth:
        return math.inf
    return math.sqrt((seeds - 1) * (ratio - 1) / (1 - ratio / growth))


@functools.lru_cache(maxsize=256)
def boundaries(looks: tuple[int, ...], error: float) -> tuple[float, ...]:
    """The critical value of each look, such that all looks together are wrong to one side with probability `error`."""
    # Both signs are equally likely, so each simulated sequence serves both sides.
    sizes = [np.abs(found) for found in t_statistics(looks, SIMULATED, np.random.default_rng(0))]
    undecided = np.ones(SIMULATED, dtype=bool)
    found, spent = [], 0
    for look, size in zip(looks, sizes, strict=True):
        allowed = round(2 * error * SIMULATED * look / looks[-1])
        left = size[undecided]
        critical = float(np.partition(left, left.size - (allowed - spent))[left.size - (allowed - spent)])
        undecided &= size < critical
        found.append(critical)
        spent = allowed
    return tuple(found)


def t_statistics(
    looks: tuple[int, ...], sequences: int, draw: np.random.Generator, effect: float = 0.0
) -> list[Float[ndarray, " sequences"]]:
    """The t statistic at each look, of normal differences whose mean is so many standard deviations.

    Only the mean and the spread of the seeds between two looks matter, so only these are drawn.
    """
    found, seeds = [], 0
    mean, squares = np.zeros(sequences), np.zeros(sequences)
    for look in looks:
        new = look - seeds
        mean_of_new = effect + draw.standard_normal(sequences) / math.sqrt(new)
        squares += (mean_of_new - mean) ** 2 * (seeds * new / look)
        if new > 1:
            squares += draw.chisquare(new - 1, sequences)
        mean = (seeds * mean + new * mean_of_new) / look
        seeds = look
        found.append(mean / np.sqrt(squares / ((look - 1) * look)))
    return found
