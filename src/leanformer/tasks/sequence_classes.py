"""What tasks share that classify long sequences: batches of ids with their true lengths, and accuracy.

Validation samples give the curves. The test split is used once, after the last step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from leanformer.data.fingerprints import fingerprint
from leanformer.data.order import Order, Share
from leanformer.data.sequences import LabelledSequences
from leanformer.tasks import counted_tokens
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.settings import check

EVALUATED = 32_768
"""Tokens that pass through the model at once in evaluation."""

SequenceBatch = tuple[Int[Tensor, " batch *side tokens"], Int[Tensor, " batch *side"], Int[Tensor, " batch"]]
"""Ids, true lengths and labels; pairs have a dimension of 2 after the batch."""


@dataclass(frozen=True, kw_only=True)
class Drawn(Task):
    """Data that are drawn here: how many samples, and from which seed."""

    train: int
    """Training samples."""
    validation: int
    """Samples that give the curves."""
    test: int
    """Samples that give the score."""
    seed: int = 0
    """Seed of the data, the same in every run."""
    workers: int = 1
    """Processes that draw. They change nothing but the time."""

    def __post_init__(self) -> None:
        check(self, least=dict.fromkeys(("train", "validation", "test", "workers"), 1) | {"seed": 0})


class SequenceData(Data):
    """Labelled sequences for training, for curves, and for the score."""

    def __init__(
        self,
        source: str,
        parts: Sequence[LabelledSequences],
        length: int,
        options: Mapping[str, Any],
        names: Sequence[str] = (),
    ) -> None:
        self.train, self.validation = parts[:2]
        self.test: LabelledSequences | None = parts[2]
        """None while settings are tuned."""
        self.names = tuple(names) if len(names) == options["num_labels"] else ()
        """Of the classes, by label, if they have names."""
        self.source, self.size, self.options = source, len(self.train), options
        self.length = self.tokens = length
        self.metric = Metric("accuracy", "%", resolution=100 / len(parts[2]))

    def contents(self) -> Contents:
        note = f"{len(self.validation):,} other samples give the curves; the held-out ones are used once, at the end"
        return Contents(source=self.source, train=self.size, held_out=len(self.test or self.validation), notes=(note,))

    def for_tuning(self) -> SequenceData:
        return self.changed(test=None, metric=replace(self.metric, resolution=100 / len(self.validation)))

    @functools.cached_property
    def identity(self) -> str:
        parts = [part for part in (self.train, self.validation, self.test) if part is not None]
        return fingerprint(*(array for part in parts for array in part.arrays()))

    @functools.cached_property
    def baselines(self) -> Mapping[str, float]:  # type: ignore[override]
        """What needs no attention at all."""
        held_out = self.test or self.validation
        usual = int(np.bincount(self.train.labels).argmax())
        return {
            "the most frequent class": 100 * float(np.mean(held_out.labels == usual)),
            counted_tokens.ALONE: counted_tokens.score(self.train, held_out, self.length),
        }

    def preprocessing(self) -> dict[str, Any] | None:
        return {"label_names": list(self.names)} if self.names else None

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[SequenceBatch]:
        for step in steps:
            yield self._batch(self.train, share.of(order.indices(step)))

    def _batch(self, split: LabelledSequences, rows: np.ndarray) -> SequenceBatch:
        ids, lengths = split.padded(rows, self.length)
        return torch.from_numpy(ids), torch.from_numpy(lengths), torch.from_numpy(split.labels[rows])

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        ids, lengths, labels = batch
        return F.cross_entropy(_logits(model, ids, lengths), labels)

    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        return self._sums(self.validation, model, share, device)

    def evaluate_final(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float] | None:
        return None if self.test is None else self._sums(self.test, model, share, device)

    @torch.no_grad()
    def _sums(self, split: LabelledSequences, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        sums = HeldOutSums("loss", "correct", "count")
        rows, count = np.array(share.strided(len(split)), dtype=np.int64), max(1, EVALUATED // self.length)
        for start in range(0, len(rows), count):
            ids, lengths, labels = (tensor.to(device) for tensor in self._batch(split, rows[start : start + count]))
            logits = _logits(model, ids, lengths)
            sums["loss"] += F.cross_entropy(logits, labels, reduction="sum").item()
            sums["correct"] += sums.keep(logits.argmax(-1) == labels).sum().item()
            sums["count"] += len(labels)
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"accuracy": 100 * sums["correct"] / sums["count"], "loss": sums["loss"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, Int[Tensor, "batch ..."]]:
        ids, lengths, _ = self._batch(self.validation, np.arange(min(count, len(self.validation))))
        return {"input_ids": ids, "lengths": lengths}


def _logits(
    model: nn.Module, ids: Int[Tensor, " batch *side tokens"], lengths: Int[Tensor, " batch *side"]
) -> Float[Tensor, "batch classes"]:
    return model(input_ids=ids, lengths=lengths).logits.float()
