"""The plan of a comparison around a loop of one's own (own-plan.json)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from leanformer.experiments.arms import ArmName
from leanformer.experiments.judging.stopping_rules import Rule
from leanformer.experiments.registration import Amendment
from leanformer.foundation.records.base import PlainArchitecture, Record, RecordPart
from leanformer.foundation.records.circumstances import Circumstances
from leanformer.tasks.base import Metric

PLAN = "own-plan.json"


class PlannedArm(RecordPart):
    """What an arm is, as far as it is known, and what it costs."""

    architecture: PlainArchitecture | None = None
    sizes: dict[str, Any] = {}
    """What the user's function or command is given."""
    params: int | None = None
    forward_macs: float | None = None
    """Per sample."""
    memory_bytes: float | None = None
    shapes: str = ""
    """A checksum of the names and shapes of the model's tensors."""


class OwnPlan(Record):
    """What will be run."""

    kind: ClassVar[str] = "own-plan"
    version: ClassVar[int] = 2  # files of version 1 have no checksum

    name: str
    trained_by: str
    """In words, the function or the command."""
    command: list[str] = []
    """As it was typed, with its placeholders; empty for a function."""
    score_from: str = ""
    """Of a command: the file and the key of its score."""
    metric: Metric
    margin: float
    arms: dict[ArmName, PlannedArm]
    seeds: list[Annotated[int, Field(ge=0)]]
    rule: Rule
    """At how many seeds the results are judged, as it was said before the first of them."""
    amendments: list[Amendment] = []
    """What was changed when there were results already."""
    notes: list[str] = []
    circumstances: Circumstances
    """The command, the commit and the machine that began it."""

    @property
    def steps(self) -> dict[str, int]:
        """A run counts as one step, since nothing inside it is seen."""
        return dict.fromkeys(self.arms, 1)

    def runs(self) -> list[tuple[str, int]]:
        """Seed by seed, so that a comparison that is cut short has whole pairs."""
        return [(arm, seed) for seed in self.seeds for arm in self.arms]
