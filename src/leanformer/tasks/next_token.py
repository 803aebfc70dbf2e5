"""Causal language modelling: the next token of stories, of Python's documentation, or of any texts.

Documents are packed and cut into windows; the score is the loss over the whole held-out part, every token of it
predicted once. Bits per byte are comparable between tokenizers. May import texts and tokens.
"""

from __future__ import annotations

import math
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
from leanformer.data.order import Order, Share
from leanformer.tasks.base import Batch, Data, Metric, Task

EVALUATED = 16_384
"""Held-out tokens that pass through the model at a time."""


@dataclass(frozen=True, kw_only=True)
class NextToken(Task):
    """Which texts, and in which pieces a model reads them."""

    dataset: str = "pydoc"
    """pydoc (embedded), tinystories, pile, a text file or a folder."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    tokenizer: str = "bytes"
    """bytes, gpt2, bpe:SIZE (trained on the texts) or a folder with tokenizer.json."""
    length: int = 128
    """Tokens that a model sees at once."""
    most_tokens: int | None = None
    """Training tokens to take at most; all by default."""

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"length must be at least 2 tokens, got {self.length}")
        if self.most_tokens is not None and self.most_tokens < self.length + 1:
            raise ValueError(f"most_tokens must be more than the length of {self.length}, got {self.most_tokens}")

    def load(self) -> NextTokenData:
        found = texts.find(self.dataset, self.root)
        made = tokenizing.tokenizer(self.tokenizer, found, self.root)
        train, held_out = tokenizing.packed(found, made, self.tokenizer, most=self.most_tokens)
        for name, part in (("training", train), ("held-out", held_out)):
            if len(part.tokens) < self.length + 1:
                count = len(part.tokens)
                raise ValueError(
                    f"{found.source}: the {name} part has {count} tokens, too few for one window of {self.length}"
                )
        return NextTokenData(self, found.source, made, train, held_out)


class NextTokenData(Data):
    """Packed texts in windows."""

    metric = Metric("loss", "nats", higher_is_better=False)

    def __init__(
        self, task: NextToken, source: str, made: Any, train: tokenizing.Packed, held_out: tokenizing.Packed
    ) -> None:
        self.task, self.tokenizer, self.train, self.held_out = task, made, train, held_out
        self.length = self.tokens = task.length
        self.size = (len(train.tokens) - 1) // self.length
        self.source = f"{source}, {task.tokenizer} tokenizer"
        self.options: Mapping[str, Any] = {"vocab_size": made.get_vocab_size()}

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        for step in steps:
            yield self._windows(self.train.tokens, part.of(order.indices(step)) * self.length)

    def _windows(self, stream: np.ndarray, starts: np.ndarray) -> Batch:
        """Inputs and, one further, what they should predict."""
        places = starts[:, None] + np.arange(self.length + 1)
        ids = torch.from_numpy(stream[places].astype(np.int64))
        return ids[:, :-1], ids[:, 1:]

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return F.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        sums = {"loss": 0.0, "tokens": 0.0}
        stream = self.held_out.tokens
        whole = (len(stream) - 1) // self.length
        rows = np.array(part.strided(whole), dtype=np.int64)
        count = max(1, EVALUATED // self.length)
        pieces = [self._windows(stream, rows[at : at + count] * self.length) for at in range(0, len(rows), count)]
        rest = stream[whole * self.length :]
        if part.index == 0 and len(rest) > 1:  # the last, shorter window
            ids = torch.from_numpy(rest.astype(np.int64))[None]
            pieces.append((ids[:, :-1], ids[:, 1:]))
        for inputs, targets in pieces:
            logits = model(input_ids=inputs.to(device)).logits.flatten(0, 1).float()
            sums["loss"] += F.cross_entropy(logits, targets.to(device).flatten(), reduction="sum").item()
            sums["tokens"] += targets.numel()
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        nats = sums["loss"] / sums["tokens"]
        bits = sums["loss"] / math.log(2) / self.held_out.size_bytes
        return {"loss": nats, "perplexity": math.exp(min(nats, 700)), "bits_per_byte": bits}

    def probe_batch(self, count: int) -> dict[str, torch.Tensor]:
        whole = (len(self.held_out.tokens) - 1) // self.length
        return {"input_ids": self._windows(self.held_out.tokens, np.arange(min(count, whole)) * self.length)[0]}

    def accompany(self, folder: Path) -> None:
        tokenizing.save_tokenizer(self.tokenizer, folder)
