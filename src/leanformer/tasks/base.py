"""What every task is: settings that say which data, and data that give batches, a loss and a score.

Every random choice is a function of the seed, the step and the sample, never of what was drawn before: a resumed run,
a run on several processes and a run with other workers see the same batches. Standard library, NumPy and torch only.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

Batch = tuple[torch.Tensor, ...]
"""A model's inputs and what the loss compares its outputs with; every tensor's first dimension is the sample."""


@dataclass(frozen=True)
class Metric:
    """The number that a comparison is about."""

    name: str
    unit: str = ""
    higher_is_better: bool = True
    resolution: float = 0.0
    """The smallest step between two values: what one held-out sample is worth."""

    @property
    def sign(self) -> int:
        """1 where more is better, else −1."""
        return 1 if self.higher_is_better else -1


@dataclass(frozen=True)
class Part:
    """The share of one process: which of how many."""

    index: int = 0
    count: int = 1

    def of(self, items: Any) -> Any:
        """This part's share of a sequence that divides evenly: neighbours stay together."""
        size = len(items) // self.count
        return items[self.index * size : (self.index + 1) * size]

    def strided(self, length: int) -> range:
        """This part's share of any number of items."""
        return range(self.index, length, self.count)


@dataclass(frozen=True)
class Order:
    """Which samples make up the batch of each step: one permutation after the other, as the seed decides."""

    seed: int
    batch: int
    size: int | None
    """Samples of an epoch; None where they have no end."""
    pieces: int = 1
    """Equal pieces that a batch consists of."""
    ramp: int = 0
    """Steps over which batches grow, piece by piece, to their full size."""

    def pieces_at(self, step: int) -> int:
        return self.pieces if step >= self.ramp else -(-self.pieces * (step + 1) // self.ramp)

    def batch_at(self, step: int) -> int:
        return self.batch // self.pieces * self.pieces_at(step)

    def indices(self, step: int) -> np.ndarray:
        """Samples of the step's whole batch; steps count from 0. Those without end are numbered as they come."""
        first, batch = self._first(step), self.batch_at(step)
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

    def _first(self, step: int) -> int:
        """Samples that all steps before took."""
        if not self.ramp:
            return step * self.batch
        grown = _grown(self.batch // self.pieces, self.pieces, self.ramp)
        return int(grown[min(step, self.ramp)]) + max(0, step - self.ramp) * self.batch


@functools.lru_cache(maxsize=4)
def _grown(piece: int, pieces: int, ramp: int) -> np.ndarray:
    """Samples taken before each step of a ramp."""
    counts = -(-pieces * np.arange(1, ramp + 1) // ramp)
    return np.concatenate([[0], np.cumsum(piece * counts)])


@functools.lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(size)


def shown(path: Path) -> str:
    """A place as records name it: inside the data folder, by that folder's variable."""
    root = os.environ.get("LEANFORMER_DATA")
    if root is not None and path.resolve().is_relative_to(Path(root).resolve()):
        return str(Path("$LEANFORMER_DATA") / path.resolve().relative_to(Path(root).resolve()))
    return str(path)


def stream(*key: int) -> np.random.Generator:
    """A random stream of its own for every key."""
    return np.random.default_rng(key)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Which data, and how they are shown to a model: plain settings."""

    kind: ClassVar[str]
    """The word by which `leanformer.tasks.read` knows the class."""

    @abstractmethod
    def load(self) -> Data:
        """Find and read the data."""

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


class Data(ABC):
    """A task's data, read."""

    metric: Metric
    source: str
    """In words, where the data came from."""
    size: int | None
    """Training samples; None where every step draws fresh ones."""
    options: Mapping[str, Any]
    """What a model must be built with to fit: classes, image size, vocabulary."""
    tokens: int | None = None
    """Length of a text; images have the size that the options say."""
    baselines: Mapping[str, float] = {}
    """What trivial answers score, by what they are."""

    @abstractmethod
    def batches(self, order: Order, steps: range, part: Part) -> Iterator[Batch]:
        """This part's share of the batch of each step."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, part: Part, device: torch.device) -> dict[str, float]:
        """Sums over this part's share of the held-out samples; those of all parts are added."""

    def evaluate_final(self, model: nn.Module, part: Part, device: torch.device) -> dict[str, float] | None:
        """The same sums over a test split that nothing else looks at, where there is one; it is what counts then."""
        return None

    @abstractmethod
    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The metric, by its name, and what else the sums tell."""

    @abstractmethod
    def probe_batch(self, count: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """A fixed batch of held-out inputs, to measure κ on."""

    def accompany(self, folder: Path) -> None:
        """Write beside a trained model what is needed to use it, such as a tokenizer."""
