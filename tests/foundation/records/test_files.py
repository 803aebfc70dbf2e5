"""Files of records: strict JSON that holds infinity."""

import json
import math
import os
from pathlib import Path

import pytest

from leanformer.foundation.records.files import append_line, number, read_json, read_lines, write_json


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
