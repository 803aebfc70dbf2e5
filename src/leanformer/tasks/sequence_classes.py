"""What tasks share that classify long sequences: batches of ids with their true lengths, and accuracy.

Sequences are padded to one length, that of the task, and masked by their true length: a token that happens to be 0 is a
token. Validation is what curves are of; the test split is looked at once, after the last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.tasks.base import Batch, Data, Metric, Task

EVALUATED = 32_768
"""Tokens that pass through the model at a time in evaluation."""


@dataclass(frozen=True, kw_only=True)
class Drawn(Task):
    """Data that are drawn here: how many, and from which seed."""

    train: int
    validation: int
    test: int
    seed: int = 0
    """Of the data; the same in every run."""
    workers: int = 1
    """Processes that draw; they change nothing but the time."""

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class LabelledSequences(Protocol):
    """Labelled sequences."""

    @property
    def labels(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids (rows, length) and true lengths (rows); with pairs, (rows, 2, length) and (rows, 2)."""


@dataclass(frozen=True)
class Ragged:
    """Sequences of bytes, one after the other."""

    flat: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    shift: int = 0
    """Added to every byte, so that 0 is left for padding."""

    @classmethod
    def of(cls, texts: list[bytes], labels: list[int], length: int) -> Ragged:
        cut = [text[:length] for text in texts]
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in cut])]).astype(np.int64)
        return cls(np.frombuffer(b"".join(cut), np.uint8), offsets, np.array(labels, dtype=np.int64), shift=1)

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.minimum(self.offsets[rows + 1] - self.offsets[rows], length)
        ids = np.zeros((len(rows), length), dtype=np.int64)
        for place, (row, count) in enumerate(zip(rows, lengths, strict=True)):
            start = self.offsets[row]
            ids[place, :count] = self.flat[start : start + count].astype(np.int64) + self.shift
        return ids, lengths


@dataclass(frozen=True)
class PixelSequences:
    """Images read pixel by pixel; every value is a token."""

    pixels: np.ndarray
    """Bytes (samples, height × width)."""
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        return self.pixels[rows].astype(np.int64), np.full(len(rows), self.pixels.shape[1])


class SequenceData(Data):
    """Labelled sequences for training, for curves, and for the score."""

    def __init__(
        self, source: str, parts: Sequence[LabelledSequences], length: int, options: Mapping[str, Any]
    ) -> None:
        self.train, self.validation, self.test = parts
        self.source, self.size, self.options = source, len(self.train), options
        self.length = self.tokens = length
        self.metric = Metric("accuracy", "%", resolution=100 / len(self.test))

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        for step in steps:
            yield self._batch(self.train, part.of(order.indices(step)))

    def _batch(self, split: LabelledSequences, rows: np.ndarray) -> Batch:
        ids, lengths = split.padded(rows, self.length)
        return torch.from_numpy(ids), torch.from_numpy(lengths), torch.from_numpy(split.labels[rows])

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        ids, lengths, labels = batch
        return F.cross_entropy(model(input_ids=ids, lengths=lengths).logits.float(), labels)

    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        return self._sums(self.validation, model, part, device)

    def evaluate_final(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float] | None:
        return self._sums(self.test, model, part, device)

    @torch.no_grad()
    def _sums(self, split: LabelledSequences, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        sums = {"loss": 0.0, "correct": 0.0, "count": 0.0}
        rows, count = np.array(part.strided(len(split)), dtype=np.int64), max(1, EVALUATED // self.length)
        for start in range(0, len(rows), count):
            ids, lengths, labels = (tensor.to(device) for tensor in self._batch(split, rows[start : start + count]))
            logits = model(input_ids=ids, lengths=lengths).logits.float()
            sums["loss"] += F.cross_entropy(logits, labels, reduction="sum").item()
            sums["correct"] += (logits.argmax(-1) == labels).sum().item()
            sums["count"] += len(labels)
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"accuracy": 100 * sums["correct"] / sums["count"], "loss": sums["loss"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, torch.Tensor]:
        ids, lengths, _ = self._batch(self.validation, np.arange(min(count, len(self.validation))))
        return {"input_ids": ids, "lengths": lengths}
