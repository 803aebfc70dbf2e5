"""Folders to attack, trained once: a comparison, a sweep and a language model; and what commands truly say of them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

from fuzz.isolation import home
from fuzz.outcome import RIDDLE, SILENT, TRACEBACK, Wrong
from leanformer.foundation.records.files import read_lines
from support.command import call

RECIPES = '''"""Recipes of a few steps."""
from dataclasses import replace

from leanformer import models, tasks
from leanformer.training.settings import Training
from support.tiny_run import recipe


def small():
    return recipe()


def stories():
    original = models.architecture_of(
        "tinystories-gpt2", width=16, depth=2, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=32
    )
    return replace(
        recipe(),
        name="stories",
        task=tasks.NextToken(dataset=CORPUS, length=16),
        original=original,
        lean=original.resized(depth=1, heads=4),
        training=Training(steps=3, batch=4, evaluations=1, probe=2),
        arms=("lean",),
    )
'''

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "{home}/comparison", "--json"),
    "compare": (
        "compare",
        "{file}:small",
        "--arms",
        "original,lean",
        "--seeds",
        "2",
        "--jobs",
        "1",
        "--out",
        "{home}/comparison",
        "--json",
    ),
    "train": ("train", "{home}/comparison/lean/seed-1", "--json"),
    "measure": ("measure", "{home}/comparison/lean/seed-1", "--batch", "2", "--out", "{home}/measured", "--json"),
    "rank": ("measure", "{home}/comparison/original/seed-0", "--rank", "--out", "{home}/measured", "--json"),
    "report sweep": ("report", "{home}/sweep", "--json"),
    "sweep": (
        "sweep",
        "{file}:small",
        "--vary",
        "heads=1,2",
        "--vary",
        "task.shift=0,1",
        "--seeds",
        "1",
        "--steps",
        "4",
        "--jobs",
        "1",
        "--out",
        "{home}/sweep",
        "--json",
    ),
    "generate": ("generate", "{home}/stories", "hello", "--tokens", "5", "--json"),
    "report record": ("report", "{home}/comparison/comparison.json", "--out", "{home}/again", "--json"),
    "report sweep record": ("report", "{home}/sweep/sweep.json", "--out", "{home}/again", "--json"),
}
"""Commands on the folders; {home} is where these are, {file} the file of recipes."""

FOLDERS = {"report sweep": "sweep", "sweep": "sweep", "report sweep record": "sweep", "generate": "stories"}
"""The folder that a command is about, where it is not the comparison."""
VOLATILE = {"checksum", "step_seconds"}
"""What differs between two runs of a command that trains: times, and the checksum of a record that holds them."""


@functools.cache
def template() -> Path:
    """The folders, intact."""
    place = home() / "template"
    place.mkdir()
    corpus = home() / "corpus.txt"
    corpus.write_text("\n\n".join(f"the cat {n} sat on mat {n * n}" for n in range(200)))
    (home() / "tiny.py").write_text(RECIPES.replace("CORPUS", repr(str(corpus))))
    with without_figures():
        for name in ("compare", "sweep"):
            shown = call(*arguments(name, place))
            assert shown.returncode == 0, shown.stderr
        shown = call("train", f"{home()}/tiny.py:stories", "--out", str(place / "stories"))
        assert shown.returncode == 0, shown.stderr
    return place


def arguments(name: str, place: Path) -> list[str]:
    return [word.format(home=place, file=home() / "tiny.py") for word in COMMANDS[name]]


@functools.cache
def truth(name: str) -> Any:
    """What the command says of intact folders."""
    with copy() as place:
        return answer(name, place)


@contextlib.contextmanager
def copy() -> Iterator[Path]:
    """A copy of the folders that may be spoilt."""
    place = home() / "spoilt"
    remove(place)
    shutil.copytree(template(), place)
    try:
        yield place
    finally:
        remove(place)


def remove(place: Path) -> None:
    for folder, _, files in os.walk(place):
        for path in (Path(folder), *(Path(folder) / file for file in files)):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def answer(name: str, place: Path) -> Any:
    """The command's answer without what may differ; a `ValueError` with its message if it refuses."""
    with without_figures():
        shown = call(*arguments(name, place))
    check(shown, name)
    found = json.loads(shown.stdout)
    if name in ("report", "report sweep"):
        _check_times(found, name)
    again = {"command"} if name in ("compare", "sweep") else set()  # a plan may have been made again, by this command
    return steady(found, VOLATILE | again)


