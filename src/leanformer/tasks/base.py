"""What every task is: settings that say which data, and data that give batches, a loss and a score.

`leanformer.data.order` says how every random choice is a function of the seed, the step and the sample.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.tasks import TASKS

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


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Which data, and how they are shown to a model: plain settings."""

    @abstractmethod
    def load(self) -> Data:
        """Find and read the data."""

    def to_dict(self) -> dict[str, Any]:
        """Plain settings, with the name under which `read` finds the class again, in this process or another."""
        return {"kind": TASKS.name_of(type(self)), **asdict(self)}


def read(plain: Mapping[str, Any]) -> Task:
    """The task of `Task.to_dict`. A task in a file is read only if that file is trusted; see `registry.resolve`."""
    if not isinstance(kind := plain.get("kind"), str):
        raise ValueError(f"a task needs a kind, such as {TASKS.names()[0]}; got {kind!r}")
    task = TASKS.get(kind, from_record=True)
    settings = {key: value for key, value in plain.items() if key != "kind"}
    if unknown := settings.keys() - {item.name for item in fields(task)}:
        known = ", ".join(item.name for item in fields(task))
        raise ValueError(f"the task {kind} has no setting {', '.join(sorted(unknown))}; it has {known}")
    return task(**settings)


@functools.lru_cache(maxsize=1)
def load(task: Task) -> Data:
    """A task's data, kept for the next run of the same process."""
    return task.load()


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
    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        """This part's share of the batch of each step."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        """Sums over this part's share of the held-out samples; those of all parts are added."""

    def evaluate_final(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float] | None:
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
