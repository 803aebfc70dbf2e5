"""Masked language modelling, as Crammed BERT is pre-trained: a quarter of the tokens is hidden, and guessed.

Every window hides the same number of tokens, so that losses of pieces and processes weigh alike. May import texts and
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from leanformer.data import corpora as texts
from leanformer.data import tokenizers as tokenizing
from leanformer.data.order import Order, Share, stream
from leanformer.tasks.base import Batch, Data, Metric, Task

EVALUATED = 16_384
"""Held-out tokens that pass through the model at a time."""
IGNORED = -100
"""The label of what is not to be guessed."""


@dataclass(frozen=True, kw_only=True)
class MaskedToken(Task):
    """Which texts, in which pieces, and how much of them is hidden."""

    dataset: str = "pydoc"
    """pydoc (embedded), tinystories, pile, a text file or a folder."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    tokenizer: str = "wordpiece:4096"
    """wordpiece:SIZE (trained on the texts) or a folder with tokenizer.json that has [MASK]."""
    length: int = 128
    """Tokens that a model sees at once."""
    share: float = 0.25
    """Of the tokens that are to be guessed: 8 in 10 of them become [MASK], one another token, one stays."""
    most_tokens: int | None = None
    """Training tokens to take at most; all by default."""

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"length must be at least 2 tokens, got {self.length}")
        if not 0 < self.share < 1 or round(self.share * self.length) < 1:
            raise ValueError(f"share must lie between 0 and 1 and hide at least one token, got {self.share}")

    def load(self) -> MaskedTokenData:
        found = texts.find(self.dataset, self.root)
        made = tokenizing.tokenizer(self.tokenizer, found, self.root)
        if made.token_to_id("[MASK]") is None or made.token_to_id("[SEP]") is None:
            raise ValueError(f"the tokenizer {self.tokenizer} has no [MASK] and [SEP]; wordpiece:SIZE has")
        train, held_out = tokenizing.packed(found, made, self.tokenizer, end="[SEP]", most=self.most_tokens)
        for name, part in (("training", train), ("held-out", held_out)):
            if (count := len(part.tokens)) < self.length:
                raise ValueError(
                    f"{found.source}: the {name} part has {count} tokens, too few for one window of {self.length}"
                )
        return MaskedTokenData(self, found.source, made, train, held_out)


class MaskedTokenData(Data):
    """Packed texts in windows, hidden in part."""

    metric = Metric("loss", "nats", higher_is_better=False)

    def __init__(
        self, task: MaskedToken, source: str, made: Any, train: tokenizing.Packed, held_out: tokenizing.Packed
    ) -> None:
        self.task, self.tokenizer, self.train, self.held_out = task, made, train, held_out
        self.length = self.tokens = task.length
        self.size = len(train.tokens) // self.length
        self.source = f"{source}, {task.tokenizer} tokenizer"
        self.vocabulary, self.mask = made.get_vocab_size(), made.token_to_id("[MASK]")
        self.options: Mapping[str, Any] = {"vocab_size": self.vocabulary, "pad_token_id": made.token_to_id("[PAD]")}

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        for step in steps:
            rows = order.indices(step)
            hidden = self._hidden(stream(order.seed, step), len(rows))
            yield self._batch(self.train.tokens, part.of(rows), [part.of(drawn) for drawn in hidden])

    def _hidden(self, draw: np.random.Generator, count: int) -> list[np.ndarray]:
        """For each window: where to guess, what is done there, and a token to put in its place."""
        hidden = round(self.task.share * self.length)
        places = draw.random((count, self.length)).argpartition(hidden, axis=1)[:, :hidden]
        return [places, draw.random(places.shape), draw.integers(0, self.vocabulary, places.shape)]

    def _batch(self, packed: np.ndarray, rows: np.ndarray, hidden: list[np.ndarray]) -> Batch:
        places, chance, other = hidden
        ids = packed[rows[:, None] * self.length + np.arange(self.length)].astype(np.int64)
        labels = np.full_like(ids, IGNORED)
        true = np.take_along_axis(ids, places, axis=1)
        np.put_along_axis(labels, places, true, axis=1)
        shown = np.where(chance < 0.8, self.mask, np.where(chance < 0.9, other, true))
        np.put_along_axis(ids, places, shown, axis=1)
        return torch.from_numpy(ids), torch.from_numpy(labels)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        ids, labels = batch
        return model(input_ids=ids, labels=labels).loss

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        """Every held-out window, hidden in the same places each time."""
        sums = {"loss": 0.0, "correct": 0.0, "count": 0.0}
        rows, count = np.array(part.strided(self._windows), dtype=np.int64), max(1, EVALUATED // self.length)
        for start in range(0, len(rows), count):
            ids, labels = (tensor.to(device) for tensor in self._held_out(rows[start : start + count]))
            logits = model(input_ids=ids).logits[labels != IGNORED].float()
            wanted = labels[labels != IGNORED]
            sums["loss"] += F.cross_entropy(logits, wanted, reduction="sum").item()
            sums["correct"] += (logits.argmax(-1) == wanted).sum().item()
            sums["count"] += len(wanted)
        return sums

    @property
    def _windows(self) -> int:
        return len(self.held_out.tokens) // self.length

    def _held_out(self, rows: np.ndarray) -> Batch:
        drawn = [self._hidden(stream(0, int(row)), 1) for row in rows]
        return self._batch(self.held_out.tokens, rows, [np.concatenate(part) for part in zip(*drawn, strict=True)])

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"loss": sums["loss"] / sums["count"], "accuracy": 100 * sums["correct"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._held_out(np.arange(min(count, self._windows)))[0]}

    def accompany(self, folder: Path) -> None:
        tokenizing.save_tokenizer(self.tokenizer, folder)
