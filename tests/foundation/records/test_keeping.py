"""Results are not lost when they cannot be written where they belong."""

import errno
import os
import warnings
from pathlib import Path

import pytest

from leanformer.foundation.records import NotWritten, record_class
from leanformer.foundation.records.base import Record
from leanformer.foundation.records.keeping import keep, publish

RECORD = Path(__file__).parents[3] / "results" / "sweep-farthest-deep" / "sweep.json"


@pytest.fixture
def record() -> Record:
    return record_class("sweep").read(RECORD)


def test_a_result_and_its_report_are_written_and_named(record: Record, tmp_path: Path) -> None:
    said: list[str] = []
    publish(record, tmp_path / "out" / "sweep.json", say=said.append)
    assert said == [f"written: {tmp_path}/out/sweep.json, sweep.md, sweep.png, sweep.svg"]
    assert type(record).read(tmp_path / "out" / "sweep.json") == record
    publish(record, tmp_path / "bare" / "sweep.json", report=False, say=said.append)
    assert [file.name for file in (tmp_path / "bare").iterdir()] == ["sweep.json"]


def test_what_cannot_be_written_there_is_written_elsewhere(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "blocked").write_text("a file in the place of the folder")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("blocked-sweep.json", "blocked-sweep-1.json"):
        with pytest.warns(
            NotWritten, match=rf"blocked/sweep\.json could not be written: .*; the record is in .*{name}"
        ):
            publish(record, tmp_path / "blocked" / "sweep.json")
        assert type(record).read(tmp_path / "here" / name) == record


def test_a_full_disk_leaves_the_temporary_folder(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, free = tmp_path / "full", tmp_path / "free"
    for folder in (full, free):
        folder.mkdir()
    monkeypatch.chdir(full)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(free))
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if full in Path(target).parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(NotWritten, match=r"No space left on device; the record is in .*free/full-sweep\.json"):
        kept = keep(record, full / "sweep.json")
    assert type(record).read(kept) == record
    assert list(full.iterdir()) == []
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(full))
    with pytest.raises(OSError, match=r"sweep\.json could not be written: No space left on device; nor could a copy"):
        keep(record, full / "sweep.json")


def test_a_report_that_cannot_be_written_is_named_and_the_record_stays(record: Record, tmp_path: Path) -> None:
    (tmp_path / "sweep.png").mkdir()
    with pytest.warns(NotWritten, match=r"report beside .* could not be written: .*sweep\.png: Is a directory"):
        publish(record, tmp_path / "sweep.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(record).read(tmp_path / "sweep.json") == record


def test_a_failure_in_drawing_does_not_lose_the_result(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: Record) -> None:
        raise RuntimeError("no font")

    monkeypatch.setattr("leanformer.report.sweep.lines", fail)
    with pytest.warns(NotWritten, match=r"the report beside .* could not be written: RuntimeError: no font"):
        publish(record, tmp_path / "sweep.json")
    assert type(record).read(tmp_path / "sweep.json") == record
