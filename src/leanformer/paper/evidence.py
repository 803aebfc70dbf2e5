"""Committed results, read as typed records when a claim asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.theory import Theory
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.glue import Glue
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation.records.base import Record
from leanformer.foundation.records.files import read_json
from leanformer.paper.construction import Construction
from leanformer.paper.counts import TokenCounts
from leanformer.paper.drawn import PaperFigure
from leanformer.paper.ntk import TangentKernels
from leanformer.paper.parts import BlockParts
from leanformer.paper.record import CitedSetting, ScorecardRow
from leanformer.paper.trained_points import PerfectStart, PositionsStudy
from leanformer.paper.two_points.bound import LowerBound
from leanformer.paper.two_points.features import RandomFeatures
from leanformer.paper.two_points.voting import Voting

Kind = TypeVar("Kind", bound=Record)
SCORECARD = "paper/scorecard.json"
"""The recount, in the folder of results."""


def committed_results() -> Path | None:
    """The folder of committed results: here, that of the source tree, or what was installed with the package."""
    for folder in (Path("results"), Path(__file__).parents[3] / "results", Path(__file__).parent / "results"):
        if any((folder / name).is_file() for name in (SCORECARD, "theory/theory.json")):
            return folder
    return None


class Evidence:
    """What claims are judged by: a folder of records, and the recounted rows.

    A file that is not there gives None, so that a claim without evidence says so. A damaged one is an error.
    """

    def __init__(
        self, folder: Path | None, rows: Sequence[ScorecardRow] = (), settings: Sequence[CitedSetting] = ()
    ) -> None:
        self.folder, self.rows, self.settings = folder, tuple(rows), tuple(settings)
        self._read: dict[str, Any] = {}

    def sweep(self, name: str) -> Sweep | None:
        return self._record(Sweep, f"{name}/sweep.json")

    def comparison(self, name: str) -> Comparison | None:
        return self._record(Comparison, f"{name}/comparison.json")

    def glue(self) -> Glue | None:
        return self._record(Glue, "glue/glue.json")

    def theory(self) -> Theory | None:
        return self._record(Theory, "theory/theory.json")

    def heads(self, name: str) -> HeadsMeasurement | None:
        return self._record(HeadsMeasurement, f"{name}/kappa_by_heads.json")

    def figure(self, name: str) -> PaperFigure | None:
        return self._record(PaperFigure, f"{name}/figure.json")

    def figures(self) -> tuple[PaperFigure, ...]:
        """The paper's figures that were drawn here, in the paper's order."""
        places = [] if self.folder is None else sorted(self.folder.glob("paper/figure-*/figure.json"))
        found = (self.figure(f"paper/{place.parent.name}") for place in places)
        return tuple(sorted((one for one in found if one and one.points), key=lambda one: one.number))

    def counts(self) -> TokenCounts | None:
        return self._record(TokenCounts, "paper/counts.json")

    def parts(self) -> BlockParts | None:
        return self._record(BlockParts, "paper/parts.json")

    def tangent_kernels(self) -> TangentKernels | None:
        return self._record(TangentKernels, "paper/ntk.json")

    def construction(self) -> Construction | None:
        return self._record(Construction, "paper/construction.json")

    def lower_bound(self) -> LowerBound | None:
        return self._record(LowerBound, "paper/bound.json")

    def features(self) -> RandomFeatures | None:
        return self._record(RandomFeatures, "paper/features.json")

    def voting(self) -> Voting | None:
        return self._record(Voting, "paper/voting.json")

    def perfect(self) -> PerfectStart | None:
        return self._record(PerfectStart, "paper/perfect.json")

    def positions(self) -> PositionsStudy | None:
        return self._record(PositionsStudy, "paper/positions.json")

    def bench(self, name: str) -> Mapping[str, Any] | None:
        return self._once(f"bench/{name}.json", read_json)

    def _record(self, kind: type[Kind], name: str) -> Kind | None:
        return self._once(name, kind.read)

    def _once(self, name: str, read: Callable[[Path], Any]) -> Any:
        if name not in self._read:
            path = None if self.folder is None else self.folder / name
            self._read[name] = read(path) if path is not None and path.is_file() else None
        return self._read[name]

    def row(self, model: str, variant: str, table: str = "") -> ScorecardRow | None:
        """The recounted row of a model."""
        found = (r for r in self.rows if (r.model, r.variant) == (model, variant) and table in ("", r.table))
        return next(found, None)
