"""Which samples make up each batch, and the random streams that samples are drawn from.

Every random choice is a function of the seed, the step and the sample, never of what was drawn before. So a resumed
run, a run on several processes and a run with another number of workers see the same batches.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Share:
    """Which of how many equal shares of the samples a process takes."""

    index: int = 0
    count: int = 1

    def of(self, items: Any) -> Any:
        """This share of a sequence that divides evenly. Neighbours stay together."""
        size = len(items) // self.count
        return items[self.index * size : (self.index + 1) * size]

    def strided(self, length: int) -> range:
        """This share of any number of items, by index."""
        return range(self.index, length, self.count)


TUNING_SHARE = 0.2
"""Of the training samples, what settings are tuned on."""


def tuning_rows(size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training samples to train on while settings are tuned, and rows to score the settings on.

    Args:
        size: number of training samples.
        most: the most rows to score on, such as the number of held-out samples.
    """
    count = max(1, min(round(TUNING_SHARE * size), most))
    if size - count < 1:
        raise ValueError(f"settings cannot be tuned on {size} training samples: needed are at least 2")
    rows = np.random.default_rng(0).permutation(size)
    return np.sort(rows[count:]), np.sort(rows[:count])


ALIKE = 32
"""Neighbouring batches between which samples are exchanged, where batches are of like lengths."""


@dataclass(frozen=True)
class Order:
    """Which samples make up the batch of each step: one permutation per epoch, drawn from the seed."""

    seed: int
    batch: int
    size: int | None
    """Samples of an epoch; None if every step draws new ones."""
    pieces: int = 1
    """Equal pieces that a batch consists of."""
    ramp: int = 0
    """Steps over which batches grow, piece by piece, to their full size."""
    ramp_share: float = 0.0
    """In place of `ramp`: of all samples that `steps` steps take, the share over which batches grow."""
    steps: int = 0

    def pieces_at(self, step: int) -> int:
        if self.ramp_share and step < self.steps:
            return int(self._pieces_before(step + 1) - self._pieces_before(step))
        return self.pieces if step >= self.ramp else -(-self.pieces * (step + 1) // self.ramp)

    def batch_at(self, step: int) -> int:
        return self.batch // self.pieces * self.pieces_at(step)

    def indices(self, step: int) -> np.ndarray:
        """Samples of the step's whole batch; steps count from 0. Samples without an epoch are numbered one by one."""
        first, batch = self.first(step), self.batch_at(step)
        if self.size is None:
            return np.arange(first, first + batch)
        epoch, start = divmod(first, self.size)
        if start + batch <= self.size:
            return _permutation(self.seed, epoch, self.size)[start : start + batch]
        positions = np.arange(first, first + batch)
        epochs = positions // self.size
        return np.concatenate(
            [_permutation(self.seed, int(e), self.size)[positions[epochs == e] % self.size] for e in np.unique(epochs)]
        )

    def of_like_length(self, step: int, lengths: np.ndarray) -> np.ndarray:
        """Samples of the step's batch, with like lengths, so that little of the batch is padding.

        The samples of `ALIKE` batches are sorted by length and dealt out again, in a random order of the batches.
        While batches grow, they stay as they are.

        Args:
            step: counted from 0.
            lengths: of all samples.
        """
        start = step // ALIKE * ALIKE
        if self.size is None or start < self.ramp or self.ramp_share:
            return self.indices(step)
        rows = np.concatenate([self.indices(start + place) for place in range(ALIKE)])
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        place = int(stream(self.seed, start, ALIKE).permutation(ALIKE)[step - start])
        return rows[place * self.batch : (place + 1) * self.batch]

    def first(self, step: int) -> int:
        """The number of samples that all earlier steps took."""
        if self.ramp_share:
            return self.batch // self.pieces * self._pieces_before(step)
        if not self.ramp:
            return step * self.batch
        grown = _grown(self.batch // self.pieces, self.pieces, self.ramp)
        return int(grown[min(step, self.ramp)]) + max(0, step - self.ramp) * self.batch

    def _pieces_before(self, step: int) -> int:
        before = _grown_by_share(self.pieces, self.steps, self.ramp_share)
        return int(before[min(step, self.steps)]) + max(0, step - self.steps) * self.pieces


@functools.lru_cache(maxsize=4)
def _grown(piece: int, pieces: int, ramp: int) -> np.ndarray:
    """The number of samples taken before each step of a ramp."""
    counts = -(-pieces * np.arange(1, ramp + 1) // ramp)
    return np.concatenate([[0], np.cumsum(piece * counts)])


@functools.lru_cache(maxsize=8)
def _grown_by_share(pieces: int, steps: int, share: float) -> np.ndarray:
    """The number of pieces taken before each step, if batches grow linearly in what has been taken.

    A batch has k pieces from (k - 1)/pieces of the ramp on. How long the ramp is follows from what all steps take
    together, which depends on the ramp: bisection finds the whole that takes so many steps.
    """

    def steps_of_each_size(whole: int) -> list[int]:
        taken, left, counts = 0, steps, []
        for size in range(1, pieces):
            count = min(left, max(0, math.ceil((share * whole * size / pieces - taken) / size)))
            counts.append(count)
            taken, left = taken + count * size, left - count
        return [*counts, left]

    least, most = steps, steps * pieces  # a longer ramp takes fewer pieces in as many steps
    while least < most:
        middle = (least + most + 1) // 2
        found = sum(size * count for size, count in enumerate(steps_of_each_size(middle), start=1))
        least, most = (middle, most) if found >= middle else (least, middle - 1)
    return np.concatenate([[0], np.cumsum(np.repeat(np.arange(1, pieces + 1), steps_of_each_size(least)))])


@functools.lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(size)


def stream(*key: int) -> np.random.Generator:
    """A random stream of its own for every key."""
    return np.random.default_rng(key)
