"""The scorecard as a record: every row of the paper's tables beside what its model really counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, PlainSerializer

from leanformer.foundation.records.base import PlainArchitecture, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord

Numbers = int | tuple[int, ...]
"""One number, or one per stage."""
Status = Literal["matches", "matches under another reading than printed", "unexplained", "not printed"]
MemoryStatus = Literal["within 10 %", "more than 10 % off"]
Gigabytes = Annotated[float, PlainSerializer(lambda value: round(value, 1), return_type=float)]
Ratio = Annotated[float, PlainSerializer(lambda value: round(value, 3), return_type=float)]


class Printed(RecordPart):
    """A row as the paper prints it, with its other figures: top-1 and top-5 in percent, memory in GB, GLUE, …"""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float]

    depth: Numbers
    heads: Numbers
    mlp_dim: Numbers | None = None
    params: str | None = None
    """With its unit, in the printed digits, such as "86.6 M"."""

    @property
    def memory_gb(self) -> float:
        return self.__pydantic_extra__["memory_gb"]


class Memory(RecordPart):
    """A printed memory figure beside the counted one."""

    printed_gb: float
    counted_gb: Gigabytes
    """By the reading of `leanformer.paper.memory`, the fitted constant included."""
    constant_gb: Gigabytes
    """That constant, for all devices together."""
    ratio: Ratio
    """Counted over printed."""
    status: MemoryStatus


class ScorecardRow(RecordPart):
    """One row of a table of the paper."""

    table: str
    model: str
    variant: Literal["original", "lean", "control"]
    base: str
    """The upstream model that it starts from."""
    printed: Printed
    params: int
    """Parameters by the reading that explains the row best, counted on the built model."""
    params_as_printed: int
    """Parameters of the shape exactly as printed."""
    reading: str
    """That reading in words."""
    status: Status
    """Of the printed count."""
    architecture: PlainArchitecture
    """By that reading."""
    memory: Memory | None = None
    """Of image models, if it was counted."""


class Scorecard(DatedRecord):
    """The whole scorecard."""

    kind: ClassVar[str] = "scorecard"
    version: ClassVar[int] = 2

    summary: str
    rows: tuple[ScorecardRow, ...]

    def glance(self) -> str:
        return self.summary


def summary_of(rows: Sequence[ScorecardRow]) -> str:
    """How many printed counts hold, in a sentence."""
    counts = Counter(row.status for row in rows)
    printed = len(rows) - counts["not printed"]
    return (
        f"{counts['matches']} of {printed} printed counts match as printed, "
        f"{counts['matches under another reading than printed']} under another reading, "
        f"{counts['unexplained']} stay unexplained."
    )
