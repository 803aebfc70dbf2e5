"""Views of the counterpoint's theory and of its smaller experiments."""

from __future__ import annotations

from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from leanformer.paper.trained_points import PerfectStart, PositionsStudy
from leanformer.paper.two_points.bound import LowerBound
from leanformer.paper.two_points.features import RandomFeatures
from leanformer.paper.two_points.voting import Voting
from leanformer.report import tables
from leanformer.report.figures.paper import dots, error_by_heads
from leanformer.report.views import Figures, RecordView


class LowerBoundView(RecordView[LowerBound]):
    def table(self, record: LowerBound) -> Table:
        counts = list(dict.fromkeys(row.heads for row in record.rows))
        head = [
            "dimension",
            "rank",
            *(f"{count:,} heads" for count in counts),
            "heads needed, fixed",
            "shrinking error",
        ]
        rows = []
        for dim, rank in dict.fromkeys((row.dim, row.rank) for row in record.rows):
            own = [row.bound for row in record.rows if (row.dim, row.rank) == (dim, rank)]
            needed = [need.log2_heads for need in record.needed if (need.dim, need.rank) == (dim, rank)]
            rows.append([str(dim), str(rank), *(f"{b:.3f}" for b in own), *(f"2^{log2:.1f}" for log2 in needed)])
        return tables.terminal("No layer of such heads has a smaller error", head, rows, left=0)

    def sentences(self, record: LowerBound) -> list[str]:
        return [record.glance()]

    def figures(self, record: LowerBound) -> Figures:
        def drawn() -> Figure:
            ranks = [row for row in record.rows if 2 * row.rank == row.dim]
            lines = [(f"{row.dim} dimensions", row.heads, row.bound) for row in ranks]
            return error_by_heads("lower bound, half rank", lines)

        return {"bound": drawn}

    def rows(self, record: LowerBound) -> list[dict[str, Any]]:
        return [row.model_dump() for row in record.rows]


class RandomFeaturesView(RecordView[RandomFeatures]):
    def table(self, record: RandomFeatures) -> Table:
        head = ["dimension", "rank", "heads", "error", "lower bound"]
        rows = [
            [str(row.dim), str(row.rank), f"{row.heads:,}", f"{row.error:.3f}", f"{row.bound:.3f}"]
            for row in record.rows
        ]
        return tables.terminal(f"Random heads, best weights, mean of {record.seeds} seeds", head, rows, left=0)

    def figures(self, record: RandomFeatures) -> Figures:
        lines = [(f"{row.dim} dimensions", row.heads, row.error) for row in record.of(rank=1)]
        return {"features": lambda: error_by_heads("random heads of rank 1, best weights", lines)}

    def rows(self, record: RandomFeatures) -> list[dict[str, Any]]:
        return [{**row.model_dump(), "error": row.error} for row in record.rows]


class VotingView(RecordView[Voting]):
    def table(self, record: Voting) -> Table:
        head = ["dimension", "heads", "two layers", "expected", "first layer alone", "any one layer, at least"]
        rows = [
            [str(row.dim), f"{row.heads:,}"]
            + [f"{value:.3f}" for value in (row.error, row.expected, mean(row.one_layer), row.bound)]
            for row in record.rows
        ]
        return tables.terminal(f"Heads of rank 1 that vote, mean of {record.seeds} seeds", head, rows, left=0)

    def figures(self, record: Voting) -> Figures:
        lines = [(f"{row.dim} dimensions", row.heads, row.error) for row in record.rows]
        return {"voting": lambda: error_by_heads("two layers of rank-1 heads", lines)}

    def rows(self, record: Voting) -> list[dict[str, Any]]:
        return [{**row.model_dump(), "error": row.error} for row in record.rows]


class TrainedPointsView(RecordView[PerfectStart | PositionsStudy]):
    def table(self, record: PerfectStart | PositionsStudy) -> Table:
        head = ["positions", "rank", "heads", "start", "error before", "after, mean", "after, by seed"]
        rows = [
            [
                *(row.positions, str(row.rank), str(row.heads), row.start, f"{mean(row.before):.3f}"),
                *(f"{row.error:.4f}", ", ".join(f"{error:.4f}" for error in row.after)),
            ]
            for row in record.rows
        ]
        title = f"{record.points} points in {record.dim} dimensions, 1 layer, {record.steps:,} steps"
        return tables.terminal(title, head, rows, left=0)

    def figures(self, record: PerfectStart | PositionsStudy) -> Figures:
        def drawn() -> Figure:
            names = [f"{row.positions}, rank {row.rank}, {row.start}" for row in record.rows]
            return dots(f"error after {record.steps:,} steps", names, [row.after for row in record.rows])

        return {"trained": drawn}

    def rows(self, record: PerfectStart | PositionsStudy) -> list[dict[str, Any]]:
        return [{**row.model_dump(), "error": row.error} for row in record.rows]
