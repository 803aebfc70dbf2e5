"""What a finished run says: its score, its learning curve and κ along the way (result.json)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator

from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, PossiblyInfinite, Record, RecordPart
from leanformer.tasks import TASKS
from leanformer.tasks.base import Metric
from leanformer.training import run
from leanformer.training.run import PlainTraining

RESULT = run.RESULT
WITHOUT_TEST_SPLIT = ("image-classes", "next-token", "masked-token", "sentence-classes")
"""Tasks whose final score is that of the last evaluation."""


def with_current_task(written: Json) -> Json:
    """A record of version 1 with its task under the present name of its kind."""
    return {**written, "task": {**written["task"], "kind": TASKS.current_name(written["task"]["kind"])}}


class KappaOverLayers(RecordPart):
    """κ of the attention at one evaluation."""

    median_over_layers: PossiblyInfinite
    mean_over_layers: PossiblyInfinite
    layers: list[tuple[PossiblyInfinite, PossiblyInfinite, PossiblyInfinite]]
    """Of each layer: lower quartile, median and upper quartile over samples."""

    @classmethod
    def of(cls, tracked: Mapping[str, Any]) -> KappaOverLayers:
        """Of a tracker's record, what curves need."""
        quartiles = ("lower_quartile", "median", "upper_quartile")
        return cls(
            median_over_layers=tracked["median_over_layers"],
            mean_over_layers=tracked["mean_over_layers"],
            layers=[tuple(layer["kappa"][key] for key in quartiles) for layer in tracked["layers"]],
        )


class Evaluation(RecordPart):
    """Scores on the held-out samples after so many steps. The file holds each score under its own name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    step: int
    kappa: KappaOverLayers | None = None

    @property
    def scores(self) -> dict[str, float]:
        return self.__pydantic_extra__ or {}

    def to_dict(self) -> Json:
        return self.model_dump(mode="json", exclude_none=True)


class Result(Record):
    """A finished run."""

    kind: ClassVar[str] = "result"
    version: ClassVar[int] = 3
    former_kind: ClassVar[str | None] = "run"
    migrations: ClassVar[Mapping[int, Migration]] = {1: with_current_task}

    name: str
    seed: int
    architecture: PlainArchitecture
    task: Json
    """In plain form: a result can be read where the task's code is not installed."""
    training: PlainTraining
    start: str = ""
    source: str
    """Where the data came from."""
    data: str = ""
    """Digest of the data; empty where the task does not say it, and in older files."""
    metric: Metric
    baselines: dict[str, float] = {}
    """What trivial answers score."""
    params: int
    final: dict[str, int | float]
    """The scores that count, by name: of the test split, or of the last evaluation where there is none."""
    best_step: int | None
    evaluations: list[Evaluation]
    losses: list[tuple[int, float]]
    """The mean training loss up to a step."""
    model_sums: dict[str, str] = {}
    """SHA-256 of each file of the trained model, by name: another model in its place is found."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Result:
        """Files of 0.1 have no checksum; where a task has no test split, the last evaluation must say the same."""
        last = self.evaluations[-1].scores if self.evaluations else {}
        if self.metric.name not in self.final:
            raise ValueError(f"final lacks the metric {self.metric.name}")
        if self.task.get("kind") in WITHOUT_TEST_SPLIT and last.get(self.metric.name) != self.score:
            raise ValueError(f"the final {self.metric.name} is {self.score}, the last evaluation says {last}")
        return self

    @property
    def score(self) -> float:
        """The final value of the metric."""
        return self.final[self.metric.name]

    def glance(self) -> str:
        unit = f" {self.metric.unit}" if self.metric.unit else ""
        return f"{self.name!r}, seed {self.seed}, {self.params:,} parameters: {self.metric.name} {self.score:.4g}{unit}"


def read_result(folder: Path) -> Result | None:
    """The result in a run's folder; None if the run is not finished."""
    if not os.path.lexists(folder / RESULT):  # a pipe or a link to nothing is damage, not an unfinished run
        return None
    try:
        return Result.read(folder / RESULT)
    except ValueError as error:
        raise ValueError(f"{error}; training {folder} again makes it from the last checkpoint") from error


def check_data(folder: Path, result: Result, identity: str, now: str) -> None:
    """A `ValueError` if a result is of other data than those with that identity, where both are known.

    Args:
        folder: of the run.
        result: of the run.
        identity: `Data.identity` of the other data.
        now: in words, what the other data are.
    """
    if result.data and identity not in ("", result.data):
        raise ValueError(
            f"{folder} was trained on other data than {now}, so their scores cannot be compared: put the data back as "
            "they were and train again what differs, or choose another folder"
        )


def is_finished(folder: Path) -> bool:
    """Whether a run has a result that can be trusted."""
    try:
        return read_result(folder) is not None
    except ValueError:
        return False