def _check_times(found: Any, name: str) -> None:
    """`Wrong` if the time of a step is none that a clock measured: lines of times may be lost, but not changed."""
    folder = template() / FOLDERS.get(name, "comparison")
    times = [line["seconds"] / line["steps"] for file in folder.rglob("timing.jsonl") for line in read_lines(file)]
    for arm in found["cells"] if "cells" in found else found["arms"].values():
        seconds = arm["step_seconds"]
        if seconds is not None and not min(times) <= seconds <= max(times):
            raise Wrong(SILENT, f"{name}: a step of {arm['name']} takes {seconds}, which was never measured")


def check(shown: CompletedProcess[str], what: str) -> None:
    """Nothing for success, a `ValueError` for a refusal in one line, `Wrong` for anything else.

    A page that cannot be written is said in one line, with exit code 74; the answer must be right all the same.
    """
    lines = [line for line in shown.stderr.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in shown.stderr:
        raise Wrong(TRACEBACK, f"{what}: {lines[-1]}")
    complaints = [line for line in lines if line.startswith("leanformer: ")]
    not_written = shown.returncode == 74 and len(complaints) == 1 and "could not be written" in complaints[0]
    if shown.returncode == 0 or not_written:
        return
    if shown.returncode != 2 or len(complaints) != 1 or lines[-1] != complaints[0]:
        raise Wrong(RIDDLE, f"{what}: exit code {shown.returncode} with {shown.stderr[-400:]!r}")
    raise ValueError(complaints[0].removeprefix("leanformer: "))


def steady(value: Any, volatile: set[str]) -> Any:
    """Without what may differ between two runs of the same command."""
    if isinstance(value, dict):
        return {key: steady(item, volatile) for key, item in value.items() if key not in volatile}
    return [steady(item, volatile) for item in value] if isinstance(value, list) else value


def compare_with_truth(name: str, found: Any, what: str, unfinished: bool = False) -> None:
    """`Wrong` if an answer is not the true one; where a run counts as not finished, if its scores are not true ones."""
    if unfinished:
        wrong = [score for score in _scores(found) if score not in _scores(truth(name))]
        if wrong or len(_scores(found)) >= len(_scores(truth(name))):
            raise Wrong(SILENT, f"{what}: the scores are {_scores(found)} instead of some of {_scores(truth(name))}")
    elif found != truth(name):
        raise Wrong(SILENT, f"{what}: {_difference(truth(name), found)}")


def _scores(answer: Any) -> list[tuple[str, str, float]]:
    """Arm, seed and score of every run in a comparison's or a sweep's answer."""
    arms = answer["cells"] if "cells" in answer else answer["arms"].values()
    return [(arm["name"], seed, score) for arm in arms for seed, score in arm["scores"].items()]


def _difference(truly: Any, found: Any, place: str = "") -> str:
    if isinstance(truly, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*truly, *found)):
            if truly.get(key) != found.get(key):
                return _difference(truly.get(key), found.get(key), f"{place}.{key}")
    return f"{place[1:]} is {str(found)[:80]} instead of {str(truly)[:80]}"


@contextlib.contextmanager
def without_figures() -> Iterator[None]:
    """Drawing takes a hundred times as long as reading."""
    with (
        mock.patch("leanformer.report.page.figures.available", return_value={}),
        mock.patch("leanformer.report.sweep.save", return_value=[]),
        mock.patch("leanformer.report.sweep.lines", return_value=None),
        mock.patch("leanformer.report.figures.style.save", return_value=[]),
    ):
        yield
