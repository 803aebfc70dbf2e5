"""Typed, versioned records: the files that results live in.

A kind of record is one class beside the code that makes it; `KINDS` lists them all. `base` has what they share, `files`
the one reader and the one writer of JSON, `circumstances` the command, the commit and the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leanformer.foundation.registry import resolve

if TYPE_CHECKING:
    from leanformer.foundation.records.base import Record


class NotWritten(UserWarning):
    """A file could not be written; the warning says where the result is instead."""


KINDS = {
    "measurement": "leanformer.conditioning.measurement:Measurement",
    "heads": "leanformer.conditioning.heads:HeadsMeasurement",
    "ranks": "leanformer.conditioning.measurement:Ranks",
    "bench": "leanformer.costs.speed:Bench",
    "theory": "leanformer.conditioning.theory:Theory",
    "design": "leanformer.designing.record:DesignRecord",
    "run": "leanformer.training.run:Run",
    "result": "leanformer.training.result:Result",
    "inheritance": "leanformer.inheriting.record:Inheritance",
    "failure": "leanformer.runners.base:Failure",
    "plan": "leanformer.experiments.plan:ComparisonPlan",
    "comparison": "leanformer.experiments.comparison_records:Comparison",
    "simulation": "leanformer.experiments.judging.simulation:Simulation",
    "own-plan": "leanformer.experiments.own_loop.records:OwnPlan",
    "own-result": "leanformer.experiments.own_loop.result:OwnResult",
    "sweep-plan": "leanformer.experiments.sweep_records:SweepPlan",
    "sweep": "leanformer.experiments.sweep_records:Sweep",
    "status": "leanformer.experiments.status:Status",
    "glue": "leanformer.experiments.glue:Glue",
    "parts": "leanformer.paper.parts:BlockParts",
    "construction": "leanformer.paper.construction:Construction",
    "tangent-kernels": "leanformer.paper.ntk:TangentKernels",
    "lower-bound": "leanformer.paper.two_points.bound:LowerBound",
    "random-features": "leanformer.paper.two_points.features:RandomFeatures",
    "voting": "leanformer.paper.two_points.voting:Voting",
    "perfect-start": "leanformer.paper.trained_points:PerfectStart",
    "positions": "leanformer.paper.trained_points:PositionsStudy",
    "token-counts": "leanformer.paper.counts:TokenCounts",
    "paper-figure": "leanformer.paper.drawn:PaperFigure",
    "paper-table": "leanformer.paper.drawn:PaperTable",
    "scorecard": "leanformer.paper.record:Scorecard",
}
"""Every kind of record, and where its class is."""


def record_class(kind: str) -> type[Record]:
    """The class of a kind of record."""
    if kind not in KINDS:
        raise ValueError(f'there is no kind of record "{kind}"; there are {", ".join(KINDS)}')
    found: type[Record] = resolve(KINDS[kind])
    return found
