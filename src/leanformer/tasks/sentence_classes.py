"""GLUE: eight tasks on sentences, each with its own metric, on the validation splits.

May import tokens and texts; scikit-learn and SciPy compute the metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from leanformer.data import tokenizers as tokenizing
from leanformer.data.corpora import Corpus
from leanformer.data.locations import shown
from leanformer.data.order import Order, Share
from leanformer.tasks.base import Batch, Data, Metric, Task
from leanformer.tasks.byte_classes import local

EVALUATED = 64


Rows = Mapping[str, Sequence[Any]]


class NotAvailable(ValueError):  # noqa: N818
    """A task's data are not to be had here."""


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE: its columns, its number of classes (1 is a number to predict), its metric, its splits."""

    columns: tuple[str, ...]
    classes: int
    metric: str
    held_out: tuple[str, ...] = ("validation",)


GLUE_TASKS = {
    "mnli": GlueTask(("premise", "hypothesis"), 3, "accuracy", ("validation_matched", "validation_mismatched")),
    "sst2": GlueTask(("sentence",), 2, "accuracy"),
    "stsb": GlueTask(("sentence1", "sentence2"), 1, "pearson"),
    "rte": GlueTask(("sentence1", "sentence2"), 2, "accuracy"),
    "qnli": GlueTask(("question", "sentence"), 2, "accuracy"),
    "qqp": GlueTask(("question1", "question2"), 2, "f1"),
    "mrpc": GlueTask(("sentence1", "sentence2"), 2, "f1"),
    "cola": GlueTask(("sentence",), 2, "mcc"),
}
"""In the order of the paper's Table 1."""


@dataclass(frozen=True, kw_only=True)
class SentenceClasses(Task):
    """Which of the tasks, and how its sentences become tokens."""

    name: str = "sst2"
    """mnli, sst2, stsb, rte, qnli, qqp, mrpc or cola."""
    root: str | None = None
    """Folder that holds glue/; LEANFORMER_DATA by default."""
    tokenizer: str = "wordpiece:4096"
    """A folder with tokenizer.json, that of the pre-trained model; or wordpiece:SIZE, trained on the sentences."""
    length: int = 128
    """Tokens of an example at most, [CLS] and [SEP] among them."""
    most: int | None = None
    """Training examples to take at most; all by default."""

    def __post_init__(self) -> None:
        if self.name not in GLUE_TASKS:
            raise ValueError(f"there is no GLUE task {self.name!r}; there are {', '.join(GLUE_TASKS)}")
        if self.length < 8:
            raise ValueError(f"length must be at least 8 tokens, got {self.length}")

    def find(self) -> tuple[dict[str, Rows], str]:
        """The rows of every split, and where they came from; raises `NotAvailable` where they are not to be had."""
        known, folder = GLUE_TASKS[self.name], local("glue", self.root)
        read, source = (
            (_local(folder), shown(folder / self.name)) if folder else (_hub, f"glue/{self.name} from the hub")
        )
        return {split: read(self.name, split, known) for split in ("train", *known.held_out)}, source

    def load(self) -> SentenceClassesData:
        known = GLUE_TASKS[self.name]
        splits, source = self.find()
        made = tokenizing.tokenizer(self.tokenizer, _texts(splits["train"], source), self.root)
        if any(made.token_to_id(word) is None for word in ("[CLS]", "[SEP]", "[PAD]")):
            raise ValueError(f"the tokenizer {self.tokenizer} has no [CLS], [SEP] and [PAD]; wordpiece:SIZE has")
        encoded = {split: Encoded.of(rows, known, made, self.length, source) for split, rows in splits.items()}
        if self.most is not None:
            encoded["train"] = encoded["train"].first(self.most)
        return SentenceClassesData(self, source, made, encoded)


def _local(folder: Path) -> Callable[[str, str, GlueTask], Rows]:
    def read(name: str, split: str, known: GlueTask) -> Rows:
        import pyarrow.parquet as pq

        files = sorted((folder / name).glob(f"{split}-*.parquet")) or sorted((folder / name).glob(f"{split}.parquet"))
        if not files:
            raise NotAvailable(f"{shown(folder / name)} holds no {split} file (parquet)")
        wanted = [*known.columns, "label"]
        rows: dict[str, list[Any]] = {column: [] for column in wanted}
        for file in files:
            names = pq.read_schema(file).names
            if missing := set(wanted) - set(names):
                raise ValueError(f"{file} lacks the column {', '.join(sorted(missing))}; it has {', '.join(names)}")
            table = pq.read_table(file, columns=wanted)
            for column in wanted:
                rows[column] += table[column].to_pylist()
        return rows

    return read


def _hub(name: str, split: str, known: GlueTask) -> Rows:
    import datasets

    try:
        loaded = datasets.load_dataset("nyu-mll/glue", name, split=split)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NotAvailable(
            f"GLUE is not on this machine and the hub did not give nyu-mll/glue: {reason}. Needed is a folder "
            f"glue/{name} with parquet files in LEANFORMER_DATA (or --data), or a network"
        ) from error
    return {column: list(loaded[column]) for column in (*known.columns, "label")}


def _texts(rows: Rows, source: str) -> Corpus:
    def sentences() -> Iterator[str]:
        for column, values in rows.items():
            if column != "label":
                yield from values

    return Corpus(sentences, lambda: iter(()), source, f"{source} {len(rows['label'])}")


