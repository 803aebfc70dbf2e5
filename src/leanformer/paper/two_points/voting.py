"""Two layers of rank-1 heads that vote: depth makes up for rank, for two points.

The paper says that for short sequences several layers of low rank approximate the target (abstract; Section 6 of the
preprint, "Efficient Approximation Using Depth"). Its construction is not in the text that this project has. The
authors' code (`majority_vote.py`) holds its core: a head with equal query and key, in a random direction, is right
with probability 1 − arccos|t| / π, where t is the cosine of the angle between the query and the difference of the
points. That is more than ½, so a majority of enough heads is right. The shortest network that does so is built here:

- every point has a position, 1 or -1, appended to it;
- layer 1 has H heads of rank 1, which write the mean position of the points that they attend to: the vote;
- layer 2 has one head of rank 1, whose query is the vote and whose keys are the positions; it reads the point.

Without positions the second layer could not recognise the point by one number. Only two points are covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import ClassVar

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

from leanformer.data.order import stream
from leanformer.foundation.arguments import at_least, numbers
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.paper.two_points.bound import lower_bound
from leanformer.paper.two_points.samples import HEADS, HELD_OUT, choices, draw, unit

DIMS = (8, 16, 32, 64)
COUNTS = (15, 63, 255, 1023, 4095)


class VotingRow(RecordPart):
    """So many heads in the first layer."""

    dim: int
    heads: int
    one_layer: tuple[float, ...]
    """The error of the first layer's mean alone, at its best multiple of the vote; one for every seed."""
    two_layers: tuple[float, ...]
    expected: float
    """Of two layers, by the probability that a head is right."""
    bound: float
    """No single layer of as many heads of rank 1, and one more, is better than this."""

    @property
    def error(self) -> float:
        return mean(self.two_layers)


class Voting(DatedRecord):
    """What `leanformer paper voting` writes."""

    kind: ClassVar[str] = "voting"
    version: ClassVar[int] = 1

    samples: int
    seeds: int
    rows: tuple[VotingRow, ...]

    def glance(self) -> str:
        most = max(row.heads for row in self.rows)
        shown = (f"{row.error:.3f} in {row.dim} dimensions" for row in self.rows if row.heads == most)
        return f"two layers of {most} heads of rank 1: error {', '.join(shown)}"


def voting(
    dims: str | Iterable[int] = DIMS, heads: str | Iterable[int] = COUNTS, samples: int = 4096, seeds: int = 3
) -> Voting:
    """The error of two voting layers, of the first alone, and the bound for any single layer.

    Args:
        dims: dimensions of the points, from 2 on.
        heads: numbers of heads in the first layer; an odd one cannot be undecided.
        samples: of each dimension.
        seeds: how many; each draws heads and samples.
    """
    dims, heads = numbers("dims", dims), numbers("heads", heads)
    at_least(2, dims=dims)
    at_least(1, seeds=seeds, samples=samples)
    rows = []
    for dim in dims:
        errors = [_errors(dim, heads, samples, seed) for seed in range(seeds)]
        for place, count in enumerate(heads):
            rows.append(
                VotingRow(
                    dim=dim,
                    heads=count,
                    one_layer=tuple(found[place][0] for found in errors),
                    two_layers=tuple(found[place][1] for found in errors),
                    expected=expected_error(dim, count),
                    bound=lower_bound(dim, 1, count + 1),
                )
            )
    return Voting(samples=samples, seeds=seeds, rows=tuple(rows), **fields_of(circumstances()))


def _errors(dim: int, heads: list[int], samples: int, seed: int) -> list[tuple[float, float]]:
    """Of one layer and of two, for every number of heads."""
    drawn = draw(dim, samples, seed, HELD_OUT)
    directions = unit(stream(seed, dim, HEADS).standard_normal((max(heads), dim)))[:, :, None]
    chosen, nearer = choices(drawn, directions, directions), drawn.nearer
    found = []
    for count in heads:
        vote = chosen[:, :count].mean(1)
        found.append((_best_multiple(vote, nearer), float(((attended(vote) - nearer) ** 2).mean() / 2)))
    return found


def attended(vote: np.ndarray) -> np.ndarray:
    """What the second layer's head reads, as 1 for the first point and -1 for the second: an undecided vote gives 0."""
    return np.sign(vote)


def _best_multiple(vote: np.ndarray, nearer: np.ndarray) -> float:
    square = max(float(np.mean(vote**2)), 1e-300)
    return float((1 - np.mean(vote * nearer) ** 2 / square) / 2)


def expected_error(dim: int, heads: int, steps: int = 20_000) -> float:
    """The mean error of two layers over random directions: a sum over t of the binomial chance of a wrong majority."""
    angle = (np.arange(steps) + 0.5) / steps * np.pi / 2
    density = np.exp(np.log(2) + gammaln(dim / 2) - gammaln((dim - 1) / 2) - gammaln(0.5)) * np.sin(angle) ** (dim - 2)
    right = 1 - angle / np.pi
    fewer, undecided = binom.cdf((heads - 1) // 2, heads, right), 0.0
    if heads % 2 == 0:
        undecided = binom.pmf(heads // 2, heads, right)
    wrong = 2 * fewer + undecided / 2
    return float((density * wrong).sum() * np.pi / 2 / steps)
