"""Single records as the page shows them: measurements, designs, and whatever else has a kind; and the scorecard."""

from __future__ import annotations

import threading
from typing import Any

from leanformer.app.folders import RESULT, Folder, Found
from leanformer.conditioning.measurement import Measurement
from leanformer.designing.record import DesignRecord
from leanformer.experiments.sentences import as_sentence
from leanformer.foundation.records import record_class
from leanformer.foundation.records.base import Record
from leanformer.inheriting.record import Inheritance
from leanformer.paper.record import Scorecard
from leanformer.paper.scorecard import paper
from leanformer.report.scorecard import sentences as scorecard_sentences

Json = dict[str, Any]

AS_PLAIN = ("run",)
"""Kinds whose class would import a user's code."""


def shown(folder: Folder, place: str) -> Json:
    """A record by its place: checked by the class of its kind, then in plain form with its sentences."""
    path = folder.inside(place)
    written = folder.plain(path)
    kind = written.get("kind") if isinstance(written, dict) else None
    if not isinstance(kind, str) or kind in AS_PLAIN or path.name == RESULT:
        raise ValueError(f"{path.name} is not a record that is shown by itself")
    return as_shown(record_class(kind).parse(written, path.name), place)


def as_shown(record: Record, place: str) -> Json:
    """What the page gets of a record."""
    return {"place": place, "kind": record.kind, "record": record.to_dict(), "sentences": _sentences(record)}


def _sentences(record: Record) -> list[str]:
    if isinstance(record, Scorecard):
        return scorecard_sentences(record)
    if isinstance(record, DesignRecord):
        return record.words
    if isinstance(record, Measurement):
        return [as_sentence(phrase) for phrase in record.warnings]
    return [as_sentence(phrase) for phrase in record.sentences()] if isinstance(record, Inheritance) else []


class Paper:
    """The scorecard: one from the folder, or else that of the records which come with the package."""

    def __init__(self) -> None:
        self._own: Json | None = None
        self._lock = threading.Lock()

    def found(self, folder: Folder | None, listed: Found) -> Json:
        places = [record["place"] for record in listed.records if record["kind"] == Scorecard.kind]
        if folder is not None and places:
            return shown(folder, places[-1])
        with self._lock:
            if self._own is None:
                self._own = as_shown(paper(), "")
            return self._own
