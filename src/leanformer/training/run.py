"""What a training run is: everything that decides its result, in a folder that describes itself (run.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, TypeAdapter, WithJsonSchema

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.conditioning.inputs import Inputs
from leanformer.foundation.records.base import PlainArchitecture, Record
from leanformer.foundation.records.files import read_json
from leanformer.tasks.base import Task
from leanformer.training.settings import Training

RUN, RESULT = "run.json", "result.json"

PlainTraining = Annotated[
    Training,
    BeforeValidator(lambda given: given if isinstance(given, Training) else Training.from_dict(given)),
    PlainSerializer(Training.to_dict),
    WithJsonSchema(TypeAdapter(Training).json_schema()),
]
"""Training settings inside a record."""
PlainTask = Annotated[
    Task,
    BeforeValidator(lambda given: given if isinstance(given, Task) else tasks.read(given)),
    PlainSerializer(lambda task: task.to_dict()),  # the task's own, which may be another than Task's
    WithJsonSchema({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}),
]
"""A task inside a record. Its kind is a registered name or a reference, so reading it finds the task's code."""


class Run(Record):
    """Everything that decides a run's result."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    kind: ClassVar[str] = "run"
    version: ClassVar[int] = 2

    name: str
    seed: Annotated[int, Field(ge=0)] = 0
    architecture: PlainArchitecture
    task: PlainTask
    training: PlainTraining
    start: str = ""
    """A run or saved model whose encoder this one begins with; empty to draw all weights by the seed."""
    start_with: Literal["encoder", "all"] = "encoder"
    """What is taken of it: all but its head, or its head too where that fits. In that case a relative path
    starts at the run's own folder, so that a study can be moved."""

    def start_in(self, folder: Path) -> Path | None:
        """Where the model is that a run in this folder begins with."""
        if not self.start:
            return None
        return folder / self.start if self.start_with == "all" else Path(self.start)


def write_run(run: Run, folder: str | Path) -> None:
    """Describe a run in its folder. A folder that describes a run already must describe this one."""
    check_run(run, folder)
    if not (path := Path(folder) / RUN).is_file():
        run.write(path, indent=2)


def check_run(run: Run, folder: str | Path) -> None:
    """Raise a `ValueError` if a folder describes another run."""
    path = Path(folder) / RUN
    if path.is_file() and (there := Run.read(path)) != run:
        raise ValueError(
            f"{folder} holds another run: {differences(there.to_dict(), run.to_dict())}; use another folder"
        )


def not_described(texts: Mapping[Path, str]) -> dict[Path, str]:
    """By folder, the texts of run.json files that are still to be written.

    Raises a `ValueError` if a folder describes another run.
    """
    missing = {}
    for folder, text in texts.items():
        path = folder / RUN
        if not path.is_file():
            missing[folder] = text
        elif not _holds(path, text):  # it may be of an older version
            check_run(Run.parse(json.loads(text), str(path)), folder)
    return missing


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def read_run(folder: Path) -> Run:
    if not is_run(folder):
        raise ValueError(f"{folder} is not a run folder: it has no {RUN}")
    run = Run.read(folder / RUN)
    _check_result(folder, run)
    return run


def _check_result(folder: Path, run: Run) -> None:
    """A result beside a run must be its own. One that is damaged says nothing here; whoever needs it reports it."""
    try:
        written = read_json(folder / RESULT) if (folder / RESULT).is_file() else None
        if not isinstance(written, dict):
            return
        stated = {key: written[key] for key in ("name", "seed")}
        stated["architecture"] = Architecture.from_dict(written["architecture"]).to_dict()
        stated["training"] = Training.from_dict(written["training"]).to_dict()
    except (ValueError, TypeError, KeyError, AttributeError):
        return
    described = {key: value for key, value in run.to_dict().items() if key in stated}
    if described != stated:
        different = differences(described, stated, at=("in the first,", "in the second"))
        raise ValueError(
            f"{folder / RUN} and {folder / RESULT} are of different runs: {different}; put the right one back, or "
            "delete the wrong one"
        )


def is_run(folder: Path) -> bool:
    return (folder / RUN).is_file()


def differences(
    there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "", at: tuple[str, str] = ("there and", "here")
) -> str:
    """In words, the first place where two nested descriptions differ, and where each of them is."""
    for key in dict.fromkeys((*there, *here)):
        old, new = there.get(key), here.get(key)
        if old != new:
            if isinstance(old, Mapping) and isinstance(new, Mapping):
                return differences(old, new, f"{prefix}{key}.", at)
            return f"{prefix}{key} is {old!r} {at[0]} {new!r} {at[1]}"
    return "nothing differs"


def held_out_inputs(folder: Path, count: int) -> Inputs:
    """Held-out samples of a run's own task, to measure its model on."""
    data = read_run(folder).task.load()
    return Inputs(data.probe_batch(count), f"{count} held-out samples of {data.source}")
