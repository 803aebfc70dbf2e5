"""Masked language modelling, as in the pre-training of Crammed BERT: a quarter of the tokens is hidden and predicted.

Every window hides the same number of tokens, so that the losses of all pieces and processes have equal weight.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.data import corpora, tokenizers
from leanformer.data.fingerprints import fingerprint
from leanformer.data.locations import settings_for
from leanformer.data.order import Order, Share, stream
from leanformer.models import families
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.settings import check

TokenBatch = tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]
"""Inputs and labels."""

EVALUATED = 16_384
"""Held-out tokens that pass through the model at once."""
IGNORED = -100
"""The label of tokens that are not predicted."""


@dataclass(frozen=True, kw_only=True)
class MaskedToken(Task):
    """Which texts, how they are cut into windows, and how much of a window is hidden."""

    dataset: str = "pydoc"
    """pydoc or pycode (embedded), tinystories, pile, a file or folder of texts or tables, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    text_column: str = ""
    """Column of texts in tables; by default one of the usual names."""
    held_out: float = corpora.SHARE
    """Share of the documents that is held out, where the data have no held-out part."""
    tokenizer: str = "wordpiece:4096"
    """wordpiece:SIZE or wordpiece (trained on the training texts) or a folder with tokenizer.json that has [MASK]."""
    length: int = 128
    """Tokens of a window, which is what a model sees at once."""
    share: float = 0.25
    """Share of tokens that are predicted: of ten, 8 become [MASK], one becomes another token, one stays."""
    most_tokens: int | None = None
    """Largest number of training tokens; all by default."""

    def __post_init__(self) -> None:
        check(self, least={"length": 2, "most_tokens": 1}, shares=("held_out",))
        if not 0 < self.share < 1 or round(self.share * self.length) < 1:
            raise ValueError(f"share must lie between 0 and 1 and hide at least one token, got {self.share}")

    def with_data(self, path: str | Path) -> MaskedToken:
        names = corpora.CORPORA[self.dataset].folders if self.dataset in corpora.CORPORA else ()
        return replace(self, **settings_for(path, names, corpora.holds_texts, corpora.CONTENTS))

    def load(self) -> MaskedTokenData:
        found = corpora.find(self.dataset, self.root, corpora.Reading(self.text_column, self.held_out))
        made = tokenizers.tokenizer(self.tokenizer, found, self.root)
        if made.token_to_id("[MASK]") is None or made.token_to_id("[SEP]") is None:
            raise ValueError(f"the tokenizer {self.tokenizer} has no [MASK] and [SEP]; use wordpiece:SIZE")
        train, held_out = tokenizers.packed(found, made, self.tokenizer, end="[SEP]", most=self.most_tokens)
        tokenizers.check_enough(found, train, held_out, self.length, self.length)
        return MaskedTokenData(self, found, made, train, held_out)


