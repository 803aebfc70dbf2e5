"""GLUE: eight tasks on sentences, each with its columns, its metric and its validation splits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.data import checks, hub
from leanformer.data.corpora import Corpus
from leanformer.data.locations import in_root, needed, shown
from leanformer.data.tables import read_parquet

FOLDER = "glue"
"""In the data folder; it holds one folder per task."""
HUB = "nyu-mll/glue"

Rows = Mapping[str, Sequence[Any]]
"""A split's columns: the sentences and the label."""


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE."""

    columns: tuple[str, ...]
    """The sentences of an example."""
    classes: int
    """1 where a number is predicted."""
    metric: str
    held_out: tuple[str, ...] = ("validation",)
    """Splits that are evaluated. The metric of the first is the score."""
    names: tuple[str, ...] = ()
    """Of the classes, by label."""


ENTAILMENT = ("entailment", "neutral", "contradiction")

GLUE_TASKS = {
    "mnli": GlueTask(
        ("premise", "hypothesis"), 3, "accuracy", ("validation_matched", "validation_mismatched"), ENTAILMENT
    ),
    "sst2": GlueTask(("sentence",), 2, "accuracy", names=("negative", "positive")),
    "stsb": GlueTask(("sentence1", "sentence2"), 1, "pearson"),
    "rte": GlueTask(("sentence1", "sentence2"), 2, "accuracy", names=("entailment", "not_entailment")),
    "qnli": GlueTask(("question", "sentence"), 2, "accuracy", names=("entailment", "not_entailment")),
    "qqp": GlueTask(("question1", "question2"), 2, "f1", names=("not_duplicate", "duplicate")),
    "mrpc": GlueTask(("sentence1", "sentence2"), 2, "f1", names=("not_equivalent", "equivalent")),
    "cola": GlueTask(("sentence",), 2, "mcc", names=("unacceptable", "acceptable")),
}
"""In the order of the paper's Table 1."""


def find(name: str, root: str | None = None) -> tuple[dict[str, Rows], str]:
    """The checked rows of every split, and their source.

    Raises `hub.NotAvailable` if they are not available here.
    """
    task, folder = GLUE_TASKS[name], in_root((FOLDER,), root)
    splits = ("train", *task.held_out)
    if folder is not None:
        return {split: _from_folder(folder / name, split, task) for split in splits}, shown(folder / name)
    return {split: _from_hub(name, split, task, root) for split in splits}, f"glue/{name} from the hub"


def _from_folder(folder: Path, split: str, task: GlueTask) -> Rows:
    listed = [file for file in (checks.entries(folder) if folder.is_dir() else []) if file.suffix == ".parquet"]
    files = [file for file in listed if file.name.startswith(f"{split}-")]
    files = files or [file for file in listed if file.name == f"{split}.parquet"]
    if not files:
        raise hub.NotAvailable(f"{shown(folder)} holds no {split} file (parquet)")
    rows: dict[str, list[Any]] = {column: [] for column in (*task.columns, "label")}
    counts = []
    for file in files:
        for column, values in read_parquet(file, tuple(rows)).items():
            rows[column] += values
        counts.append(len(values))
    return checked(rows, task, checks.Places(files, counts), split, shown(folder))


def _from_hub(name: str, split: str, task: GlueTask, root: str | None) -> Rows:
    wanted = f"{needed(f'{FOLDER}/{name}', root)} with parquet files"
    loaded = hub.load_dataset(HUB, name, what=f"GLUE's {name}", needed=wanted, split=split)
    source = f"{HUB}/{name} from the hub"
    rows = hub.columns_of({split: loaded}, split, (*task.columns, "label"), f"{HUB}/{name}")
    return checked(rows, task, lambda row: f"{source}, {split}, row {row}", split, source)


def checked(rows: Rows, task: GlueTask, where: checks.Where, split: str, source: str) -> Rows:
    """The rows of a split, if all sentences are texts and all labels are classes of the task, or finite numbers."""
    if not len(rows["label"]):
        raise checks.BadData(f"{source}: the split {split} has no rows")
    for column in task.columns:
        checks.as_many(len(rows[column]), len(rows["label"]), f"{source}, {split}, column {column}")
        for row, value in enumerate(rows[column]):
            if not isinstance(value, str) or len(value) > checks.LONGEST_TEXT:
                checks.text(value, f"{where(row)}, column {column}")
    if task.classes == 1:
        checks.finite_labels(rows["label"], where)
        return rows
    labels = checks.whole_labels(rows["label"], where)
    checks.in_range(labels, task.classes, where)
    checks.report_missing(labels, task.classes, split, source)
    return {**rows, "label": labels.tolist()}


def corpus_of(rows: Rows, source: str) -> Corpus:
    """A split's sentences as texts, for training a tokenizer."""

    def sentences() -> Iterator[str]:
        for column, values in rows.items():
            if column != "label":
                yield from values

    digest = hashlib.sha256()
    for sentence in sentences():
        content = sentence.encode()
        digest.update(b"%d " % len(content) + content)
    return Corpus(sentences, lambda: iter(()), source, digest.hexdigest())