@dataclass(frozen=True)
class Encoded:
    """Examples as tokens: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]."""

    ids: Sequence[Sequence[int]]
    labels: np.ndarray

    @classmethod
    def of(cls, rows: Rows, known: GlueTask, made: Any, length: int, source: str) -> Encoded:
        labels = np.array(rows["label"], dtype=np.float32 if known.classes == 1 else np.int64)
        outside = [row for row, label in enumerate(rows["label"]) if not 0 <= label < known.classes]
        if known.classes > 1 and outside:
            row = outside[0]
            raise ValueError(
                f"{source}: row {row} has label {rows['label'][row]}; labels go from 0 to {known.classes - 1}"
            )
        first, last = made.token_to_id("[CLS]"), made.token_to_id("[SEP]")
        sides = [
            [found.ids for found in made.encode_batch(list(rows[c]), add_special_tokens=False)] for c in known.columns
        ]
        ids = []
        for pieces in zip(*sides, strict=True):
            kept = _cut(list(pieces), length - 1 - len(pieces))
            ids.append([first, *(token for piece in kept for token in (*piece, last))])
        return cls(ids, labels)

    def first(self, count: int) -> Encoded:
        return Encoded(self.ids[:count], self.labels[:count])

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, width: int, padding: int) -> Batch:
        ids = np.full((len(rows), width), padding, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for place, row in enumerate(rows):
            found = self.ids[row]
            ids[place, : len(found)], mask[place, : len(found)] = found, 1
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(self.labels[rows])

    def width(self, rows: np.ndarray) -> int:
        return max(len(self.ids[row]) for row in rows)


def _cut(pieces: list[list[int]], most: int) -> list[list[int]]:
    """The longest piece is cut until all fit."""
    while (over := sum(map(len, pieces)) - most) > 0:
        longest = max(range(len(pieces)), key=lambda place: len(pieces[place]))
        others = max((len(piece) for place, piece in enumerate(pieces) if place != longest), default=0)
        pieces[longest] = pieces[longest][: max(len(pieces[longest]) - over, min(others, len(pieces[longest]) - 1))]
    return pieces


class SentenceClassesData(Data):
    """One task's examples."""

    def __init__(self, task: SentenceClasses, source: str, made: Any, splits: Mapping[str, Encoded]) -> None:
        self.task, self.source, self.tokenizer, self.splits = task, source, made, splits
        self.known = GLUE_TASKS[task.name]
        self.size, self.tokens = len(splits["train"]), task.length
        self.padding = made.token_to_id("[PAD]")
        self.metric = Metric(self.known.metric, "%", resolution=100 / len(splits[self.known.held_out[0]]))
        self.options: Mapping[str, Any] = {"vocab_size": made.get_vocab_size(), "num_labels": self.known.classes}

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        train = self.splits["train"]
        for step in steps:
            rows = order.indices(step)
            yield train.padded(part.of(rows), train.width(rows), self.padding)  # as wide as the whole batch needs

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        ids, mask, labels = batch
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss

    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        """Rank correlations are no sums: the first process evaluates everything, the others add nothing."""
        found: dict[str, float] = {}
        for place, name in enumerate(self.known.held_out):
            split = self.splits[name]
            predicted = self._predicted(model, split, device) if part.index == 0 else None
            for key, value in metrics(self.known, predicted, split.labels).items():
                found[key if place == 0 else f"{key}_{name.removeprefix('validation_')}"] = value
        return found

    @torch.no_grad()
    def _predicted(self, model: nn.Module, split: Encoded, device: torch.device) -> np.ndarray:
        outputs = []
        for start in range(0, len(split), EVALUATED):
            rows = np.arange(start, min(start + EVALUATED, len(split)))
            ids, mask, _ = split.padded(rows, split.width(rows), self.padding)
            outputs.append(model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float().cpu())
        return torch.cat(outputs).numpy()

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return dict(sums)

    def probe_batch(self, count: int) -> dict[str, torch.Tensor]:
        split = self.splits[self.known.held_out[0]]
        rows = np.arange(min(count, len(split)))
        ids, mask, _ = split.padded(rows, split.width(rows), self.padding)
        return {"input_ids": ids, "attention_mask": mask}

    def accompany(self, folder: Path) -> None:
        tokenizing.save_tokenizer(self.tokenizer, folder)


def metrics(known: GlueTask, outputs: np.ndarray | None, labels: np.ndarray) -> dict[str, float]:
    """A task's metrics in percent; zeros where there are no outputs to judge."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if known.classes == 1:
        measures: dict[str, Any] = {"pearson": lambda a, b: _correlation(pearsonr, a, b)}
        measures["spearman"] = lambda a, b: _correlation(spearmanr, a, b)
        guessed = None if outputs is None else outputs[:, 0]
    else:
        measures = {"accuracy": accuracy_score}
        if known.metric == "f1":
            measures["f1"] = lambda a, b: f1_score(a, b, zero_division=0)
        if known.metric == "mcc":
            measures["mcc"] = matthews_corrcoef
        guessed = None if outputs is None else outputs.argmax(-1)
    return {name: 0.0 if guessed is None else 100 * float(found(labels, guessed)) for name, found in measures.items()}


def _correlation(measure: Any, labels: np.ndarray, guessed: np.ndarray) -> float:
    """A model that says the same of everything correlates with nothing."""
    return 0.0 if np.ptp(guessed) == 0 else float(measure(labels, guessed).statistic)
