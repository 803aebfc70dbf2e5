"""Records of the paper's figures and tables as they come out here: points, rows, and plans with their cost."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainSerializer

from leanformer.foundation.formats import counted, parameters
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord

Scale = Literal["laptop", "paper"]
Hours = Annotated[float, PlainSerializer(lambda value: round(value, 2), return_type=float)]


class FigurePoint(RecordPart):
    """One point of a figure."""

    panel: str
    line: str
    """Points of one line have one colour, and are joined if the figure says so."""
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    """The 95 % interval over seeds."""
    note: str = ""
    """Beside the point, such as its number of parameters."""
    better: bool = False
    """Better than the original, by its interval."""


class PlannedDesign(RecordPart):
    """A training run that a figure or table consists of, at the paper's scale."""

    design: str
    params: int
    hours: Hours
    """Of one device, per seed, by the cost model."""


class Plan(RecordPart):
    """What a figure or table takes at the paper's scale."""

    device: str
    data: str
    command: str
    """It runs the plan."""
    designs: tuple[PlannedDesign, ...]

    @property
    def hours(self) -> float:
        return sum(design.hours for design in self.designs)

    @property
    def words(self) -> str:
        many = counted(len(self.designs), "design")
        hours = f"{self.hours:,.0f}" if self.hours >= 10 else f"{self.hours:.2g}"
        return f"{many}, {hours} {self.device.upper()}-hours per seed on {self.data}: {self.command}"


class PaperFigure(DatedRecord):
    """A figure of the paper, run here or planned."""

    kind: ClassVar[str] = "paper-figure"
    version: ClassVar[int] = 3

    number: int
    title: str
    scale: Scale
    x_label: str = ""
    y_label: str = ""
    joined: bool = True
    log_y: bool = False
    points: tuple[FigurePoint, ...] = ()
    original: float | None = None
    """The original model's value, drawn as a dotted line."""
    printed: tuple[str, ...] = ()
    """What the paper prints, in words."""
    rates: dict[int, float] = {}
    """The learning rate of every depth: the best one there, on seeds and samples that the figure does not use."""
    plan: Plan | None = None

    def glance(self) -> str:
        return f"Figure {self.number}, {self.scale} scale: {self.title}"

    def sentences(self) -> list[str]:
        printed = [f"The paper prints: {'; '.join(self.printed)}."] if self.printed else []
        tuned = ", ".join(f"{counted(depth, 'layer')} {rate:g}" for depth, rate in self.rates.items())
        rates = (
            [f"Every depth is trained at its best learning rate, which other seeds chose: {tuned}."] if tuned else []
        )
        return [*printed, *rates, *([self.plan.words] if self.plan is not None else [])]


class PaperTable(DatedRecord):
    """A table of the paper beside what comes out here."""

    kind: ClassVar[str] = "paper-table"
    version: ClassVar[int] = 2

    number: int
    title: str
    scale: Scale
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()
    plan: Plan | None = None

    def glance(self) -> str:
        return f"Table {self.number}, {self.scale} scale: {self.title}"

    def sentences(self) -> list[str]:
        return [*self.words, *([self.plan.words] if self.plan is not None else [])]


def sizes(values: dict[str, Any], params: int | None) -> str:
    """A design in words."""
    named = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    return named if params is None else f"{named} ({parameters(params)})"
