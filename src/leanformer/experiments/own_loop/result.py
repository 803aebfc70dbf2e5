"""The result of a run of one's own loop (result.json)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from leanformer.experiments.arms import ArmName
from leanformer.foundation.records.base import Record
from leanformer.training.result import RESULT, Evaluation


class OwnResult(Record):
    """A finished run."""

    kind: ClassVar[str] = "own-result"
    version: ClassVar[int] = 2  # files of version 1 have no checksum

    name: ArmName
    seed: int
    metric: str
    final: dict[str, float]
    """The score, by the metric's name, and whatever numbers came with it."""
    evaluations: list[Evaluation]
    """Scores and κ along training, as far as they are known."""
    losses: list[tuple[int, float]] = []
    steps: int | None = None
    """Optimizer steps that were seen."""
    seconds: float
    code: str = ""
    """A checksum of the function's code."""
    notes: list[str] = []
    """What could not be measured, and why."""

    @property
    def score(self) -> float:
        return self.final[self.metric]


def read_own_result(folder: Path) -> OwnResult | None:
    """The result in a run's folder; None if the run is not finished."""
    if not os.path.lexists(folder / RESULT):
        return None
    try:
        return OwnResult.read(folder / RESULT)
    except ValueError as error:
        raise ValueError(f"{error}; repeating the comparison makes it again") from error


def is_finished(folder: Path) -> bool:
    """Whether a run has a result that can be trusted."""
    try:
        return read_own_result(folder) is not None
    except ValueError:
        return False
