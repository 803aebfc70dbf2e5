"""What is written down while a run trains: lines of times that were changed do not count."""

import json
from pathlib import Path
from typing import Any

import pytest
from accelerate import Accelerator

from leanformer.training.monitoring import TIMING, Clock, step_seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clock = Clock(tmp_path, Accelerator(cpu=True))
    for steps in (4, 2):
        clock.start()
        clock.steps = steps
        clock.pause(step=clock.steps)
    return tmp_path


def test_times_are_read_back(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / TIMING).read_text().splitlines()]
    assert step_seconds(folder) == [line["seconds"] / line["steps"] for line in lines]
    assert len(lines) == 2
    assert step_seconds(folder / "elsewhere") == []


@pytest.mark.parametrize("change", [{"steps": 5}, {"seconds": 0.25}, {"check": 1}, {"check": None}, {"seconds": "x"}])
def test_a_line_that_was_changed_does_not_count(change: dict[str, Any], folder: Path) -> None:
    first, second = (folder / TIMING).read_text().splitlines()
    kept = step_seconds(folder)[1:]
    (folder / TIMING).write_text(f"{json.dumps({**json.loads(first), **change})}\n{second}\n[]\n")
    assert step_seconds(folder) == kept


def test_lines_of_0_1_count(folder: Path) -> None:
    (folder / TIMING).write_text('{"steps": 4, "seconds": 2.0}\n')
    assert step_seconds(folder) == [0.5]
