"""What a finished run says: its score, its learning curve and κ along the way (result.json)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, Record, RecordPart
from leanformer.tasks import TASKS
from leanformer.tasks.base import Metric
from leanformer.training.run import PlainTraining

RESULT = "result.json"


def with_current_task(written: Json) -> Json:
    """A record of version 1 with its task under the present name of its kind."""
    return {**written, "task": {**written["task"], "kind": TASKS.current_name(written["task"]["kind"])}}


class KappaOverLayers(RecordPart):
    """κ of the attention at one evaluation."""

    median_over_layers: float
    mean_over_layers: float
    layers: list[tuple[float, float, float]]
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
    version: ClassVar[int] = 2
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

    @property
    def score(self) -> float:
        """The final value of the metric."""
        return self.final[self.metric.name]


def read_result(folder: Path) -> Result | None:
    """The result in a run's folder; None if the run is not finished."""
    return Result.read(folder / RESULT) if (folder / RESULT).is_file() else None
