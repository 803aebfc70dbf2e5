"""Document retrieval: whether two papers cite each other, read byte by byte, from AAN's tsv files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leanformer.data.locations import shown
from leanformer.tasks.base import Task
from leanformer.tasks.byte_classes import local, read_tsv, whole_number
from leanformer.tasks.sequence_classes import Ragged, SequenceData

COLUMNS = ("label", "first", "second", "first_text", "second_text")
"""Of the published files, which have no header: a label, two papers' names, two texts."""
FILES = {"train": "train", "validation": "eval", "test": "test"}
"""new_aan_pairs.train.tsv, .eval.tsv and .test.tsv."""


@dataclass(frozen=True, kw_only=True)
class PairClasses(Task):
    """Which pairs of documents, and how many bytes of each are read."""

    dataset: str = "aan"
    """aan, in the data folder, or a folder with *.train.tsv, *.eval.tsv and *.test.tsv."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    length: int = 4000
    """Bytes read of each document."""

    def load(self) -> SequenceData:
        folder = local(self.dataset, self.root)
        if folder is None:
            raise ValueError(
                f"{self.dataset} is not on this machine, and no hub has it: needed is a folder {self.dataset} with the "
                f"Long-Range Arena's new_aan_pairs.train.tsv, .eval.tsv and .test.tsv in LEANFORMER_DATA (or --data)"
            )
        parts = [self._read(folder, word) for word in FILES.values()]
        options = {"num_labels": 2, "two_towers": True}
        return SequenceData(f"pairs of documents in {shown(folder)}", parts, self.length, options)

    def _read(self, folder: Path, word: str) -> Pairs:
        files = sorted(folder.rglob(f"*{word}*.tsv"))
        if not files:
            raise ValueError(f"{folder} holds no {word} file (*.{word}.tsv)")
        firsts, seconds, labels = [], [], []
        for file in files:
            for line, row in read_tsv(file, COLUMNS, header=False):
                label = whole_number(row["label"], file, line)
                if label not in (0, 1):
                    raise ValueError(f"{file}, line {line}: a label is 0 or 1, got {label}")
                labels.append(label)
                firsts.append(row["first_text"].encode())
                seconds.append(row["second_text"].encode())
        if not labels:
            raise ValueError(f"{files[0]} is empty")
        return Pairs(*(Ragged.of(texts, labels, self.length) for texts in (firsts, seconds)))


@dataclass(frozen=True)
class Pairs:
    """Two documents and whether they belong together."""

    first: Ragged
    second: Ragged

    @property
    def labels(self) -> np.ndarray:
        return self.first.labels

    def __len__(self) -> int:
        return len(self.first)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        both = [side.padded(rows, length) for side in (self.first, self.second)]
        return np.stack([ids for ids, _ in both], axis=1), np.stack([lengths for _, lengths in both], axis=1)
