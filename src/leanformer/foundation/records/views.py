"""How records are shown: in a table, in figures, as a data frame, as pages.

The code that draws them is in `report`, above everything that makes records. So a record finds its view here, by its
kind, when somebody asks for it; nothing of `report` is imported before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from leanformer.foundation.registry import resolve

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from rich.table import Table

    from leanformer.foundation.records.base import Record

VIEWS = {
    "measurement": "leanformer.report.views:MeasurementView",
    "heads": "leanformer.report.views:HeadsView",
    "ranks": "leanformer.report.views:RanksView",
    "bench": "leanformer.report.bench:BenchView",
    "theory": "leanformer.report.views:TheoryView",
    "design": "leanformer.report.views:DesignView",
    "inheritance": "leanformer.report.views:InheritanceView",
    "result": "leanformer.report.views:ResultView",
    "comparison": "leanformer.report.views:ComparisonView",
    "sweep": "leanformer.report.views:SweepView",
    "status": "leanformer.report.views:StatusView",
    "glue": "leanformer.report.views:GlueView",
    "parts": "leanformer.report.paper_views:PartsView",
    "construction": "leanformer.report.paper_views:ConstructionView",
    "tangent-kernels": "leanformer.report.paper_views:TangentKernelsView",
    "lower-bound": "leanformer.report.counterpoint_views:LowerBoundView",
    "random-features": "leanformer.report.counterpoint_views:RandomFeaturesView",
    "voting": "leanformer.report.counterpoint_views:VotingView",
    "perfect-start": "leanformer.report.counterpoint_views:TrainedPointsView",
    "positions": "leanformer.report.counterpoint_views:TrainedPointsView",
    "token-counts": "leanformer.report.paper_views:TokenCountsView",
    "paper-figure": "leanformer.report.paper_views:PaperFigureView",
    "paper-table": "leanformer.report.paper_views:PaperTableView",
    "scorecard": "leanformer.report.views:ScorecardView",
}
"""Kinds of record that are results, and what shows each."""


class View(Protocol):
    """What shows a kind of record."""

    def table(self, record: Any) -> Table:
        """For the terminal."""

    def sentences(self, record: Any) -> list[str]:
        """What the record says, the most important first."""

    def html(self, record: Any) -> str:
        """Table and sentences, for a notebook."""

    def figure(self, record: Any, name: str | None) -> Figure:
        """One of its figures; by default the first."""

    def rows(self, record: Any) -> list[dict[str, Any]]:
        """Its numbers as plain rows, for a data frame."""

    def write(self, record: Any, folder: Path) -> list[Path]:
        """Write its pages and figures; returns the files that a reader should open."""


def view_of(kind: str) -> View:
    """What shows a kind of record."""
    if kind not in VIEWS:
        raise ValueError(f"a record of kind {kind} has no table and no figure; those of kind {', '.join(VIEWS)} have")
    found: View = resolve(VIEWS[kind])()
    return found


class Shown:
    """What can be looked at: `plot()`, `to_frame()`, and a table in a notebook."""

    def as_record(self) -> Record:
        """The record that is shown."""
        raise TypeError(f"{type(self).__name__} has no record to show")

    def plot(self, name: str | None = None) -> Figure:
        """A figure, as reports have it: a matplotlib `Figure`. A record with several takes the name of one."""
        record = self.as_record()
        return view_of(record.kind).figure(record, name)

    def to_frame(self) -> DataFrame:
        """The numbers as a pandas `DataFrame`, one row per arm, cell, layer or design."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        record = self.as_record()
        return pandas.DataFrame(view_of(record.kind).rows(record))

    def _repr_html_(self) -> str | None:
        record = self.as_record()
        return view_of(record.kind).html(record) if record.kind in VIEWS else None
