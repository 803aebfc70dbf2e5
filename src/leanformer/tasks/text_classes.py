"""Classes of texts of one's own, for language models with a classifier: encoders, or decoders by their last token."""

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

from leanformer.data import classified_texts, corpora, tokenizers
from leanformer.data.classified_texts import Classified, ClassifiedTexts
from leanformer.data.fingerprints import fingerprint, ragged
from leanformer.data.locations import settings_for
from leanformer.data.order import Order, Share, tuning_rows
from leanformer.data.pieces import encoded
from leanformer.foundation.formats import percent
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.sentence_classes import Encoded, SentenceBatch
from leanformer.tasks.settings import check

EVALUATED = 64
"""Held-out texts that pass through the model at once."""


@dataclass(frozen=True, kw_only=True)
class TextClasses(Task):
    """Which texts with which labels, and how they become tokens."""

    dataset: str = ""
    """A file or folder of tables, a folder of CLASS/*.txt, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    text_column: str = ""
    """Column of texts in tables; by default one of the usual names."""
    label_column: str = ""
    """Column of labels in tables; by default one of the usual names."""
    held_out: float = corpora.SHARE
    """Share of each class that is held out, where the data have no held-out part."""
    skip_bad: bool = False
    """Train without rows that have no text or no label, and without classes that have no texts."""
    tokenizer: str = "wordpiece"
    """wordpiece or bpe, alone or with a size (trained on the training texts), bytes, gpt2, or a folder with
    tokenizer.json."""
    length: int = 128
    """Largest number of tokens of a text; longer ones are cut."""
    group_by_length: bool = False
    """Make batches of texts of like length, which saves the time that padding takes."""
    most: int | None = None
    """Largest number of training texts; all by default."""

    def __post_init__(self) -> None:
        check(self, least={"length": 4, "most": 1}, shares=("held_out",))

    def with_data(self, path: str | Path) -> TextClasses:
        return replace(self, **settings_for(path, (), classified_texts.holds_texts, classified_texts.CONTENTS))

    def load(self) -> TextClassesData:
        reading = classified_texts.Reading(self.text_column, self.label_column, self.held_out, self.skip_bad)
        found = classified_texts.find(self.dataset, self.root, reading)
        if self.most is not None:
            rows = np.random.default_rng(0).permutation(len(found.train))  # files are often sorted by class
            found = replace(found, train=found.train.chosen(np.sort(rows[: self.most])))
        return TextClassesData(self, found, tokenizers.tokenizer(self.tokenizer, found.corpus(), self.root))


class TextClassesData(Data):
    """Texts as tokens, with the numbers of their classes."""

    def __init__(self, task: TextClasses, found: ClassifiedTexts, made: Any) -> None:
        self.task, self.found, self.tokenizer = task, found, made
        self.source = f"{found.source}, {tokenizers.described(task.tokenizer, made)}"
        self.size, self.tokens, self.own_held_out = len(found.train), task.length, found.own_part
        self.first, self.last = made.token_to_id("[CLS]"), _known(made, "[SEP]", corpora.END)
        self.padding = _known(made, "[PAD]", corpora.END) or 0
        self.cut = 0
        self.train, self.held_out = self._encoded(found.train), self._encoded(found.held_out)
        self.metric = Metric("accuracy", "%", resolution=100 / len(found.held_out))
        self.options: Mapping[str, Any] = {
            "vocab_size": made.get_vocab_size(),
            "num_labels": len(found.names),
            "pad_token_id": self.padding,
        }
        usual = int(np.bincount(found.train.labels).argmax())
        share = float((found.held_out.labels == usual).mean())
        self.baselines = {"the most frequent class": 100 * share}

    def _encoded(self, part: Classified) -> Encoded:
        """[CLS] text [SEP], or what the tokenizer has of these; the text is cut to the length."""
        before = [self.first] if self.first is not None else []
        after = [self.last] if self.last is not None else []
        most, ids = self.task.length - len(before) - len(after), []
        for found in encoded(self.tokenizer, part.texts, self.source):
            self.cut += len(found) > most
            ids.append([*before, *found[:most].tolist(), *after])
        return Encoded(ids, part.labels)

    def contents(self) -> Contents:
        whole = len(self.train) + len(self.held_out)
        cut = f"{percent(self.cut / whole)} of the texts are cut to {self.task.length} tokens (length)"
        return Contents(
            source=self.source,
            samples="texts",
            train=self.size,
            held_out=len(self.held_out),
            classes=self.found.names,
            tokens=(sum(map(len, self.train.ids)), sum(map(len, self.held_out.ids))),
            notes=(*self.found.notes, *([cut] if self.cut else [])),
        )

    def for_tuning(self) -> TextClassesData:
        parts = tuning_rows(len(self.train), most=len(self.held_out))
        train, held_out = map(self.train.chosen, parts)
        found = replace(self.found, train=self.found.train.chosen(parts[0]), held_out=self.found.train.chosen(parts[1]))
        metric = replace(self.metric, resolution=100 / len(held_out))
        return self.changed(found=found, train=train, held_out=held_out, size=len(train), metric=metric)

    @functools.cached_property
    def identity(self) -> str:
        parts = (self.train, self.held_out)
        return fingerprint(*(array for part in parts for array in (*ragged(part.ids), part.labels)))

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[SentenceBatch]:
        return self.train.batches(order, steps, share, self.padding, self.task.group_by_length)

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        ids, mask, labels = batch
        return F.cross_entropy(model(input_ids=ids, attention_mask=mask).logits.float(), labels)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        classes = range(len(self.found.names))
        sums = HeldOutSums("loss", *(f"{what}_{label}" for label in classes for what in ("correct", "count")))
        rows = np.array(share.strided(len(self.held_out)), dtype=np.int64)
        for start in range(0, len(rows), EVALUATED):
            chosen = rows[start : start + EVALUATED]
            batch = self.held_out.padded(chosen, self.held_out.width(chosen), self.padding)
            ids, mask, labels = (tensor.to(device) for tensor in batch)
            logits = model(input_ids=ids, attention_mask=mask).logits.float()
            sums["loss"] += F.cross_entropy(logits, labels, reduction="sum").item()
            right = sums.keep(logits.argmax(-1) == labels)
            for label in labels.unique().tolist():
                sums[f"correct_{label}"] += right[labels == label].sum().item()
                sums[f"count_{label}"] += (labels == label).sum().item()
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The accuracy, and the mean of the classes' accuracies, which rare classes decide as much as frequent ones."""
        classes = range(len(self.found.names))
        correct, count = ([sums[f"{what}_{label}"] for label in classes] for what in ("correct", "count"))
        each = [right / whole for right, whole in zip(correct, count, strict=True) if whole]
        return {
            "accuracy": 100 * sum(correct) / sum(count),
            "balanced_accuracy": 100 * sum(each) / len(each),
            "loss": sums["loss"] / sum(count),
        }

    def probe_batch(self, count: int) -> dict[str, Int[Tensor, "batch tokens"]]:
        rows = np.arange(min(count, len(self.held_out)))
        ids, mask, _ = self.held_out.padded(rows, self.held_out.width(rows), self.padding)
        return {"input_ids": ids, "attention_mask": mask}

    def preprocessing(self) -> dict[str, Any]:
        return {"label_names": list(self.found.names)}

    def accompany(self, folder: Path) -> None:
        tokenizers.save_tokenizer(self.tokenizer, folder)


def _known(made: Any, *words: str) -> int | None:
    """The first of these tokens that a tokenizer has."""
    return next((number for word in words if (number := made.token_to_id(word)) is not None), None)
