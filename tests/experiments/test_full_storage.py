"""A storage that is full or does not answer: one line, nothing lost, and the same call finishes later."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import leanformer as lf
from leanformer.foundation.storage import Mirror, Storage
from support import tiny_run
from support.command import call

URL = "memory://bucket/study"


class Room:
    """How many files the storage still takes."""

    left: float = float("inf")

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("leanformer.foundation.storage.PAUSES", (0.01,))
    room, put, pipe = Room(), MemoryFileSystem.put_file, MemoryFileSystem.pipe_file

    def limited_put(self: Any, *given: Any, **options: Any) -> None:
        room.take()
        put(self, *given, **options)

    def limited_pipe(self: Any, *given: Any, **options: Any) -> None:
        room.take()
        pipe(self, *given, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", limited_put)
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", limited_pipe)
    MemoryFileSystem.store.clear()
    yield room
    MemoryFileSystem.store.clear()


def compared(out: str | Path) -> lf.Comparison:
    recipe = tiny_run.recipe(training=tiny_run.training(steps=6, evaluations=1, probe=0, save_every=2))
    return lf.compare(recipe, arms="original,lean", seeds=1, jobs=1, out=out, report=False, progress=False)


def results(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("result.json"))}


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


@pytest.mark.parametrize("taken", [2, 4, 25])
def test_a_full_storage_loses_nothing(taken: int, room: Room, tmp_path: Path) -> None:
    room.left = taken
    with pytest.raises(OSError, match=r"^memory://bucket/study\S* could not be written to: .*No space left") as full:
        compared(URL)
    assert "\n" not in str(full.value)
    here = Mirror.of(URL).folder
    finished = results(here)
    assert "plan.json" in files(here), "what is here stays here"
    room.left = float("inf")
    compared(URL)
    assert finished.items() <= results(here).items(), "what was finished is not trained again"
    compared(tmp_path / "local")
    assert results(here) == results(tmp_path / "local")
    there = set(Storage(URL).listed())
    assert files(here) <= there
    assert not [name for name in there if "/.lease" in name]


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("leanformer.foundation.storage.PAUSES", (0.01,))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for name, value in {
        "ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "ACCESS_KEY_ID": "test",
        "MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    shown = call("compare", "digits", "--out", "s3://bucket/study")
    said = " ".join(shown.stderr.split())
    assert shown.returncode == 2, said
    assert "s3://bucket/study could not be read: " in said
    assert str(port) in said
    assert "Traceback" not in said
