"""κ of a saved model in the folder, measured when the page asks for it."""

from __future__ import annotations

import threading
from typing import Any

from leanformer.app.folders import CONFIG, Folder
from leanformer.app.shown_records import as_shown
from leanformer.experiments.measuring import measure

SAMPLES = 4


class Measuring:
    """One measurement at a time. What was measured is kept until the model's files change."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def measured(self, place: str) -> dict[str, Any]:
        """On random inputs: the task of a run, which could be a user's code, is not loaded."""
        path = self._folder.inside(place)
        if (path / "model" / CONFIG).is_file():
            path = self._folder.inside(f"{place}/model")
        if not (path / CONFIG).is_file():
            raise ValueError(f"{path.name} is not a saved model: it has no {CONFIG}")
        self._folder.check_links(path)
        changed = max(file.stat().st_mtime_ns for file in path.iterdir())
        with self._lock:
            known = self._known.get(place)
            if known is None or known[0] != changed:
                record = measure(path, SAMPLES, random=True, progress=False)
                known = self._known[place] = (changed, as_shown(record, place))
        return known[1]
