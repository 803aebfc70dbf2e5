"""The one door for data: files, texts, labels and classes of every source are checked here before a task sees them.

A check that fails raises `BadData`: one line that names the file, and the row or the line in it. Nothing is dropped,
rounded or cut without a word. The rules for classes are:

- A class that has no training samples is an error where the data themselves say which classes there are (folders of
  classes, the largest label). Public sets have a fixed number of classes: there it is a warning.
- A class that has no held-out samples is a warning. Held-out samples of a class without training samples are an error
  for one's own data.
- One class alone is an error.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from leanformer.foundation.arguments import ArgumentError

SHOWN = 5
"""Offending samples that a message names; of the others it gives the number."""
LARGEST_LABEL = 1 << 24
"""Labels beyond it are numbers of another kind, such as identifiers."""
LONGEST_TEXT = 1 << 28
"""Characters of one text."""
MOST_TEXT = 8 << 30
"""Characters of all labelled texts of a split, which are kept in memory."""

Where = Callable[[int], str]
"""The place of a row, in words."""


class BadData(ArgumentError):  # noqa: N818
    """Data that cannot be used. The message is one line that names the file.

    >>> raise BadData(f"{file} has two columns", "; choose one by {text_column}")

    Args:
        message: what is wrong.
        advice: what follows it. A name in braces is an argument; a command calls it by its option.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__("{message}" + advice, message=printable(message))

    def __reduce__(self) -> tuple[Any, ...]:
        return BadData, (str(self),)


def own_part(source: str, part: str) -> BadData:
    """What is said to a share to hold out of data that bring a held-out part."""
    return BadData(f"{source}: it has {part} of its own", ": leave {held_out} out")


def printable(text: str) -> str:
    """A text in one line that every terminal can show: names of files may contain anything but a slash."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# Files


def regular(file: Path) -> Path:
    """The file, if it can be read to its end. Reading a named pipe or a device might never return."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise unreadable(file, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise BadData(f"{file} is {kind}; needed is a regular file: remove it or rename it")
    return file


def unreadable(path: Path, error: OSError) -> BadData:
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return BadData(f"{path} is a link to {os.readlink(path)}, which does not exist; remove it or repair it")
    return BadData(f"{path} cannot be read: {error.strerror or first_line(error)}; make it readable or remove it")


@contextmanager
def reading(file: Path, kind: str) -> Iterator[None]:
    """Whatever a library raises inside, about a file of any content, becomes one line that names the file."""
    regular(file)
    try:
        yield
    except BadData:
        raise
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise BadData(f"{file} is not UTF-8: it has the byte {found:#04x}; convert it first") from error
    except PermissionError as error:
        raise unreadable(file, error) from error
    except Exception as error:  # libraries raise almost anything for damaged files
        raise BadData(f"{file} is not a readable {kind}: {first_line(error)}; replace or remove it") from error


def entries(folder: Path) -> list[Path]:
    """What a folder contains, sorted. A folder that cannot be listed is an error, as is a link to nothing."""
    try:
        with os.scandir(folder) as listed:
            found = sorted(folder / entry.name for entry in listed)
    except OSError as error:
        raise unreadable(folder, error) from error
    for path in found:
        if path.is_symlink() and not os.path.exists(path):
            try:
                path.stat()
            except OSError as error:
                raise unreadable(path, error) from error
    return found


def folders_in(folder: Path) -> list[Path]:
    return [path for path in entries(folder) if os.path.isdir(path)]


def files_below(folder: Path, wanted: Callable[[Path], bool], regular_only: bool = True) -> list[Path]:
    """Wanted files in a folder and all folders below it, sorted. Links are followed; one that leads in a circle is not.

    A folder that cannot be listed is an error. With `regular_only`, so is a wanted file that is not a regular file.
    """
    found: list[Path] = []
    waiting: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        place, above = waiting.pop()
        try:
            about = place.stat()
        except OSError as error:
            raise unreadable(place, error) from error
        identity = (about.st_dev, about.st_ino)
        if identity in above:
            raise BadData(f"{place} is a link to a folder that contains it; remove the link")
        for path in entries(place):
            if os.path.isdir(path):
                waiting.append((path, above | {identity}))
            elif wanted(path):
                found.append(regular(path) if regular_only else path)
    return sorted(found)


def identity(files: Iterable[Path]) -> str:
    """A digest of the files' names, sizes and times."""
    digest = hashlib.sha256()
    for file in files:
        about = file.stat()
        digest.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


@dataclass(frozen=True)
class Places:
    """Which file each row of a split came from."""

    files: Sequence[Path]
    rows: Sequence[int]
    """Rows of each file."""

    def __call__(self, row: int) -> str:
        ends = list(accumulate(self.rows))
        place = bisect_right(ends, row)
        return f"{self.files[place]}, row {row - (ends[place - 1] if place else 0)}"


