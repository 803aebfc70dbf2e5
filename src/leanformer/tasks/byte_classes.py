"""Classes of texts that are read byte by byte: IMDb's reviews, or labelled texts of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from leanformer.data import labelled_texts
from leanformer.data.locations import settings_for
from leanformer.data.sequences import RaggedSequences
from leanformer.tasks.base import Task
from leanformer.tasks.sequence_classes import SequenceData
from leanformer.tasks.settings import check

CONTENTS = "train and test files (.parquet or .tsv) with the columns text and label"


@dataclass(frozen=True, kw_only=True)
class ByteClasses(Task):
    """Which texts, and how many bytes of each are read."""

    dataset: str = "imdb"
    """imdb, or a folder with train and test files (.parquet or .tsv) that have the columns text and label."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    length: int = 4000
    """Bytes that are read of each text, from its beginning."""

    def __post_init__(self) -> None:
        check(self, least={"length": 1})

    def with_data(self, path: str | Path) -> ByteClasses:
        names = (self.dataset,) if self.dataset in labelled_texts.HUB else ()
        return replace(self, **settings_for(path, names, labelled_texts.holds_texts, CONTENTS))

    def load(self) -> SequenceData:
        found = labelled_texts.find(self.dataset, self.root)
        parts = [self._encoded(rows) for rows in (found.train, found.validation, found.test)]
        names = labelled_texts.NAMES.get(self.dataset, ())
        return SequenceData(f"{found.source}, as bytes", parts, self.length, {"num_labels": found.classes}, names)

    def _encoded(self, rows: list[labelled_texts.TextRow]) -> RaggedSequences:
        """The first `length` bytes of each text."""
        return RaggedSequences.of_bytes(
            [text.encode()[: self.length] for text, _ in rows], [label for _, label in rows]
        )
