"""Texts with classes of one's own: tables with a column of texts and one of labels, or DIR/CLASS/*.txt.

Labels are words or whole numbers. All rows that cannot be used are reported together, or left out if that is asked for.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leanformer.data import checks, corpora, hub, labels, tables
from leanformer.data.checks import BadData
from leanformer.data.class_folders import Kind, Listing, Parts, holds_classes
from leanformer.data.corpora import Corpus
from leanformer.data.file_sets import TABLES, TEXTS, file_set, holds
from leanformer.data.locations import HELD_OUT, HUB, TRAIN, needed, shown
from leanformer.data.tables import Row
from leanformer.foundation.formats import counted, percent

LABELS = (
    *("label", "labels", "class", "category", "target", "sentiment", "topic", "intent", "emotion", "tag"),
    *("rating", "stars", "score", "y"),
)
"""Usual names of the column of labels."""
FILES = Kind("text", ", ".join(TEXTS), lambda file: file.suffix.lower() in TEXTS and not file.name.startswith("."))
CONTENTS = (
    "a .csv, .tsv, .jsonl or .parquet file with a column of texts and one of labels, a folder of such files, or "
    "CLASS/*.txt"
)
"""In words, what classified texts consist of."""
MOST_CLASSES = 20
"""More classes than this need at least two texts each, on average; else the labels are of another kind."""


@dataclass(frozen=True)
class Reading:
    """How classified texts are read."""

    text_column: str = ""
    label_column: str = ""
    held_out: float = corpora.SHARE
    """Which share of each class is held out. If there is a held-out part, another share than usual is refused."""
    skip_bad: bool = False
    """Leave out rows without a text or a label, and empty classes; else they are errors."""


@dataclass(frozen=True)
class Classified:
    """Texts and the numbers of their classes."""

    texts: Sequence[str]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def chosen(self, rows: np.ndarray) -> Classified:
        return Classified([self.texts[row] for row in rows], self.labels[rows])


@dataclass(frozen=True)
class ClassifiedTexts:
    """Texts for training and held-out texts."""

    train: Classified
    held_out: Classified
    names: tuple[str, ...]
    """Of the classes, by number."""
    source: str
    notes: tuple[str, ...] = ()
    own_part: bool = False
    """Whether the source brings its held-out texts."""

    def corpus(self) -> Corpus:
        """The training texts, for a tokenizer."""
        digest = hashlib.sha256()
        for text in self.train.texts:
            content = text.encode()
            digest.update(b"%d " % len(content) + content)
        return Corpus(lambda: iter(self.train.texts), lambda: iter(()), self.source, digest.hexdigest())


def find(name: str, root: str | None = None, reading: Reading | None = None) -> ClassifiedTexts:
    """The texts at a path, or of a data set on the hub."""
    how = reading or Reading()
    if not name:
        raise ValueError(f"no texts are named: give {CONTENTS}")
    path = Path(name).expanduser()
    if HUB.fullmatch(name) and not os.path.lexists(path):
        return _from_hub(name, root, how)
    if not os.path.lexists(path):
        raise BadData(f"there is no file or folder {path}; needed is {CONTENTS}")
    if os.path.isdir(path) and not _holds_tables(path) and holds_classes(path, FILES):
        return _from_class_folders(path, how)
    files = file_set(path, TABLES, f"classified texts; needed is {CONTENTS}")
    if not files.is_of_tables:
        raise BadData(f"{path} is not a table, so that no labels are known; needed is {CONTENTS}")
    rows = _Rows(how)
    train = list(rows.of_tables(files.train))
    held_out = list(rows.of_tables(files.held_out))
    return rows.finished(train, held_out if files.held_out else None, files.source, files.notes)


def holds_texts(path: Path) -> bool:
    """Whether a path holds classified texts by itself."""
    return _holds_tables(path) or (os.path.isdir(path) and holds_classes(path, FILES))


def _holds_tables(path: Path) -> bool:
    return holds(path, TABLES)


@dataclass(frozen=True, slots=True)
class _Sample:
    text: str
    label: str
    place: str


def _from_class_folders(folder: Path, how: Reading) -> ClassifiedTexts:
    if how.text_column or how.label_column:
        raise BadData(f"{folder} holds folders of classes, which have no columns to name")
    parts, rows = Parts.of(folder), _Rows(how)
    listing = Listing(FILES, parts.train, how.skip_bad)
    names = listing.classes()

    def read(split: Path) -> list[_Sample]:
        found = listing.labelled(split, names)
        return list(rows.checked(Row(str(file), (_content(file), names[label])) for file, label in found))

    train = read(parts.train)
    held_out = read(parts.held_out) if parts.held_out is not None else None
    notes = (*listing.notes(), *parts.notes())
    return rows.finished(train, held_out, f"the folder {shown(folder)}", notes)


def _content(file: Path) -> str:
    return "".join(line for _, line in tables.lines_of(file)).strip()


def _from_hub(name: str, root: str | None, how: Reading) -> ClassifiedTexts:
    loaded = hub.load_dataset(name, what=name, needed=f"{needed(name, root)}, or {CONTENTS}")
    train = next((split for split in TRAIN if split in loaded), None)
    if train is None:
        raise BadData(f"{name} from the hub has no split named train, only {', '.join(loaded)}")
    held_out = [split for split in HELD_OUT if split in loaded]
    rows, source = _Rows(how), f"{name} from the hub"
    text, label = rows.columns_in(loaded[train].column_names, source)
    classes = tuple(getattr(loaded[train].features[label], "names", None) or ())

    def read(split: str) -> list[_Sample]:
        found = hub.columns_of(loaded, split, (text, label), name)
        pairs = enumerate(zip(found[text], found[label], strict=True))
        return list(rows.checked((Row(f"{source}, {split}, row {n}", pair) for n, pair in pairs), classes))

    notes = tuple(f"the split {split} is not used: {held_out[0]} is held out" for split in held_out[1:])
    return rows.finished(read(train), read(held_out[0]) if held_out else None, source, notes)


@dataclass
class _Rows:
    """Reads rows, and collects what is wrong with them."""

    how: Reading
    columns: dict[str, str] = field(default_factory=dict)
    """The columns that are read, and what they hold."""
    wrong: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    """Rows that cannot be used, by class."""
    numbers: list[float] = field(default_factory=list)
    """What was found in place of texts."""

    def of_tables(self, files: Iterable[Path]) -> Iterator[_Sample]:
        for file in files:
            text, label = self.columns_in(tables.columns_of(file), str(file))
            names = tables.class_names_of(file, label) if file.suffix.lower() == ".parquet" else ()
            yield from self.checked(tables.rows_of(file, [text, label]), names)

    def columns_in(self, names: Sequence[str], source: str) -> tuple[str, str]:
        """The columns of texts and labels: those that are named, those of usual names, or the other one of two."""
        text, label = self.how.text_column, self.how.label_column
        if text and text == label:
            raise ValueError(f"text_column and label_column are both {text}: the texts cannot be their own labels")
        label = tables.among([name for name in names if name != text], label, LABELS, source)
        text = tables.among([name for name in names if name != label], text, corpora.COLUMNS, source)
        if len(names) == 2 and bool(text) != bool(label):
            other = next(name for name in names if name not in (text, label))
            text, label = text or other, label or other
        for found, what in ((text, "text"), (label, "label")):
            if not found:
                raise tables.unknown_column(names, what, source)
        self.columns |= {text: "texts", label: "labels"}
        return text, label

    def checked(self, rows: Iterable[Row], names: Sequence[str] = ()) -> Iterator[_Sample]:
        """The rows that can be used, each with its class; `names` are the classes that numbers stand for."""
        size = 0
        for row in rows:
            text, label = row.values or (None, None)
            word = labels.as_word(label)
            if word is not None and names and word.isdecimal() and int(word) < len(names):
                word = names[int(word)]
            if problem := row.problem or _problem(text, label, word):
                self.wrong.append(f"{row.place}: {problem}")
                if isinstance(text, (int, float)) and not isinstance(text, bool):
                    self.numbers.append(text)
                self.lost[word if word is not None else "without a label"] += 1
                continue
            size += len(text)
            if size > checks.MOST_TEXT:
                raise BadData(f"{row.place}: too many characters to be kept in memory; use fewer texts")
            yield _Sample(checks.text(text, row.place), str(word), row.place)

    def finished(
        self, train: list[_Sample], held_out: list[_Sample] | None, source: str, notes: Sequence[str]
    ) -> ClassifiedTexts:
        """The set of these samples, split here if no held-out ones are given."""
        found, own_part = list(notes), held_out is not None
        if own_part and self.how.held_out != corpora.SHARE:
            raise checks.own_part(source, corpora.OWN_PART)
        if self.columns:
            found.append(", ".join(f"the {what} are in the column {name}" for name, what in self.columns.items()))
        if self.numbers and not train:
            raise self._of_numbers(self.numbers[0], source)
        if self.wrong and not self.how.skip_bad:
            checks.raise_all(self.wrong, "repair or remove such rows, or set {skip_bad} to train without them")
        if self.wrong:
            found.append(f"left out: {counted(len(self.wrong), 'row')} ({checks.by_class(self.lost)})")
        self._check_texts(train, source)
        names = _names(train, source)
        if held_out is None:
            train, held_out = _split(train, self.how.held_out, source)
            words = (
                f"no held-out texts are given: {percent(self.how.held_out)} of each class are held out here, by a hash"
            )
            found.append(f"{words} of each text (held_out={self.how.held_out:g})")
        if not held_out:
            raise BadData(f"{source}: there are no held-out texts")
        parts = [_numbered(part, names) for part in (train, held_out)]
        for part, what in zip(parts, ("training", "held-out"), strict=True):
            checks.report_missing(part.labels, len(names), what, source, names)
        return ClassifiedTexts(parts[0], parts[1], names, source, tuple(found), own_part)

    def _check_texts(self, train: Sequence[_Sample], source: str) -> None:
        """A column that was guessed and holds nothing but numbers is hardly one of texts."""
        if self.columns and not self.how.text_column and train and all(_is_number(sample.text) for sample in train):
            raise self._of_numbers(train[0].text, source)

    def _of_numbers(self, example: Any, source: str) -> BadData:
        column = next((name for name, what in self.columns.items() if what == "texts"), "")
        return BadData(
            f"{source}: the column {column} holds numbers, such as {checks.shortened(example)}; needed are texts",
            ": name their column by {text_column}",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _problem(text: Any, label: Any, word: str | None) -> str:
    """What is wrong with a row; empty if nothing is."""
    if word is None and (label is None or label == "" or (isinstance(label, float) and math.isnan(label))):
        return "the label is missing"
    if word is None:
        return f"a label must be a word or a whole number, got {checks.shortened(label)}"
    if not isinstance(text, str):
        return f"needed is a text, got {checks.shortened(text)}"
    return "" if text.strip() else "the text is empty"


def _names(train: Sequence[_Sample], source: str) -> tuple[str, ...]:
    if not train:
        raise BadData(f"{source}: there are no training texts; needed is {CONTENTS}")
    names = labels.class_names(sample.label for sample in train)
    if len(names) < 2:
        raise BadData(
            f"{source}: all {len(train):,} texts have the label {checks.shortened(names[0])}; needed are at least 2 "
            "classes",
            ": add texts of another class, or name another column by {label_column}",
        )
    if len(names) > max(MOST_CLASSES, len(train) // 2):
        raise BadData(
            f"{source}: {len(train):,} training texts have {len(names):,} different labels, such as "
            f"{checks.shortened(names[0])}; needed are classes",
            ": name another column by {label_column}",
        )
    return names


def _numbered(part: Sequence[_Sample], names: Sequence[str]) -> Classified:
    words = [sample.label for sample in part]
    return Classified([sample.text for sample in part], labels.numbered(words, names, lambda row: part[row].place))


def _split(samples: list[_Sample], share: float, source: str) -> tuple[list[_Sample], list[_Sample]]:
    """Of each class, the texts with the smallest hashes are held out; copies of a text stay on one side."""
    digests = [hashlib.sha256(sample.text.strip().encode()).digest() for sample in samples]
    taken: set[bytes] = set()
    for name in dict.fromkeys(sample.label for sample in samples):
        own = sorted({digest for digest, sample in zip(digests, samples, strict=True) if sample.label == name})
        if len(own) > 1:
            taken |= set(own[: min(len(own) - 1, max(1, round(share * len(own))))])
    if not taken:
        raise BadData(f"{source}: no class has 2 different texts, so that none can be held out; add texts")
    both = zip(digests, samples, strict=True)
    parts: tuple[list[_Sample], list[_Sample]] = ([], [])
    for digest, sample in both:
        parts[digest in taken].append(sample)
    return parts
