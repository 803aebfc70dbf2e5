"""Files of records: strict JSON that holds infinity."""

import errno
import json
import math
import os
from pathlib import Path

import pytest

from leanformer.foundation.records.files import (
    MANY,
    append_line,
    number,
    read_json,
    read_lines,
    write_json,
    write_texts,
)


def test_records_hold_infinity(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"kappa": [math.inf, 2.0], "n": 3})
    kept = json.loads((tmp_path / "a.json").read_text())
    assert kept == {"kappa": ["inf", 2.0], "n": 3} == read_json(tmp_path / "a.json")
    assert [number(value) for value in kept["kappa"]] == [math.inf, 2.0]


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """A pipe or a device would be read without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "zeros", "folder", "loop"):
        with pytest.raises(
            ValueError, match=f"{tmp_path / name} (is damaged: it is not a plain file|cannot be read: )"
        ):
            read_json(tmp_path / name)


def test_numbers_of_thousands_of_digits_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("9" * 5000)
    with pytest.raises(ValueError, match=r"a\.json is damaged: it holds a number that is too long"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.jsonl").write_text("9" * 5000 + "\n" + "[" * 100_000 + "\n{}\n")
    assert list(read_lines(tmp_path / "a.jsonl")) == [{}]


def test_lines_are_added_to_plain_files_only(tmp_path: Path) -> None:
    """To open a pipe would wait for somebody who reads it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=f"{tmp_path}/pipe is not a plain file: remove it"):
        append_line(tmp_path / "pipe", {})
    append_line(tmp_path / "new" / "file", {"a": 1})
    assert list(read_lines(tmp_path / "new" / "file")) == [{"a": 1}]


@pytest.mark.parametrize(("files", "syncs"), [(3, 0), (MANY + 1, 2)])
def test_many_files_are_on_the_disk_before_they_get_their_names(
    files: int, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "sync", lambda: done.append("sync"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("named"), replace(*paths)))
    texts = {tmp_path / f"{place}" / "text": f"{place}\n" for place in range(files)}
    write_texts(texts)
    flushed = ["sync"] if syncs else ["fsync"] * files
    assert done == [*flushed, *["named"] * files, *flushed]
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == texts


def test_a_full_disk_leaves_none_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = Path.write_text, [2]

    def full(path: Path, *given: str, **options: str) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *given, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_texts({tmp_path / f"{place}": "x" for place in range(4)})
    assert not list(tmp_path.iterdir())