class MaskedTokenData(Data):
    """Packed texts in windows, of which some tokens are hidden."""

    metric = Metric("loss", "nats", higher_is_better=False)

    def __init__(
        self, task: MaskedToken, found: corpora.Corpus, made: Any, train: tokenizers.Packed, held_out: tokenizers.Packed
    ) -> None:
        self.task, self.tokenizer, self.train, self.held_out = task, made, train, held_out
        self.length = self.tokens = task.length
        self.size = len(train.tokens) // self.length
        self.source = f"{found.source}, {tokenizers.described(task.tokenizer, made)}"
        self.notes, self.own_held_out = found.notes, found.own_part
        self.vocabulary, self.mask = made.get_vocab_size(), made.token_to_id("[MASK]")
        self.options: Mapping[str, Any] = {"vocab_size": self.vocabulary, "pad_token_id": made.token_to_id("[PAD]")}

    def contents(self) -> Contents:
        return Contents(
            source=self.source,
            samples=f"windows of {self.length} tokens",
            train=self.size,
            held_out=self._windows,
            tokens=(len(self.train.tokens), len(self.held_out.tokens)),
            notes=self.notes(),
        )

    def check_model(self, design: Architecture) -> None:
        if getattr(families.family(design.family), "causal", False):
            raise ValueError(
                f"{design.name} sees earlier tokens only: masked tokens need an encoder, such as bert-base-uncased; "
                f"for {design.name}, take a task with next tokens"
            )

    def for_tuning(self) -> MaskedTokenData:
        train, held_out = self.train.for_tuning(most=len(self.held_out.tokens), fewest=self.length + 1)
        return self.changed(train=train, held_out=held_out, size=len(train.tokens) // self.length)

    @functools.cached_property
    def identity(self) -> str:
        return fingerprint(self.tokenizer.get_vocab_size(), self.train.tokens, self.held_out.tokens)

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[TokenBatch]:
        for step in steps:
            rows = order.indices(step)
            hidden = self._hidden(stream(order.seed, step), len(rows))
            yield self._batch(self.train.tokens, share.of(rows), [share.of(drawn) for drawn in hidden])

    def _hidden(self, draw: np.random.Generator, count: int) -> list[np.ndarray]:
        """For each window: the hidden positions, a random number for each, and a random token for each."""
        hidden = round(self.task.share * self.length)
        places = draw.random((count, self.length)).argpartition(hidden, axis=1)[:, :hidden]
        return [places, draw.random(places.shape), draw.integers(0, self.vocabulary, places.shape)]

    def _batch(self, packed: np.ndarray, rows: np.ndarray, hidden: list[np.ndarray]) -> TokenBatch:
        places, chance, other = hidden
        ids = packed[rows[:, None] * self.length + np.arange(self.length)].astype(np.int64)
        labels = np.full_like(ids, IGNORED)
        true = np.take_along_axis(ids, places, axis=1)
        np.put_along_axis(labels, places, true, axis=1)
        shown = np.where(chance < 0.8, self.mask, np.where(chance < 0.9, other, true))
        np.put_along_axis(ids, places, shown, axis=1)
        return torch.from_numpy(ids), torch.from_numpy(labels)

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        ids, labels = batch
        return model(input_ids=ids, labels=labels).loss

    @torch.no_grad()
    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        """Every held-out window, with the same tokens hidden each time."""
        sums = HeldOutSums("loss", "correct", "count")
        rows, count = np.array(share.strided(self._windows), dtype=np.int64), max(1, EVALUATED // self.length)
        for start in range(0, len(rows), count):
            ids, labels = (tensor.to(device) for tensor in self._held_out(rows[start : start + count]))
            logits = model(input_ids=ids).logits[labels != IGNORED].float()
            wanted = labels[labels != IGNORED]
            sums["loss"] += F.cross_entropy(logits, wanted, reduction="sum").item()
            by_window = torch.zeros(labels.shape, dtype=logits.dtype, device=device)
            by_window[labels != IGNORED] = F.cross_entropy(logits, wanted, reduction="none")
            sums.keep(by_window.sum(1))
            sums["correct"] += (logits.argmax(-1) == wanted).sum().item()
            sums["count"] += len(wanted)
        return sums

    @property
    def _windows(self) -> int:
        return len(self.held_out.tokens) // self.length

    def _held_out(self, rows: np.ndarray) -> TokenBatch:
        drawn = [self._hidden(stream(0, int(row)), 1) for row in rows]
        return self._batch(self.held_out.tokens, rows, [np.concatenate(part) for part in zip(*drawn, strict=True)])

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"loss": sums["loss"] / sums["count"], "accuracy": 100 * sums["correct"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, Int[Tensor, "batch tokens"]]:
        return {"input_ids": self._held_out(np.arange(min(count, self._windows)))[0]}

    def accompany(self, folder: Path) -> None:
        tokenizers.save_tokenizer(self.tokenizer, folder)
