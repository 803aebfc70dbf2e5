"""GLUE: classes or numbers for sentences and pairs of sentences, each task with its own metric on validation splits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from leanformer.conditioning.probing import unwrap
from leanformer.data import glue, tokenizers
from leanformer.data.fingerprints import fingerprint, ragged
from leanformer.data.glue import GLUE_TASKS, GlueTask, Rows
from leanformer.data.locations import settings_for
from leanformer.data.order import Order, Share, tuning_rows
from leanformer.data.pieces import encoded
from leanformer.models.base import Inputs
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.settings import check

EVALUATED = 64
"""Held-out examples that pass through the model at once."""

SentenceBatch = tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"], Shaped[Tensor, " batch"]]
"""Ids, attention mask, and labels: whole numbers for classes, else floats."""


@dataclass(frozen=True, kw_only=True)
class SentenceClasses(Task):
    """Which of GLUE's tasks, and how its sentences become tokens."""

    name: str = "sst2"
    """mnli, sst2, stsb, rte, qnli, qqp, mrpc or cola."""
    root: str | None = None
    """Folder that holds glue/; LEANFORMER_DATA by default."""
    tokenizer: str = "wordpiece:4096"
    """A folder with the pre-trained model's tokenizer.json, or wordpiece:SIZE, trained on the sentences."""
    length: int = 128
    """Largest number of tokens of an example, with [CLS] and [SEP]."""
    group_by_length: bool = False
    """Make batches of examples of like length, which saves the time that padding takes."""
    most: int | None = None
    """Largest number of training examples; all by default."""
    two_ends: bool = False
    """End an example of one sentence with two [SEP], as the fine-tuning of Crammed BERT does."""

    def __post_init__(self) -> None:
        check(self, least={"length": 8, "most": 1})
        if self.name not in GLUE_TASKS:
            raise ValueError(f"there is no GLUE task {self.name!r}; there are {', '.join(GLUE_TASKS)}")

    def with_data(self, path: str | Path) -> SentenceClasses:
        return replace(self, **settings_for(path, (glue.FOLDER,), holds=None))

    def find(self) -> tuple[dict[str, Rows], str]:
        """The rows of every split, and their source. Raises `hub.NotAvailable` if they are not available here."""
        return glue.find(self.name, self.root)

    def load(self) -> SentenceClassesData:
        splits, source = self.find()
        made = tokenizers.tokenizer(self.tokenizer, glue.corpus_of(splits["train"], source), self.root)
        if any(made.token_to_id(word) is None for word in ("[CLS]", "[SEP]", "[PAD]")):
            raise ValueError(f"the tokenizer {self.tokenizer} has no [CLS], [SEP] and [PAD]; use wordpiece:SIZE")
        examples = {split: self._encoded(rows, made, source) for split, rows in splits.items()}
        if self.most is not None:
            examples["train"] = examples["train"].first(self.most)
        return SentenceClassesData(self, source, made, examples)

    def _encoded(self, rows: Rows, made: Any, source: str) -> Encoded:
        return Encoded.of(rows, GLUE_TASKS[self.name], made, self.length, source, self.two_ends)


@dataclass(frozen=True)
class Encoded:
    """Examples as tokens: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]; with two ends, [CLS] a [SEP] [SEP]."""

    ids: Sequence[Sequence[int]]
    labels: np.ndarray

    @classmethod
    def of(cls, rows: Rows, task: GlueTask, made: Any, length: int, source: str, two_ends: bool = False) -> Encoded:
        """The rows of `glue.find`, which have been checked."""
        labels = np.array(rows["label"], dtype=np.float32 if task.classes == 1 else np.int64)
        first, last = made.token_to_id("[CLS]"), made.token_to_id("[SEP]")
        sides = [encoded(made, rows[column], source) for column in task.columns]
        more = [last] if two_ends and len(sides) == 1 else []
        ids = []
        for pieces in zip(*sides, strict=True):
            most = length - 1 - len(pieces) - len(more)
            kept = _cut([piece[:most].tolist() for piece in pieces], most)  # no piece can keep more than all may
            ids.append([first, *(token for piece in kept for token in (*piece, last)), *more])
        return cls(ids, labels)

    def first(self, count: int) -> Encoded:
        return Encoded(self.ids[:count], self.labels[:count])

    def chosen(self, rows: np.ndarray) -> Encoded:
        return Encoded([self.ids[row] for row in rows], self.labels[rows])

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, width: int, padding: int) -> SentenceBatch:
        ids = np.full((len(rows), width), padding, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for place, row in enumerate(rows):
            found = self.ids[row]
            ids[place, : len(found)], mask[place, : len(found)] = found, 1
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(self.labels[rows])

    def width(self, rows: np.ndarray) -> int:
        return int(self.lengths[rows].max())

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.ids], dtype=np.int64)

    def batches(self, order: Order, steps: range, share: Share, padding: int, alike: bool) -> Iterator[SentenceBatch]:
        """Padded batches, each as wide as its longest example; of examples of like length if so chosen."""
        for step in steps:
            rows = order.of_like_length(step, self.lengths) if alike else order.indices(step)
            yield self.padded(share.of(rows), self.width(rows), padding)


def _cut(pieces: list[list[int]], most: int) -> list[list[int]]:
    """Pieces that fit together: the longest one is cut first."""
    while (over := sum(map(len, pieces)) - most) > 0:
        longest = max(range(len(pieces)), key=lambda place: len(pieces[place]))
        others = max((len(piece) for place, piece in enumerate(pieces) if place != longest), default=0)
        pieces[longest] = pieces[longest][: max(len(pieces[longest]) - over, min(others, len(pieces[longest]) - 1))]
    return pieces


