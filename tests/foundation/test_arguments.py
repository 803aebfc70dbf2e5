"""Arguments as people give them, and errors that name them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leanformer.foundation.arguments import ArgumentError, names, numbers, size, texts, writable


@pytest.mark.parametrize(
    ("given", "unit", "value"),
    [
        ("50%", "", 500),
        ("40M", "", 40_000_000),
        ("24GB", "B", 24_000_000_000),
        ("8g", "", 8 * 10**9),
        (" 7 ", "", 7),
        (7, "", 7),
        (24e9, "B", 24_000_000_000),
        (np.int64(5), "", 5),
    ],
)
def test_sizes(given: Any, unit: str, value: int) -> None:
    assert size("params", given, 1000, unit) == value


@pytest.mark.parametrize(
    "given", ["", "x", "-5%", "0", "5Q", "%", "nan", "inf", "24GB", 0, -1, True, float("nan"), None]
)
def test_wrong_sizes(given: Any) -> None:
    with pytest.raises(ArgumentError, match=f'^params takes a share or a size, such as "50%", "40M", got "{given}"$'):
        size("params", given, 1000)


def test_a_share_of_nothing() -> None:
    with pytest.raises(ValueError, match='samples takes a size, such as "40M", got "50%"'):
        size("samples", "50%")


@pytest.mark.parametrize(
    ("given", "value"),
    [("2,4,8-10", [2, 4, 8, 9, 10]), (7, [7]), ((6, 8), [6, 8]), (np.array([2, 3]), [2, 3]), (range(1, 3), [1, 2])],
)
def test_numbers(given: Any, value: list[int]) -> None:
    assert numbers("heads", given) == value


@pytest.mark.parametrize("given", ["", "0,2", "x", "3-", "8-2", [], [0], [1.5], [True], 1.5, None, ["2"]])
def test_wrong_numbers(given: Any) -> None:
    with pytest.raises(ArgumentError) as raised:
        numbers("heads", given)
    assert str(raised.value) == f'heads takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "{given}"'


def test_names_and_texts() -> None:
    assert names("a, b") == names(["a", "b"]) == names(("a", "b")) == ["a", "b"]
    assert names(None) is None
    assert texts("a,b") == texts(["a,b"]) == ["a,b"]


def test_an_error_names_arguments_or_options() -> None:
    error = ArgumentError("{depth} goes with {heads}, got {given!r}", given="{heads}")
    assert str(error) == "depth goes with heads, got '{heads}'"
    assert error.worded(lambda argument: f"--{argument}") == "--depth goes with --heads, got '{heads}'"
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ValueError)
    assert str(again) == str(error)


def test_folders_that_cannot_be_written_to_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "x", tmp_path / "file", tmp_path / ("a" * 300), Path("a\0b")):
        with pytest.raises(ArgumentError, match=r"cannot be written to: .*; name another folder by out$"):
            writable(folder)
    assert len(list(tmp_path.iterdir())) == 1


def test_looking_whether_a_folder_can_be_written_to_leaves_nothing_behind(tmp_path: Path) -> None:
    assert writable(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []
