"""The plan of a sweep (sweep-plan.json) and its record (sweep.json)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from leanformer.experiments import sentences
from leanformer.experiments.arms import ArmName
from leanformer.experiments.comparison_records import ArmResult
from leanformer.experiments.judging.estimates import Estimate
from leanformer.experiments.judging.stopping_rules import FEWEST_SEEDS
from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, Record, RecordPart
from leanformer.foundation.records.circumstances import Circumstances, DatedRecord
from leanformer.tasks.base import Metric
from leanformer.training.result import with_current_task
from leanformer.training.run import PlainTraining


def _checked_place(place: str) -> str:
    if place and not re.fullmatch(r"\w[\w.%+-]*", place):
        raise ValueError("the place of a cell must be a plain folder name")
    return place


Place = Annotated[str, AfterValidator(_checked_place)]
"""The folder of a cell's comparison inside the sweep's; empty for the sweep's own."""
Values = dict[str, Any]
"""What was chosen on every axis."""


class PlannedCell(RecordPart):
    values: Values
    place: Place
    arm: ArmName


class LeftOut(RecordPart):
    """A combination that is not in the sweep, and why."""

    values: Values
    why: str


class Swept(RecordPart):
    """What is swept, in a plan and in a record."""

    name: str
    axes: dict[str, list[Any]]
    equal_params: bool
    original: PlainArchitecture | None
    """None, as `task` and `training` are, for models and a training loop of the user's own."""
    task: Json | None
    training: PlainTraining | None
    usual: Values = {}
    """Of the user's own models: the sizes of the original, as far as they are known."""
    left_out: list[LeftOut]


class SweepPlan(Swept, Record):
    """What will be run."""

    kind: ClassVar[str] = "sweep-plan"
    version: ClassVar[int] = 3
    migrations: ClassVar[Mapping[int, Migration]] = {1: with_current_task}

    cells: list[PlannedCell]
    circumstances: Circumstances


class Difference(Estimate):
    """A cell against the one with the original's heads that agrees with it on all axes but the first."""

    told: bool
    """Whether the difference can be distinguished from zero."""
    against: str


class SweepCell(ArmResult):
    """One point of the grid."""

    values: Values
    effective_rank: float | None
    """Of W_Q W_Kᵀ after training: the median over heads, layers and seeds."""
    baselines: dict[str, float] = {}
    diverged: list[str]
    """Why runs of it did not finish."""
    difference: Difference | None = None


class Sweep(Swept, DatedRecord):
    """A sweep, finished or still running."""

    kind: ClassVar[str] = "sweep"
    version: ClassVar[int] = 3
    migrations: ClassVar[Mapping[int, Migration]] = {1: with_current_task}

    seeds: list[int]
    metric: Metric
    sources: list[str]
    cells: list[SweepCell]

    @property
    def varied(self) -> list[str]:
        """The axes that have more than one value."""
        return [name for name, values in self.axes.items() if len(values) > 1] or list(self.axes)[:1]

    def sentences(self) -> list[str]:
        """What the grid shows, and what is not in it."""
        found = self._differences()
        if baselines := self._baselines():
            found.append(sentences.baselines(self.metric.name, baselines))
        found += [sentences.left_out(in_words(skipped.values), skipped.why) for skipped in self.left_out]
        return found + [
            sentences.did_not_finish(f"{in_words(cell.values)}: {text}")
            for cell in self.cells
            for text in cell.diverged
        ]

    def _differences(self) -> list[str]:
        judged = {self.title(cell): cell.difference for cell in self.cells if cell.difference}
        found = []
        for better in (False, True):
            clear = [
                f"{title}: {sentences.signed_without_unit(difference, self.metric.unit)}"
                for title, difference in judged.items()
                if difference.told and (difference.mean > 0) == better
            ]
            if clear:
                found.append(sentences.told_cells(better, clear))
        if judged and max(difference.seeds for difference in judged.values()) < FEWEST_SEEDS:
            return [*found, sentences.TOO_FEW_SEEDS]
        return [sentences.NO_CELL_DIFFERS] if judged and not found else found

    def _baselines(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for cell in self.cells:
            for name, value in cell.baselines.items():
                found.setdefault(name, []).append(value)
        return found

    def title(self, cell: SweepCell) -> str:
        """A cell by what was varied and the size of its heads."""
        varied = in_words({name: cell.values[name] for name in self.varied})
        if cell.architecture is None:
            return varied
        stage = cell.architecture.stages[0]
        return f"{varied} ({stage.heads} × {stage.head_dim})"

    def __repr__(self) -> str:
        return f"Sweep({self.name!r} over {', '.join(self.axes)}: {len(self.cells)} cells, {len(self.seeds)} seeds)"

    __str__ = __repr__


def in_words(values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in dict(values).items())