class SentenceClassesData(Data):
    """One task's examples."""

    def __init__(self, task: SentenceClasses, source: str, made: Any, splits: Mapping[str, Encoded]) -> None:
        self.task, self.source, self.tokenizer, self.splits = task, source, made, splits
        self.glue_task = GLUE_TASKS[task.name]
        self.size, self.tokens = len(splits["train"]), task.length
        self.padding = made.token_to_id("[PAD]")
        self.metric = Metric(self.glue_task.metric, "%", resolution=100 / len(splits[self.glue_task.held_out[0]]))
        self.options: Mapping[str, Any] = {"vocab_size": made.get_vocab_size(), "num_labels": self.glue_task.classes}

    def contents(self) -> Contents:
        first, *others = self.glue_task.held_out
        notes = tuple(f"{name} is evaluated too, beside {first}, which gives the score" for name in others)
        held_out = len(self.splits[first])
        return Contents(source=self.source, samples="examples", train=self.size, held_out=held_out, notes=notes)

    def for_tuning(self) -> SentenceClassesData:
        whole, names = self.splits["train"], self.glue_task.held_out
        train, held_out = map(whole.chosen, tuning_rows(len(whole), most=len(self.splits[names[0]])))
        return SentenceClassesData(
            self.task, self.source, self.tokenizer, {"train": train, **dict.fromkeys(names, held_out)}
        )

    @functools.cached_property
    def identity(self) -> str:
        return fingerprint(*(part for split in self.splits.values() for part in (*ragged(split.ids), split.labels)))

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[SentenceBatch]:
        return self.splits["train"].batches(order, steps, share, self.padding, self.task.group_by_length)

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        ids, mask, labels = batch
        return model(**self._inputs(model, ids, mask), labels=labels).loss

    def _inputs(self, model: nn.Module, ids: Int[Tensor, "batch tokens"], mask: Int[Tensor, "batch tokens"]) -> Inputs:
        """What a model is called with; which sentence a token is of, where the model can tell sentences apart."""
        inputs = {"input_ids": ids, "attention_mask": mask}
        if getattr(getattr(unwrap(model), "config", None), "type_vocab_size", 0) < 2:
            return inputs
        ends = ids == self.tokenizer.token_to_id("[SEP]")
        return {**inputs, "token_type_ids": ((ends.cumsum(1) > ends.long()).long() * mask).clamp(max=1)}

    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        """Rank correlations are not sums: the first process evaluates everything, the others add zeros."""
        found = HeldOutSums()
        for place, name in enumerate(self.glue_task.held_out):
            split = self.splits[name]
            predicted = self._predicted(model, split, device) if share.index == 0 else None
            if place == 0 and predicted is not None and self.metric.name == "accuracy":
                found.keep(torch.from_numpy(predicted.argmax(-1) == split.labels))
            for key, value in metrics(self.glue_task, predicted, split.labels).items():
                found[key if place == 0 else f"{key}_{name.removeprefix('validation_')}"] = value
        return found

    @torch.no_grad()
    def _predicted(self, model: nn.Module, split: Encoded, device: torch.device) -> np.ndarray:
        """The outputs for all examples (examples, classes)."""
        outputs = []
        for start in range(0, len(split), EVALUATED):
            rows = np.arange(start, min(start + EVALUATED, len(split)))
            ids, mask, _ = split.padded(rows, split.width(rows), self.padding)
            outputs.append(model(**self._inputs(model, ids.to(device), mask.to(device))).logits.float().cpu())
        return torch.cat(outputs).numpy()

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return dict(sums)

    def probe_batch(self, count: int) -> dict[str, Int[Tensor, "batch tokens"]]:
        split = self.splits[self.glue_task.held_out[0]]
        rows = np.arange(min(count, len(split)))
        ids, mask, _ = split.padded(rows, split.width(rows), self.padding)
        return {"input_ids": ids, "attention_mask": mask}

    def preprocessing(self) -> dict[str, Any] | None:
        return {"label_names": list(self.glue_task.names)} if self.glue_task.names else None

    def accompany(self, folder: Path) -> None:
        tokenizers.save_tokenizer(self.tokenizer, folder)


def metrics(task: GlueTask, outputs: np.ndarray | None, labels: np.ndarray) -> dict[str, float]:
    """A task's metrics in percent; zeros if there are no outputs."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if task.classes == 1:
        measures: dict[str, Any] = {"pearson": lambda a, b: _correlation(pearsonr, a, b)}
        measures["spearman"] = lambda a, b: _correlation(spearmanr, a, b)
        guessed = None if outputs is None else outputs[:, 0]
    else:
        measures = {"accuracy": accuracy_score}
        if task.metric == "f1":
            measures["f1"] = lambda a, b: f1_score(a, b, zero_division=0)
        if task.metric == "mcc":
            measures["mcc"] = matthews_corrcoef
        guessed = None if outputs is None else outputs.argmax(-1)
    return {name: 0.0 if guessed is None else 100 * float(found(labels, guessed)) for name, found in measures.items()}


def _correlation(measure: Any, labels: np.ndarray, guessed: np.ndarray) -> float:
    """Equal outputs for all examples have no correlation; it counts as 0."""
    return 0.0 if np.ptp(guessed) == 0 else float(measure(labels, guessed).statistic)
