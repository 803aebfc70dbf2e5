"""A lower bound on the error of one layer of low-rank heads, evaluated with all its constants.

The paper's theorem (abstract; Section 4 of the preprint, arXiv 2407.16153) says that low rank needs a number of heads
that is exponential in the dimension. Its statement and its constants are not in the text that this project has. What
is evaluated here is derived below, by an expansion in spherical harmonics, which the authors' code uses too
(`test_optimal_weight.py`). It has no unknown constant, and it may be weaker than theirs.

A head of rank r is any function of both points and of an r-dimensional projection of the query. Let x be the
difference of the points at unit length. Along x the target is sign⟨x, y⟩ / √2, so the error is at least the squared
distance between that function and what H heads can represent. Three facts give the bound:

- sign⟨x, y⟩ has in the harmonics of odd degree l a share w(d, l) of its square, and these shares add up to 1;
- of the n(d, l) harmonics of degree l in y, functions of r coordinates of y reach a space of m(r, l) dimensions;
- x is uniform, so a space of k of n dimensions holds k / n of the share on average.

Hence error ≥ ½ Σ w(d, l) · (1 − min(1, H · m(r, l) / n(d, l))). Positions, added or appended, change nothing here: a
head still sees the query through r coordinates. A residual connection or an MLP would be outside of this bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaln

from leanformer.foundation.arguments import ArgumentError, at_least, numbers
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of

UNINFORMED = 0.5
"""The error of the middle of the two points, which no query is needed for."""
DEGREES = 200_001
"""Degrees that are summed one by one; those above count as the last one of them, which bounds them from below."""
DIMS = (8, 16, 32, 64)
HEADS = (1, 16, 256, 4096, 65536)
FIXED = 0.05
"""An error that does not depend on the dimension: a tenth of what is had without the query."""
SHRINKING = 0.4
"""Over the dimension: an error that falls with it, and equals `FIXED` at the smallest of `DIMS`."""

Asked = Literal["fixed", "shrinking"]


class BoundRow(RecordPart):
    """The bound for some heads."""

    dim: int
    rank: int
    heads: int
    bound: float


class NeededHeads(RecordPart):
    """The fewest heads whose bound is no more than an error: fewer cannot reach it."""

    dim: int
    rank: int
    asked: Asked
    """Whether the error is the same in all dimensions."""
    error: float
    log2_heads: float


class LowerBound(DatedRecord):
    """What `leanformer paper bound` writes."""

    kind: ClassVar[str] = "lower-bound"
    version: ClassVar[int] = 1

    rows: tuple[BoundRow, ...]
    needed: tuple[NeededHeads, ...]

    def glance(self) -> str:
        found = [need for need in self.needed if need.asked == "shrinking" and 2 * need.rank == need.dim]
        shown = ", ".join(f"2^{need.log2_heads:.1f} in {need.dim} dimensions" for need in found)
        return f"heads of half rank that an error of {SHRINKING:g}/d needs at least: {shown}"


def log_harmonics(dim: int, degree: np.ndarray) -> np.ndarray:
    """log n(d, l), the number of independent spherical harmonics of a degree, from 1 on."""
    return _log_monomials(dim - 1, degree) + np.log((2 * degree + dim - 2) / (degree + dim - 2))


def _log_monomials(variables: int, degree: np.ndarray) -> np.ndarray:
    """log m(r, l): products of that degree of so many variables."""
    return gammaln(degree + variables) - gammaln(degree + 1) - gammaln(variables)


def shares(dim: int, degree: np.ndarray) -> np.ndarray:
    """w(d, l): the part of the square of sign⟨x, y⟩ that lies in an odd degree, by Rodrigues' formula."""
    half = (dim - 1) / 2
    area = gammaln(0.5) + gammaln(half) - gammaln(half + 0.5)
    mean = (
        math.log(2)
        + gammaln(half)
        + gammaln(degree)
        - degree * math.log(2)
        - gammaln((degree + 1) / 2)
        - gammaln((degree + dim) / 2)
        - area
    )
    return np.exp(log_harmonics(dim, degree) + 2 * mean)


def lower_bound(dim: int, rank: int, heads: float, degrees: int = DEGREES) -> float:
    """The bound for one layer of `heads` heads of a rank. No layer of such heads has a smaller error.

    Args:
        dim: of the points.
        rank: of a head, from 1 to the dimension.
        heads: how many.
        degrees: the highest degree that is summed.
    """
    if not 1 <= rank <= dim:
        raise ArgumentError(
            "{rank} must be from 1 to the dimension {dim_given}, got {given}", dim_given=dim, given=rank
        )
    if rank == dim:
        return 0.0
    return _Spectrum(dim, rank, degrees).bound(math.log(heads))


class _Spectrum:
    """What the bound needs of a dimension and a rank below it."""

    def __init__(self, dim: int, rank: int, degrees: int = DEGREES) -> None:
        degree = np.arange(1.0, degrees + 1, 2)
        self.log_covered = _log_monomials(rank, degree) - log_harmonics(dim, degree)
        """log of the part of a degree that one head reaches; it falls with the degree."""
        weights = shares(dim, degree)
        weights[-1] += max(0.0, 1 - weights.sum())
        self.weights = weights

    def bound(self, log_heads: float) -> float:
        left = 1 - np.exp(np.minimum(0.0, log_heads + self.log_covered))
        return float(UNINFORMED * (self.weights * left).sum())

    def log2_needed(self, error: float) -> float:
        low, high = 0.0, float(-self.log_covered.min())
        if self.bound(low) <= error:
            return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.bound(middle) > error else (low, middle)
        return high / math.log(2)


def bound(dims: str | Iterable[int] = DIMS, heads: str | Iterable[int] = HEADS) -> LowerBound:
    """The bound at rank 1, at half and at three quarters of the dimension, and the heads that two errors need.

    Args:
        dims: dimensions of the points, from 4 on.
        heads: numbers of heads.
    """
    dims, heads = numbers("dims", dims), numbers("heads", heads)
    at_least(4, dims=dims)
    rows, needed = [], []
    for dim in dims:
        for rank in (1, dim // 2, 3 * dim // 4):
            spectrum = _Spectrum(dim, rank)
            rows += [
                BoundRow(dim=dim, rank=rank, heads=count, bound=spectrum.bound(math.log(count))) for count in heads
            ]
            errors: dict[Asked, float] = {"fixed": FIXED, "shrinking": SHRINKING / dim}
            needed += [
                NeededHeads(dim=dim, rank=rank, asked=asked, error=error, log2_heads=spectrum.log2_needed(error))
                for asked, error in errors.items()
            ]
    return LowerBound(rows=tuple(rows), needed=tuple(needed), **fields_of(circumstances()))