# Texts


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BadData(f"{where}: needed is a text, got {shortened(value)}")
    if len(value) > LONGEST_TEXT:
        raise BadData(
            f"{where}: the text has {len(value):,} characters, at most {LONGEST_TEXT:,} are read; cut it into pieces"
        )
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise BadData(f"{where}: the text is not Unicode: it has half of a surrogate pair; repair or remove it")
    return value


def shortened(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, (str, bytes)):
        value = value[:40]
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


# Labels


def whole_number(value: Any, where: str) -> int:
    """One label: a whole number, also if it is written as 1.0 or, in a file of text, as "1"."""
    number = value
    if isinstance(value, str):
        with suppress(ValueError):
            number = float(value) if "_" not in value else value
    if isinstance(number, (np.integer, np.floating, np.bool_)):
        number = number.item()
    whole = isinstance(number, int) or (isinstance(number, float) and math.isfinite(number) and number.is_integer())
    if not whole or abs(number) > LARGEST_LABEL:
        raise BadData(f"{where}: a label must be a whole number from 0 to {LARGEST_LABEL:,}, got {shortened(value)}")
    return int(number)


def whole_labels(values: Sequence[Any], where: Where) -> np.ndarray:
    """Labels of classes. Texts are not numbers here: a column of texts is a mistake."""
    plain = []
    for row, value in enumerate(values):
        if isinstance(value, str):
            raise BadData(f"{where(row)}: a label must be a whole number, got {shortened(value)}; number the classes")
        plain.append(value if type(value) is int and 0 <= value <= LARGEST_LABEL else whole_number(value, where(row)))
    return np.array(plain, dtype=np.int64)


def finite_labels(values: Sequence[Any], where: Where) -> np.ndarray:
    """Numbers that are predicted, as float32."""
    for row, value in enumerate(values):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not abs(value) <= float(np.finfo(np.float32).max):
            raise BadData(f"{where(row)}: a label must be a finite number, got {shortened(value)}")
    return np.array(values, dtype=np.float32)


def in_range(labels: np.ndarray, classes: int, where: Where) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        row = int(wrong[0])
        others = f", and {len(wrong) - 1} more are out of range" if len(wrong) > 1 else ""
        raise BadData(
            f"{where(row)} has label {int(labels[row])}; with {classes} classes labels go from 0 to {classes - 1}"
            f"{others}"
        )


def counted_classes(labels: np.ndarray, where: Where, source: str) -> int:
    """The number of classes that training labels name: all from 0 to the largest, each at least once."""
    if not len(labels):
        raise BadData(f"{source}: there are no training samples")
    if labels.min() < 0:
        row = int(labels.argmin())
        raise BadData(f"{where(row)} has label {int(labels[row])}; labels begin with 0")
    present, classes = np.unique(labels), int(labels.max()) + 1
    if len(present) < classes:
        missing = int(np.flatnonzero(present != np.arange(len(present)))[0])
        row = int(labels.argmax())
        raise BadData(
            f"{where(row)} has label {classes - 1}, but no training sample has label {missing}; "
            f"number the classes from 0 without gaps"
        )
    several(classes, source)
    return classes


def several(classes: int, source: str) -> None:
    if classes < 2:
        raise BadData(f"{source}: all samples have one class; a classifier needs at least 2 classes")


def report_missing(labels: np.ndarray, classes: int, split: str, source: str, names: Sequence[str] = ()) -> None:
    """Warn of classes that a split lacks: the score then speaks of the others only."""
    lacking = sorted(set(range(classes)) - set(np.unique(labels).tolist()))
    if lacking:
        shown = ", ".join(names[label] if names else str(label) for label in lacking[:SHOWN])
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        plural = "class" if len(lacking) == 1 else "classes"
        warnings.warn(printable(f"{source}: no {split} samples of the {plural} {shown}{more}"), stacklevel=2)


def as_many(samples: int, labels: int, source: str) -> None:
    if samples != labels:
        raise BadData(f"{source}: there are {samples:,} samples and {labels:,} labels; each sample needs one label")


def raise_all(found: Sequence[str], remedy: str = "") -> None:
    """One error for all offending samples of a set; the remedy may name arguments in braces."""
    if found:
        more = f"; and {len(found) - SHOWN} more, {len(found)} in all" if len(found) > SHOWN else ""
        raise BadData("; ".join(found[:SHOWN]) + more, f": {remedy}" if remedy else "")


def by_class(counts: Mapping[str, int]) -> str:
    """How many of each class, the largest numbers first: "cat 2, dog 1"."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(ranked) - 2 * SHOWN} more" if len(ranked) > 2 * SHOWN else ""
    return printable(", ".join(f"{name} {count:,}" for name, count in ranked[: 2 * SHOWN]) + more)
