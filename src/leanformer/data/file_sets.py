"""Which files of a user's path are read: the file itself, or those of one kind in a folder, with named splits."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leanformer.data import checks
from leanformer.data.checks import BadData
from leanformer.data.class_folders import is_litter
from leanformer.data.locations import HELD_OUT, TRAIN, files_in, shown, split_of
from leanformer.foundation.formats import counted

TEXTS = (".txt", ".md", ".rst", ".text")
TABLES = ((".parquet",), (".jsonl", ".ndjson", ".json"), (".csv", ".tsv"))
"""Kinds of files. Of a folder, those of the first kind that it has are read."""

Kinds = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class FileSet:
    """Files for training and held-out files."""

    train: tuple[Path, ...]
    held_out: tuple[Path, ...]
    """Those that are named after a held-out split."""
    source: str
    """In words, where they are."""
    notes: tuple[str, ...] = ()

    @property
    def is_of_tables(self) -> bool:
        return self.train[0].suffix.lower() in itertools.chain(*TABLES)


def holds(path: Path, kinds: Kinds) -> bool:
    """Whether a path is a file, or a folder with files of these kinds in it or in a split's folder."""
    endings = tuple(itertools.chain(*kinds))
    splits = [place for place in path.glob("*/") if place.name.lower() in (*TRAIN, *HELD_OUT)]
    listed = [*files_in(path), *(file for place in splits for file in files_in(place))]
    return os.path.isfile(path) or any(file.suffix.lower() in endings for file in listed)


def file_set(path: Path, kinds: Kinds, contents: str) -> FileSet:
    """The files of a path.

    Args:
        path: a file of any ending, or a folder.
        kinds: endings that are read from a folder, the preferred ones first.
        contents: in words, what a folder must hold.
    """
    if not os.path.isdir(path):
        return FileSet((checks.regular(path),), (), shown(path))
    known = tuple(itertools.chain(*kinds))
    listed = checks.files_below(path, lambda file: file.suffix.lower() in known and not is_litter(file))
    if not listed:
        raise BadData(f"{path} holds no {contents}")
    kind = next(kind for kind in kinds if any(file.suffix.lower() in kind for file in listed))
    files = [file for file in listed if file.suffix.lower() in kind]
    parts = {file: split_of(file, below=path) for file in files}
    splits = [split for split in HELD_OUT if split in parts.values()]
    train, held_out, unused = (
        tuple(file for file in files if parts[file] in wanted)
        for wanted in ({"", *TRAIN}, {*splits[:1]}, {*splits[1:]})
    )
    source = f"{counted(len(files), 'file')} in {shown(path)}"
    if not train:
        raise BadData(f"{source}: there is nothing to train on, only {', '.join(file.name for file in held_out)}")
    notes = _left_out(set(listed) - set(files), kind)
    for what, named in (("held out", held_out), ("not used", unused)):
        notes += [f"{what}: {_named(named, path)}"] if named else []
    return FileSet(train, held_out, source, tuple(notes))


def _left_out(others: Iterable[Path], kind: tuple[str, ...]) -> list[str]:
    counts = Counter(file.suffix.lower() for file in others)
    words = f"left out: {counted(counts.total(), 'file')} beside {kind[0]} ({checks.by_class(counts)})"
    return [words] if counts else []


def _named(files: Sequence[Path], folder: Path) -> str:
    return ", ".join(str(file.relative_to(folder)) for file in files[:3]) + (", …" if len(files) > 3 else "")
