"""What is in the folder that the explorer shows: found by the names of files, read as plain data, never outside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leanformer.foundation.records import KINDS
from leanformer.foundation.records.files import read_json, worker_in

PLANS = {"plan.json": "comparison", "own-plan.json": "comparison", "sweep-plan.json": "sweep"}
STUDIES = {"comparison.json": "comparison", "sweep.json": "sweep", "glue.json": "glue"}
"""Files that make a folder a study, and the kind of study."""
RUN, RESULT, FAILURE, CONFIG = "run.json", "result.json", "diverged.json", "config.json"
OWN = {RUN, RESULT, FAILURE, CONFIG, *PLANS, *STUDIES}
CLOSED = {"checkpoints", "figures", "model"}
"""Folders that are not searched: they hold no records, and may hold very many files."""
DEEPEST = 8
"""Levels of folders that are searched."""
MOST_FILES = 20_000
"""Folders and JSON files that are looked at."""
LARGEST = 64 * 2**20
"""Bytes of the largest file that is read."""

Json = dict[str, Any]


@dataclass
class Found:
    """What a search has found; places are paths from the folder on."""

    studies: list[Json] = field(default_factory=list)
    runs: list[Json] = field(default_factory=list)
    records: list[Json] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    """Saved models."""
    truncated: bool = False
    """Whether there was more than is looked at."""


class Folder:
    """The folder; every path that a request names is checked here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path.resolve()
        self._known: dict[str, tuple[tuple[int, int], Json]] = {}
        self._lock = threading.Lock()

    def inside(self, place: str) -> Path:
        """The file or folder of a place, or a `ValueError` if there is none inside this folder."""
        try:
            found = (self.root / place).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # ValueError: a null character; RuntimeError: links in a circle
            found = None
        if found is None or not found.is_relative_to(self.root):
            raise ValueError("there is nothing of that name in this folder")
        return found

    def check_links(self, path: Path) -> None:
        """A `ValueError` if a file beneath a folder is a link that leads out: who reads the folder would follow it."""
        for home, _, files in os.walk(path):  # which does not enter folders that are links
            for name in files:
                file = Path(home, name)
                if file.is_symlink() and not file.resolve().is_relative_to(self.root):
                    raise ValueError("a file in it is a link that leads out of the folder, so it is not opened")

    def place_of(self, path: Path) -> str:
        return "" if path == self.root else str(path.relative_to(self.root))

    def plain(self, path: Path) -> Any:
        """The JSON of a file inside the folder that is not too large."""
        checked = self.inside(self.place_of(path))
        if checked.stat().st_size > LARGEST:
            raise ValueError(f"{path.name} is larger than {LARGEST >> 20} MB and is not shown")
        return read_json(checked)

    def search(self) -> Found:
        """Everything that can be shown, without reading more than is needed to list it."""
        found, seen = Found(), 0
        for path, files in self._folders(self.root, 0):
            seen += 1 + len(files)
            if seen > MOST_FILES:
                found.truncated = True
                break
            if RUN in files:
                found.runs.append(self._run(path, files))
            elif files & (PLANS.keys() | STUDIES.keys()):
                found.studies.append(self._study(path, files))
            if CONFIG in files or self._is_file(path / "model" / CONFIG):
                found.models.append(self.place_of(path))
            for name in sorted(files - OWN):
                found.records += self._record(path / name)
        return found

    def _folders(self, path: Path, depth: int) -> Iterator[tuple[Path, set[str]]]:
        """Folders with their JSON files, in order. Links are not followed."""
        try:
            with os.scandir(path) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return
        yield path, {entry.name for entry in listed if entry.name.endswith(".json") and self._is_plain(entry)}
        for entry in listed:
            if depth < DEEPEST and entry.name not in CLOSED and entry.name[0] != "." and self._is_folder(entry):
                yield from self._folders(path / entry.name, depth + 1)

    @staticmethod
    def _is_plain(entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_file(follow_symlinks=False)
        except OSError:
            return False

    @staticmethod
    def _is_folder(entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir(follow_symlinks=False)
        except OSError:
            return False

    def _is_file(self, path: Path) -> bool:
        try:
            return path.is_file() and path.resolve().is_relative_to(self.root)
        except OSError:
            return False

    # What the lists show of each

    def _run(self, path: Path, files: set[str]) -> Json:
        entry: Json = {"place": self.place_of(path), "name": path.name, "seed": None, "state": _state(path, files)}

        def facts(written: Any) -> Json:
            return {"name": str(written["name"]), "seed": int(written["seed"]), "steps": written["training"]["steps"]}

        return entry | self._facts(path / RUN, facts)

    def _study(self, path: Path, files: set[str]) -> Json:
        kind = next(kind for name, kind in (STUDIES | PLANS).items() if name in files)
        if "sweep-plan.json" in files or "sweep.json" in files:
            kind = "sweep"
        entry: Json = {"place": self.place_of(path), "kind": kind, "name": path.name, "outcome": None, "words": ""}
        for name in (*STUDIES, *PLANS):
            if name in files and (STUDIES | PLANS)[name] == kind:
                return entry | self._facts(path / name, _study_facts) | {"finished": name in STUDIES}
        return entry

    def _record(self, path: Path) -> list[Json]:
        def facts(written: Any) -> Json:
            kind = written.get("kind") if isinstance(written, dict) else None
            if kind not in KINDS:
                return {"kind": None}
            title = next((written[key] for key in ("model", "name", "study") if isinstance(written.get(key), str)), "")
            about = [written[key] for key in ("weights", "inputs") if isinstance(written.get(key), str)]
            return {"kind": kind, "name": title or path.stem, "about": ", ".join(about)}

        found = self._facts(path, facts)
        return [{"place": self.place_of(path), **found}] if found.get("kind") else []

    def _facts(self, path: Path, facts: Any) -> Json:
        """What a file says, kept until it changes; of a damaged one, what is wrong with it."""
        try:
            now = path.stat()
        except OSError as error:
            return {"problem": str(error.strerror)}
        state, key = (now.st_mtime_ns, now.st_size), str(path)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        try:
            said: Json = facts(self.plain(path))
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            said = {"problem": f"{path.name} is damaged ({type(error).__name__})"}
        with self._lock:
            self._known[key] = (state, said)
        return said


def _state(path: Path, files: set[str]) -> str:
    """Of a run, by the files that are there; `leanformer.experiments.status` looks into them too."""
    if RESULT in files:
        return "done"
    if worker_in(path):
        return "running"
    if FAILURE in files:
        return "failed"
    begun = (path / "timing.jsonl").exists() or (path / "checkpoints").exists()
    return "stopped" if begun else "queued"


def _study_facts(written: Any) -> Json:
    """Name and verdict, as the file states them."""
    verdict = written.get("verdict") or {}
    words = verdict.get("words") or next(iter(written.get("words") or []), "")
    return {
        "name": str(written.get("name") or written["kind"]),
        "outcome": verdict.get("outcome"),
        "words": str(words),
    }
