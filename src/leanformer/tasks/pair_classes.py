"""Classes of pairs of texts that are read byte by byte: whether two papers cite each other, from AAN's tsv files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from leanformer.data import labelled_texts
from leanformer.data.locations import settings_for
from leanformer.data.sequences import PairedSequences, RaggedSequences
from leanformer.tasks.base import Task
from leanformer.tasks.sequence_classes import SequenceData
from leanformer.tasks.settings import check


@dataclass(frozen=True, kw_only=True)
class PairClasses(Task):
    """Which pairs of documents, and how many bytes of each are read."""

    dataset: str = "aan"
    """aan, in the data folder, or a folder with *.train.tsv, *.eval.tsv and *.test.tsv."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    length: int = 4000
    """Bytes that are read of each document, from its beginning."""

    def __post_init__(self) -> None:
        check(self, least={"length": 1})

    def with_data(self, path: str | Path) -> PairClasses:
        names = (self.dataset,) if self.dataset in labelled_texts.PAIRS else ()
        contents = "*.train.tsv, *.eval.tsv and *.test.tsv"
        return replace(self, **settings_for(path, names, labelled_texts.holds_pairs, contents))

    def load(self) -> SequenceData:
        found = labelled_texts.find_pairs(self.dataset, self.root)
        parts = [self._encoded(rows) for rows in (found.train, found.validation, found.test)]
        return SequenceData(found.source, parts, self.length, {"num_labels": 2, "two_towers": True})

    def _encoded(self, rows: list[labelled_texts.PairRow]) -> PairedSequences:
        """The first `length` bytes of each document."""
        labels = [label for _, _, label in rows]
        sides = ([first for first, _, _ in rows], [second for _, second, _ in rows])
        cut = [[text.encode()[: self.length] for text in texts] for texts in sides]
        return PairedSequences(*(RaggedSequences.of_bytes(texts, labels) for texts in cut))
