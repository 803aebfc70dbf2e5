"""What shows each kind of record: its table, its sentences, its figures, its rows, its pages.

`foundation/records/views.py` lists these classes by kind, so that a record finds its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from matplotlib.figure import Figure
from rich.table import Table

from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.measurement import Measurement, Ranks
from leanformer.conditioning.theory import Theory
from leanformer.designing.record import DesignRecord
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.glue import Glue
from leanformer.experiments.sentences import as_sentence
from leanformer.experiments.status import Status
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation.records.base import Record
from leanformer.inheriting.record import Inheritance
from leanformer.paper.record import Scorecard
from leanformer.report import (
    claims,
    comparison,
    design,
    frames,
    glue,
    inheritance,
    measurement,
    page,
    result,
    scorecard,
    status,
    sweep,
    tables,
)
from leanformer.report.figures import comparison as comparison_figures
from leanformer.report.figures import design as design_figures
from leanformer.report.figures import inheritance as inheritance_figures
from leanformer.report.figures import measurement as measurement_figures
from leanformer.report.figures import paper as paper_figures
from leanformer.report.figures import runs as run_figures
from leanformer.report.figures import sweep as sweep_figures
from leanformer.report.figures.style import save
from leanformer.training.result import Result

Shown = TypeVar("Shown", bound=Record)
Figures = dict[str, Callable[[], Figure]]
"""By file name, what draws each figure; the first is the one that matters most."""


class RecordView(Generic[Shown]):
    """What all kinds of record have in common."""

    def table(self, record: Shown) -> Table:
        raise TypeError(f"{type(self).__name__} has no table")

    def sentences(self, record: Shown) -> list[str]:
        return []

    def figures(self, record: Shown) -> Figures:
        return {}

    def rows(self, record: Shown) -> list[dict[str, Any]]:
        raise TypeError(f"{type(self).__name__} has no rows")

    def write(self, record: Shown, folder: Path) -> list[Path]:
        return [file for name, draw in self.figures(record).items() for file in save(draw(), folder / name)]

    def html(self, record: Shown) -> str:
        return tables.html(self.table(record), self.sentences(record))

    def figure(self, record: Shown, name: str | None = None) -> Figure:
        available = self.figures(record)
        if not available:
            raise ValueError(f"this {type(record).__name__} has no figure")
        if name is not None and name not in available:
            raise ValueError(f"this {type(record).__name__} has no figure {name!r}; it has {', '.join(available)}")
        return available[name or next(iter(available))]()


class ComparisonView(RecordView[Comparison]):
    def table(self, record: Comparison) -> Table:
        return comparison.table(record)

    def sentences(self, record: Comparison) -> list[str]:
        return [as_sentence(phrase) for phrase in record.sentences()]

    def figures(self, record: Comparison) -> Figures:
        return {name: draw for name, (_, draw) in comparison_figures.available(record).items()}

    def rows(self, record: Comparison) -> list[dict[str, Any]]:
        return frames.comparison(record)

    def write(self, record: Comparison, folder: Path) -> list[Path]:
        return page.write(record, folder)


class SweepView(RecordView[Sweep]):
    def table(self, record: Sweep) -> Table:
        return sweep.table(record)

    def sentences(self, record: Sweep) -> list[str]:
        return [as_sentence(phrase) for phrase in record.sentences()]

    def figures(self, record: Sweep) -> Figures:
        return {"sweep": lambda: sweep_figures.lines(record)}

    def rows(self, record: Sweep) -> list[dict[str, Any]]:
        return frames.sweep(record)

    def write(self, record: Sweep, folder: Path) -> list[Path]:
        return sweep.write(record, folder)


class GlueView(RecordView[Glue]):
    def table(self, record: Glue) -> Table:
        return glue.table(record)

    def sentences(self, record: Glue) -> list[str]:
        return [as_sentence(phrase) for phrase in record.sentences()]

    def figures(self, record: Glue) -> Figures:
        return {"glue": lambda: run_figures.glue_scores(record)}

    def rows(self, record: Glue) -> list[dict[str, Any]]:
        return frames.glue(record)

    def write(self, record: Glue, folder: Path) -> list[Path]:
        return [glue.write(record, folder), *super().write(record, folder)]


class ResultView(RecordView[Result]):
    def table(self, record: Result) -> Table:
        return result.table(record)

    def figures(self, record: Result) -> Figures:
        return run_figures.of_run(record)

    def rows(self, record: Result) -> list[dict[str, Any]]:
        return frames.result(record)


class MeasurementView(RecordView[Measurement]):
    def table(self, record: Measurement) -> Table:
        return measurement.layers(record)

    def sentences(self, record: Measurement) -> list[str]:
        return [as_sentence(f"note: {warning}") for warning in record.warnings]

    def figures(self, record: Measurement) -> Figures:
        return {"kappa_by_layer": lambda: measurement_figures.kappa_by_layer(record)}

    def rows(self, record: Measurement) -> list[dict[str, Any]]:
        return frames.measurement(record)


class HeadsView(RecordView[HeadsMeasurement]):
    def table(self, record: HeadsMeasurement) -> Table:
        return measurement.heads(record)

    def figures(self, record: HeadsMeasurement) -> Figures:
        return {"kappa_by_heads": lambda: measurement_figures.kappa_by_heads(record)}

    def rows(self, record: HeadsMeasurement) -> list[dict[str, Any]]:
        return frames.heads(record)


class RanksView(RecordView[Ranks]):
    def table(self, record: Ranks) -> Table:
        return measurement.ranks(record)

    def figures(self, record: Ranks) -> Figures:
        return {"rank_by_layer": lambda: measurement_figures.rank_by_layer(record)}

    def rows(self, record: Ranks) -> list[dict[str, Any]]:
        return frames.ranks(record)


class TheoryView(RecordView[Theory]):
    def table(self, record: Theory) -> Table:
        return measurement.theory(record)

    def figures(self, record: Theory) -> Figures:
        return {"theory": lambda: measurement_figures.theory_against_simulation(record)}

    def rows(self, record: Theory) -> list[dict[str, Any]]:
        return frames.theory(record)


class DesignView(RecordView[DesignRecord]):
    def table(self, record: DesignRecord) -> Table:
        return design.table(record)

    def sentences(self, record: DesignRecord) -> list[str]:
        return record.words

    def figures(self, record: DesignRecord) -> Figures:
        return {"design": lambda: design_figures.pareto(record)}

    def rows(self, record: DesignRecord) -> list[dict[str, Any]]:
        return frames.design(record)


class StatusView(RecordView[Status]):
    def table(self, record: Status) -> Table:
        return status.table(record)

    def sentences(self, record: Status) -> list[str]:
        return [as_sentence(phrase) for phrase in record.sentences()]

    def rows(self, record: Status) -> list[dict[str, Any]]:
        return [run.model_dump() for run in record.runs]


class InheritanceView(RecordView[Inheritance]):
    def table(self, record: Inheritance) -> Table:
        return inheritance.table(record)

    def sentences(self, record: Inheritance) -> list[str]:
        return [as_sentence(phrase) for phrase in record.sentences()]

    def figures(self, record: Inheritance) -> Figures:
        return {"influence_by_layer": lambda: inheritance_figures.influence_by_layer(record)}

    def rows(self, record: Inheritance) -> list[dict[str, Any]]:
        return [row.model_dump() for row in record.scores]


class ScorecardView(RecordView[Scorecard]):
    def table(self, record: Scorecard) -> Table:
        return scorecard.terminal_table(record)

    def sentences(self, record: Scorecard) -> list[str]:
        return scorecard.sentences(record)

    def figures(self, record: Scorecard) -> Figures:
        return {"statuses": lambda: paper_figures.statuses(record)} if record.claims else {}

    def write(self, record: Scorecard, folder: Path) -> list[Path]:
        return claims.write(record, folder)

    def rows(self, record: Scorecard) -> list[dict[str, Any]]:
        return frames.scorecard(record)
