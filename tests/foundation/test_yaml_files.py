"""YAML that people write: plain values, lines in errors, nothing that runs."""

import os
from pathlib import Path
from typing import Any

import pytest

from leanformer.foundation.yaml_files import MOST_BYTES, as_yaml, is_yaml, read_yaml


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, True, None, "text", ""], "b": {"c": -1e-8, "d": 1e22, "e": float("inf"), "f": 10**30}},
        {"a": ["1e-3", "null", "yes", "1:30", " #x", "ü\n\t", "2024-01-01", "0x10", "~", "- a", "{b}"]},
        {"a": {}, "b": [], "task.dim+width": [8, 16]},
        {"a": "word " * 200},
    ],
)
def test_values_come_back_as_they_were(value: dict[str, Any], file: Path) -> None:
    file.write_text(as_yaml(value), encoding="utf-8")
    assert "\n" not in as_yaml(value)
    assert read_yaml(file).value == value


def test_a_value_that_occurs_twice_is_written_twice(file: Path) -> None:
    shared = [1, 2]
    file.write_text(as_yaml({"a": shared, "b": shared}))
    assert read_yaml(file).value == {"a": [1, 2], "b": [1, 2]}


def test_numbers_are_read_as_people_mean_them(file: Path) -> None:
    file.write_text("a: 1e-3\nb: '1e-3'\nc: 2E4\nd: -1.5e+2\n")
    assert read_yaml(file).value == {"a": 0.001, "b": "1e-3", "c": 20000.0, "d": -150.0}


def test_errors_name_the_line(file: Path) -> None:
    file.write_text("# comment\na:\n  b: 1\n  c:\n  - 2\n  - d: 3\n")
    found = read_yaml(file)
    for place, line in {("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 1, "d"): 6, ("a", "nothing"): 2}.items():
        assert str(found.wrong("wrong", *place)) == f"{file}, line {line}: wrong"
    named = found.wrong_setting(ValueError("b must be a text, got 1"), "a")
    assert str(named) == f"{file}, line 3: b must be a text, got 1"
    unknown = found.wrong_setting(ValueError("training has no setting c; it has b"), "a")
    assert str(unknown).startswith(f"{file}, line 4: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2\nb: 3\n", "line 2: "),
        ("a: 1\na: 2\n", "line 2: a is given twice"),
        ("a: &x [1]\nb: *x\n", "line 2: aliases are not read; write the value out where it is needed"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "line 3: the name of a setting must be a text"),
        ("[a, b]: 1\n", "line 1: the name of a setting must be a text"),
        ("a: !!python/object/apply:os.system ['touch ran']\n", "line 1: could not determine a constructor for the tag"),
        ("- 1\n", "must hold settings by name, got list"),
        ("", "must hold settings by name, got NoneType"),
        ("a: \x07\n", "is not YAML: "),
        ("a: " + "[" * 3000, "is nested too deeply|line 1: "),
        ("# " + "x" * MOST_BYTES, "is too large: 1,048,578 characters"),
        ("a: &x [*x]\n", "line 1: aliases are not read"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_in_one_line(text: str, message: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        read_yaml(file)
    assert str(file) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert not Path("ran").exists()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*nowhere\.yaml"):
        read_yaml(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ValueError, match=r"bytes\.yaml is not UTF-8: byte 3"):
        read_yaml(tmp_path / "bytes.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ValueError, match="it is not a plain file"):
        read_yaml(tmp_path / "pipe.yaml")


def test_yaml_is_known_by_its_ending() -> None:
    assert is_yaml("a.yaml")
    assert is_yaml(Path("b.yml"))
    assert not is_yaml("digits")
    assert not is_yaml("my.py:build")
