"""Samples of two orthonormal points and a query, and the choices that heads make between the points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leanformer.data.order import stream

FIT, HELD_OUT, HEADS = range(3)
"""Third number of the keys of the random streams."""


@dataclass(frozen=True)
class Samples:
    """Float64, one row per sample."""

    difference: np.ndarray
    """First point minus second."""
    query: np.ndarray

    @property
    def nearer(self) -> np.ndarray:
        """1 where the first point is nearer to the query, else -1."""
        return signs((self.difference * self.query).sum(1))


def signs(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, 1.0, -1.0)


def draw(dim: int, samples: int, seed: int, part: int) -> Samples:
    drawn = stream(seed, dim, part).standard_normal((3, samples, dim))
    first, query = unit(drawn[0]), unit(drawn[2])
    second = unit(drawn[1] - (drawn[1] * first).sum(1, keepdims=True) * first)
    return Samples(first - second, query)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def choices(samples: Samples, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """(samples, heads): 1 where a head attends to the first point, else -1; its softmax is infinitely sharp.

    Args:
        samples: what the heads see.
        queries: (heads, dim, rank).
        keys: (heads, dim, rank).
    """
    scores = np.zeros((len(samples.query), len(queries)))
    for column in range(queries.shape[2]):
        scores += (samples.query @ queries[:, :, column].T) * (samples.difference @ keys[:, :, column].T)
    return signs(scores)
