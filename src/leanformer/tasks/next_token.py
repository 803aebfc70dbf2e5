"""Causal language modelling: the next token of stories, of Python's documentation, or of any texts.

Documents are packed and cut into windows. The score is the loss over the whole held-out part, of which every token is
predicted once. Bits per byte are comparable between tokenizers.
"""

from __future__ import annotations

import functools
import math
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
from leanformer.foundation.formats import percent
from leanformer.models import families
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.settings import check

TokenBatch = tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]
"""Inputs and targets."""

WINDOWS = ("aligned", "random")
EVALUATED = 16_384
"""Held-out tokens that pass through the model at once."""


@dataclass(frozen=True, kw_only=True)
class NextToken(Task):
    """Which texts, and how they are cut into windows of tokens."""

    dataset: str = "pydoc"
    """pydoc or pycode (embedded), tinystories, pile, a file or folder of texts or tables, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    text_column: str = ""
    """Column of texts in tables; by default one of the usual names."""
    held_out: float = corpora.SHARE
    """Share of the documents that is held out, where the data have no held-out part."""
    tokenizer: str = "bytes"
    """bytes, gpt2, bpe:SIZE or bpe (trained on the training texts) or a folder with tokenizer.json."""
    length: int = 128
    """Tokens of a window, which is what a model sees at once."""
    most_tokens: int | None = None
    """Largest number of training tokens; all by default."""
    stream: int | None = None
    """If given: so many documents from the first on are one text, joined by newlines; its last tokens are held out."""
    windows: str = "aligned"
    """Training windows: aligned (side by side, each once per epoch) or random (anywhere, drawn for each step)."""

    def __post_init__(self) -> None:
        check(self, least={"length": 2, "stream": 1}, shares=("held_out",), choices={"windows": WINDOWS})
        if self.stream is not None and self.most_tokens is not None:
            raise ValueError("stream and most_tokens exclude each other: stream says how many documents are read")
        if self.most_tokens is not None and self.most_tokens < self.length + 1:
            raise ValueError(f"most_tokens must be more than the length of {self.length}, got {self.most_tokens}")

    def with_data(self, path: str | Path) -> NextToken:
        names = corpora.CORPORA[self.dataset].folders if self.dataset in corpora.CORPORA else ()
        return replace(self, **settings_for(path, names, corpora.holds_texts, corpora.CONTENTS))

    def load(self) -> NextTokenData:
        held_out_documents = self.held_out if self.stream is None else corpora.SHARE
        found = corpora.find(self.dataset, self.root, corpora.Reading(self.text_column, held_out_documents))
        made = tokenizers.tokenizer(self.tokenizer, found, self.root)
        if self.stream is None:
            train, held_out = tokenizers.packed(found, made, self.tokenizer, most=self.most_tokens)
        else:
            train, held_out = tokenizers.streamed(found, made, self.tokenizer, self.stream, self.held_out)
        tokenizers.check_enough(found, train, held_out, self.length, self.length + 1)
        return NextTokenData(self, found, made, train, held_out)


class NextTokenData(Data):
    """Packed texts in windows."""

    metric = Metric("loss", "nats", higher_is_better=False)

    def __init__(
        self, task: NextToken, found: corpora.Corpus, made: Any, train: tokenizers.Packed, held_out: tokenizers.Packed
    ) -> None:
        self.task, self.tokenizer, self.train, self.held_out = task, made, train, held_out
        self.length = self.tokens = task.length
        self.size = (len(train.tokens) - 1) // self.length
        self.source = f"{found.source}, {tokenizers.described(task.tokenizer, made)}"
        self.notes, self.own_held_out = found.notes, found.own_part
        if task.stream is not None:
            self.notes, self.own_held_out = self._notes_of_stream, False
        self.options: Mapping[str, Any] = {"vocab_size": made.get_vocab_size()}

    def contents(self) -> Contents:
        return Contents(
            source=self.source,
            samples=f"windows of {self.length} tokens",
            train=self.size,
            held_out=(len(self.held_out.tokens) - 1) // self.length,
            tokens=(len(self.train.tokens), len(self.held_out.tokens)),
            notes=self.notes(),
        )

    def _notes_of_stream(self) -> tuple[str, ...]:
        share = percent(self.task.held_out)
        return (f"the first {self.task.stream:,} documents are one text; its last {share} are held out",)

    def check_model(self, design: Architecture) -> None:
        """A model that sees later tokens would read the answer."""
        if getattr(families.family(design.family), "causal", True) is False:
            raise ValueError(
                f"{design.name} sees the tokens that it should predict: next tokens need a causal model, such as gpt2; "
                f"for {design.name}, take a task with masked tokens"
            )

    def for_tuning(self) -> NextTokenData:
        train, held_out = self.train.for_tuning(most=len(self.held_out.tokens), fewest=self.length + 1)
        return self.changed(train=train, held_out=held_out, size=(len(train.tokens) - 1) // self.length)

    @functools.cached_property
    def identity(self) -> str:
        return fingerprint(self.tokenizer.get_vocab_size(), self.train.tokens, self.held_out.tokens)

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[TokenBatch]:
        for step in steps:
            yield self._windows(self.train.tokens, share.of(self._starts(order, step)))

    def _starts(self, order: Order, step: int) -> np.ndarray:
        if self.task.windows == "aligned":
            return order.indices(step) * self.length
        return stream(order.seed, step).integers(0, len(self.train.tokens) - self.length, order.batch_at(step))

    def _windows(self, packed: np.ndarray, starts: np.ndarray) -> TokenBatch:
        """Inputs, and the tokens one position later, which are the targets."""
        places = starts[:, None] + np.arange(self.length + 1)
        ids = torch.from_numpy(packed[places].astype(np.int64))
        return ids[:, :-1], ids[:, 1:]

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        inputs, targets = batch
        return F.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        sums = HeldOutSums("loss", "tokens")
        held_out = self.held_out.tokens
        whole = (len(held_out) - 1) // self.length
        rows = np.array(share.strided(whole), dtype=np.int64)
        count = max(1, EVALUATED // self.length)
        pieces = [self._windows(held_out, rows[at : at + count] * self.length) for at in range(0, len(rows), count)]
        rest = held_out[whole * self.length :]
        if share.index == 0 and len(rest) > 1:  # the last, shorter window
            ids = torch.from_numpy(rest.astype(np.int64))[None]
            pieces.append((ids[:, :-1], ids[:, 1:]))
        for inputs, targets in pieces:
            logits, wanted = model(input_ids=inputs.to(device)).logits.flatten(0, 1).float(), targets.to(device)
            sums["loss"] += F.cross_entropy(logits, wanted.flatten(), reduction="sum").item()
            if inputs.shape[1] == self.length:  # the last, shorter window is no sample like the others
                sums.keep(F.cross_entropy(logits, wanted.flatten(), reduction="none").view(wanted.shape).sum(1))
            sums["tokens"] += targets.numel()
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        nats = sums["loss"] / sums["tokens"]
        bits = sums["loss"] / math.log(2) / self.held_out.size_bytes
        return {"loss": nats, "perplexity": math.exp(min(nats, 700)), "bits_per_byte": bits}

    def probe_batch(self, count: int) -> dict[str, Int[Tensor, "batch tokens"]]:
        whole = (len(self.held_out.tokens) - 1) // self.length
        return {"input_ids": self._windows(self.held_out.tokens, np.arange(min(count, whole)) * self.length)[0]}

    def accompany(self, folder: Path) -> None:
        tokenizers.save_tokenizer(self.tokenizer, folder)
