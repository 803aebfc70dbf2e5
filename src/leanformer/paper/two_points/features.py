"""Random heads of low rank, combined with the best weights: what random features reach beside the lower bound.

As in the authors' code (`optim_weight_linsolve.py`, which draws their figure of random features): queries and keys are
drawn and stay as they are, each head attends to one point, and its output is multiplied by one number. These numbers
are fitted by least squares on fresh samples, and scored on others. The angle between a head's queries and keys has a
uniform cosine. The authors have rank 1 and solve for the weights in closed form; here any rank is fitted to samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import ClassVar

import numpy as np

from leanformer.data.order import stream
from leanformer.foundation.arguments import ArgumentError, at_least, numbers
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.paper.two_points.bound import lower_bound
from leanformer.paper.two_points.samples import FIT, HEADS, HELD_OUT, choices, draw, unit

DIMS = (4, 8, 16, 32)
COUNTS = (1, 4, 16, 64, 256, 1024)


class FeaturesRow(RecordPart):
    """Some random heads of one rank in one dimension."""

    dim: int
    rank: int
    heads: int
    bound: float
    """No heads of this rank, random or not, are better than this."""
    errors: tuple[float, ...]
    """On held-out samples, one for every seed."""

    @property
    def error(self) -> float:
        return mean(self.errors)


class RandomFeatures(DatedRecord):
    """What `leanformer paper features` writes."""

    kind: ClassVar[str] = "random-features"
    version: ClassVar[int] = 1

    samples: int
    seeds: int
    rows: tuple[FeaturesRow, ...]

    def glance(self) -> str:
        most = max(row.heads for row in self.rows)
        shown = ", ".join(f"{row.error:.3f} at d = {row.dim}" for row in self.of(rank=1, heads=most))
        return f"{most} random heads of rank 1: error {shown}"

    def of(self, rank: int | None = None, heads: int | None = None) -> list[FeaturesRow]:
        return [row for row in self.rows if rank in (None, row.rank) and heads in (None, row.heads)]


def features(
    dims: str | Iterable[int] = DIMS, heads: str | Iterable[int] = COUNTS, samples: int = 16384, seeds: int = 3
) -> RandomFeatures:
    """The held-out error of random heads of rank 1 and of half rank, with the best weights.

    Args:
        dims: dimensions of the points, from 2 on.
        heads: numbers of heads.
        samples: to fit on, and as many others to score; at least four times the most heads.
        seeds: how many; each draws heads and samples.
    """
    dims, heads = numbers("dims", dims), numbers("heads", heads)
    at_least(2, dims=dims)
    at_least(1, seeds=seeds)
    if samples < 4 * max(heads):
        raise ArgumentError(
            "{samples} must be at least four times the most {heads}, {least}, got {given}",
            least=4 * max(heads),
            given=samples,
        )
    rows = []
    for dim, rank in [(size, own) for size in dims for own in sorted({1, size // 2})]:
        errors = [fitted(dim, rank, heads, samples, seed) for seed in range(seeds)]
        rows += [
            FeaturesRow(dim=dim, rank=rank, heads=count, bound=lower_bound(dim, rank, count), errors=own)
            for count, own in zip(heads, zip(*errors, strict=True), strict=True)
        ]
    return RandomFeatures(samples=samples, seeds=seeds, rows=tuple(rows), **fields_of(circumstances()))


def random_heads(dim: int, rank: int, heads: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys, (heads, dim, rank). More heads of a seed begin with the same ones."""
    queries, keys = np.empty((2, heads, dim, rank))
    for head in range(heads):
        generator = stream(seed, dim, HEADS, rank, head)
        frame, other = (np.linalg.qr(generator.standard_normal((dim, rank)))[0] for _ in range(2))
        cosine = generator.uniform(-1, 1)
        aside = other - frame @ (frame.T @ other) if 2 * rank <= dim else other
        aside = unit(aside.T).T
        queries[head], keys[head] = frame, cosine * frame + np.sqrt(1 - cosine**2) * aside
    return queries, keys


def fitted(dim: int, rank: int, heads: Sequence[int], samples: int, seed: int) -> list[float]:
    """The held-out errors of the first so many of the drawn heads."""
    queries, keys = random_heads(dim, rank, max(heads), seed)
    fit, held_out = (draw(dim, samples, seed, part) for part in (FIT, HELD_OUT))
    chosen, unseen = (choices(part, queries, keys) for part in (fit, held_out))
    return [
        error_of(best_weights(chosen[:, :count], fit.nearer), unseen[:, :count], held_out.nearer) for count in heads
    ]


def best_weights(chosen: np.ndarray, nearer: np.ndarray) -> np.ndarray:
    """Least squares: with orthonormal points the error is ½(1 − Σw)² plus half of the mean (nearer − chosen·w)²."""
    gram = np.ones((chosen.shape[1],) * 2) + chosen.T @ chosen / len(chosen)
    wanted = 1 + chosen.T @ nearer / len(chosen)
    return np.linalg.lstsq(gram, wanted, rcond=1e-12)[0]


def error_of(weights: np.ndarray, chosen: np.ndarray, nearer: np.ndarray) -> float:
    return float(((1 - weights.sum()) ** 2 + np.mean((nearer - chosen @ weights) ** 2)) / 2)
