"""Texts with labels, one by one or in pairs: IMDb, AAN, or parquet and tsv files of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leanformer.data import checks, hub
from leanformer.data.checks import BadData
from leanformer.data.corpora import is_held_out
from leanformer.data.locations import files_in, find_folder, needed, shown
from leanformer.data.tables import read_parquet, read_tsv

TextRow = tuple[str, int]
"""A text and its label."""
PairRow = tuple[str, str, int]
"""Two texts and their label."""

HUB = {"imdb": "stanfordnlp/imdb"}
"""Sets known by name, and where the hub has them."""
NAMES = {"imdb": ("negative", "positive")}
"""What the classes of sets known by name are called."""
PAIRS = ("aan",)
"""Sets of pairs known by name. The hub has none of them."""
ENDINGS = (".parquet", ".tsv")

PAIR_COLUMNS = ("label", "first", "second", "first_text", "second_text")
"""Of AAN's files, which have no header: a label, two papers' names, two texts."""
PAIR_FILES = {"train": "train", "validation": "eval", "test": "test"}
"""new_aan_pairs.train.tsv, .eval.tsv and .test.tsv."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts for training, for curves and for the score."""

    train: list[TextRow]
    validation: list[TextRow]
    """Taken from the training texts: each text's content decides, so that copies are never on both sides."""
    test: list[TextRow]
    classes: int
    source: str


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of texts for training, for curves and for the score."""

    train: list[PairRow]
    validation: list[PairRow]
    test: list[PairRow]
    source: str


def find(dataset: str, root: str | None = None) -> LabelledTexts:
    """The texts of that name or in that folder; `root` is the data folder [default: LEANFORMER_DATA]."""
    folder = find_folder(dataset, root)
    if folder is None and (os.path.exists(dataset) or dataset.startswith(("/", ".", "~"))):
        raise ValueError(f"{dataset} is not a folder; needed is a folder with train and test files (.parquet or .tsv)")
    if folder is None:
        rows, source = _from_hub(dataset, root)
    else:
        rows = {split: list(_read_split(folder, split)) for split in ("train", "test")}
        source = checks.printable(f"{dataset} in {shown(folder)}")
    train_labels = np.array([row.label for row in rows["train"]], dtype=np.int64)
    classes = checks.counted_classes(train_labels, lambda row: rows["train"][row].place, source)
    test_labels = np.array([row.label for row in rows["test"]], dtype=np.int64)
    checks.in_range(test_labels, classes, lambda row: rows["test"][row].place)
    train = [(row.text, row.label) for row in rows["train"] if not is_held_out(row.text)]
    validation = [(row.text, row.label) for row in rows["train"] if is_held_out(row.text)]
    if not train or not validation or not rows["test"]:
        raise BadData(
            f"{source}: {len(rows['train'])} training and {len(rows['test'])} test texts are too few; "
            f"about one training text in ten is taken for validation"
        )
    checks.report_missing(np.array([label for _, label in train]), classes, "training", source)
    checks.report_missing(test_labels, classes, "test", source)
    return LabelledTexts(train, validation, [(row.text, row.label) for row in rows["test"]], classes, source)


def find_pairs(dataset: str, root: str | None = None) -> LabelledPairs:
    """The pairs of that name or in that folder."""
    folder = find_folder(dataset, root)
    if folder is None:
        raise hub.NotAvailable(
            f"{dataset} is not on this machine, and the hub does not have it. Needed is {needed(dataset, root)} with "
            f"the Long-Range Arena's new_aan_pairs.train.tsv, .eval.tsv and .test.tsv"
        )
    train, validation, test = (_read_pairs(folder, word) for word in PAIR_FILES.values())
    return LabelledPairs(train, validation, test, f"pairs of documents in {shown(folder)}")


def holds_texts(path: Path) -> bool:
    """Whether a folder is a set of labelled texts by itself."""
    return any(file.name.startswith("train") and file.suffix in ENDINGS for file in files_in(path))


def holds_pairs(path: Path) -> bool:
    """Whether a folder is a set of labelled pairs by itself."""
    return any("train" in file.name and file.suffix == ".tsv" for file in files_in(path))


# Splits


@dataclass(frozen=True, slots=True)
class _Row:
    """A checked sample, and the place it was read from."""

    text: str
    label: int
    file: Path | str
    number: int

    @property
    def place(self) -> str:
        unit = "line" if str(self.file).endswith(".tsv") else "row"
        return f"{self.file}, {unit} {self.number}"


def _read_split(folder: Path, split: str) -> Iterator[_Row]:
    """Texts and labels of a split's parquet or tsv files."""
    files = checks.files_below(folder, lambda file: file.name.startswith(split) and file.suffix in ENDINGS)
    if not files:
        raise BadData(f"{folder} holds no {split} file (.parquet or .tsv)")
    for file in files:
        if file.suffix == ".tsv":
            for line, row in read_tsv(file, ("text", "label")):
                label = checks.whole_number(row["label"], f"{file}, line {line}")
                yield _Row(_not_empty(row["text"], f"{file}, line {line}"), label, file, line)
        else:
            rows = read_parquet(file, ("text", "label"))
            yield from _checked(rows["text"], rows["label"], file)


def _checked(texts: Sequence[Any], labels: Sequence[Any], file: Path | str) -> Iterator[_Row]:
    checks.as_many(len(texts), len(labels), str(file))
    whole = checks.whole_labels(labels, lambda row: f"{file}, row {row}")
    for number, (text, label) in enumerate(zip(texts, whole.tolist(), strict=True)):
        yield _Row(_not_empty(checks.text(text, f"{file}, row {number}"), f"{file}, row {number}"), label, file, number)


def _not_empty(text: str, where: str) -> str:
    """A text of at least one byte: a model that averages over tokens has nothing to average otherwise."""
    if not text:
        raise BadData(f"{where}: the text is empty; remove it")
    return text


def _read_pairs(folder: Path, word: str) -> list[PairRow]:
    files = checks.files_below(folder, lambda file: word in file.name and file.suffix == ".tsv")
    if not files:
        raise BadData(f"{folder} holds no {word} file (*.{word}.tsv)")
    rows = []
    for file in files:
        for line, row in read_tsv(file, PAIR_COLUMNS, header=False):
            where = f"{file}, line {line}"
            label = checks.whole_number(row["label"], where)
            if label not in (0, 1):
                raise BadData(f"{where}: a label is 0 or 1, got {label}")
            rows.append((_not_empty(row["first_text"], where), _not_empty(row["second_text"], where), label))
    if not rows:
        raise BadData(f"{files[0]} is empty")
    checks.report_missing(np.array([label for _, _, label in rows]), 2, word, str(files[0]))
    return rows


def _from_hub(name: str, root: str | None) -> tuple[dict[str, list[_Row]], str]:
    repository = HUB.get(name, name)
    wanted = f"{needed(name, root)} with train and test files (.parquet or .tsv)"
    loaded = hub.load_dataset(repository, what=name, needed=wanted)
    rows = {}
    for split in ("train", "test"):
        columns = hub.columns_of(loaded, split, ("text", "label"), repository)
        rows[split] = list(_checked(columns["text"], columns["label"], f"{repository} from the hub, {split}"))
    return rows, f"{repository} from the hub"
