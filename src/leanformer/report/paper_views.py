"""Views of the paper's figures and tables, and of what is measured for its remarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from leanformer.foundation.formats import counted, parameters, significant
from leanformer.foundation.records.files import write_text
from leanformer.paper.construction import Construction
from leanformer.paper.counts import TokenCounts
from leanformer.paper.drawn import PaperFigure, PaperTable, Plan
from leanformer.paper.ntk import TangentKernels
from leanformer.paper.parts import BlockParts
from leanformer.report import tables
from leanformer.report.figures import paper as figures
from leanformer.report.views import Figures, RecordView


def _plan_rows(plan: Plan) -> list[list[str]]:
    return [[design.design, parameters(design.params), f"{design.hours:.3g}"] for design in plan.designs]


class PaperFigureView(RecordView[PaperFigure]):
    def table(self, record: PaperFigure) -> Table:
        title = f"Figure {record.number}: {record.title}"
        if record.plan is not None and record.scale == "paper" and not record.points:
            head = ["design", "parameters", f"{record.plan.device.upper()}-hours per seed"]
            return tables.terminal(title, head, _plan_rows(record.plan), left=1)
        head = ["", record.x_label, record.y_label, "95 % interval", ""]
        rows = [
            [
                ", ".join(filter(None, (point.panel, point.line))),
                f"{point.x:g}",
                significant(point.y) if record.log_y else f"{point.y:.4g}",
                "" if point.low is None or point.high is None else f"[{point.low:.4g}, {point.high:.4g}]",
                f"{point.note}{' (better than the original)' if point.better else ''}",
            ]
            for point in record.points
        ]
        return tables.terminal(title, head, rows, left=1)

    def sentences(self, record: PaperFigure) -> list[str]:
        return record.sentences()

    def figures(self, record: PaperFigure) -> Figures:
        return {f"figure-{record.number}": lambda: figures.draw(record)} if record.points else {}

    def rows(self, record: PaperFigure) -> list[dict[str, Any]]:
        return [point.model_dump() for point in record.points]


class PaperTableView(RecordView[PaperTable]):
    def table(self, record: PaperTable) -> Table:
        return tables.terminal(f"Table {record.number}: {record.title}", list(record.head), self._cells(record), left=2)

    def _cells(self, record: PaperTable) -> list[list[str]]:
        return [list(row) for row in record.rows]

    def sentences(self, record: PaperTable) -> list[str]:
        return record.sentences()

    def rows(self, record: PaperTable) -> list[dict[str, Any]]:
        return [dict(zip(record.head, row, strict=True)) for row in record.rows]

    def write(self, record: PaperTable, folder: Path) -> list[Path]:
        page = folder / "table.md"
        cells = [[tables.markdown_text(cell) for cell in row] for row in record.rows]
        parts = [f"# Table {record.number}: {record.title}", tables.markdown(list(record.head), cells, left=2)]
        parts += [f"- {tables.markdown_text(words)}" for words in record.sentences()]
        write_text(page, "\n\n".join(parts) + "\n")
        return [page]


class PartsView(RecordView[BlockParts]):
    def table(self, record: BlockParts) -> Table:
        rows = [
            [str(part.layer), significant(part.block), significant(part.head), *(significant(k) for k in part.mlp)]
            for part in record.layers
        ]
        head = ["layer", "κ of the block", "κ of one head", *(f"κ of MLP {n + 1}" for n in range(len(rows[0]) - 3))]
        return tables.terminal(f"{record.model}, {record.weights}, on {record.inputs}", head, rows, left=0)

    def sentences(self, record: BlockParts) -> list[str]:
        return [record.glance()]

    def figures(self, record: BlockParts) -> Figures:
        return {"parts": lambda: figures.parts(record)}

    def rows(self, record: BlockParts) -> list[dict[str, Any]]:
        return [part.model_dump() for part in record.layers]


class ConstructionView(RecordView[Construction]):
    def table(self, record: Construction) -> Table:
        rows = [[str(r.points), f"{r.sharpness:g}", f"{r.error:.2g}", f"{100 * r.found:.1f} %"] for r in record.rows]
        head = ["points", "sharpness", "error", "found"]
        return tables.terminal(f"One head of rank {record.dim}, constructed", head, rows, left=0)

    def figures(self, record: Construction) -> Figures:
        return {"construction": lambda: figures.construction(record)}

    def rows(self, record: Construction) -> list[dict[str, Any]]:
        return [row.model_dump() for row in record.rows]


class TangentKernelsView(RecordView[TangentKernels]):
    def table(self, record: TangentKernels) -> Table:
        mlps = [["MLP, ReLU", "1", "–", f"{row.width:,}", "", *_spread(row.kappas), ""] for row in record.widths]
        for name, read in (("MLP, normalised", "normalised"), ("MLP, ReLU", "plain")):
            for row in record.depths:
                mlps.append([name, str(row.depth), "–", "∞", "", *_spread(getattr(row, read)), ""])
        transformers = [
            [
                f"{record.recipe}, {row.regime}{', equal parameters' if row.equal_params else ''}, {row.start}",
                str(row.depth),
                f"{row.heads} × {row.head_dim}",
                f"{row.mlp_dim:,}",
                f"{row.params:,}",
                *_spread(row.kappas),
                significant(median(row.attention)) if row.attention else "",
            ]
            for row in record.transformers
        ]
        head = ["network", "layers", "heads", "MLP", "parameters", "κ, median", "over seeds", "κ of attention"]
        title = f"κ of tangent kernels of {record.samples} samples, {counted(record.seeds, 'seed')}"
        return tables.terminal(title, head, [*mlps, *transformers], left=1)

    def sentences(self, record: TangentKernels) -> list[str]:
        return [record.glance()]

    def figures(self, record: TangentKernels) -> Figures:
        return {"ntk": lambda: figures.tangent_kernels(record)}

    def rows(self, record: TangentKernels) -> list[dict[str, Any]]:
        return [row.model_dump() for row in (*record.widths, *record.depths, *record.transformers)]


def _spread(kappas: Sequence[float]) -> tuple[str, str]:
    return significant(median(kappas)), f"{significant(min(kappas))} to {significant(max(kappas))}"


class TokenCountsView(RecordView[TokenCounts]):
    def table(self, record: TokenCounts) -> Table:
        head = ["task", "tokens at most", "most frequent class", "token counts", "95 % interval", "printed"]
        rows = [
            [
                *(row.task, f"{row.length:,}", f"{row.usual:.1f}", f"{row.linear:.1f}"),
                f"[{row.low:.1f}, {row.high:.1f}]",
                ", ".join(f"{variant} {value}" for variant, value in row.printed.items()),
            ]
            for row in record.rows
        ]
        return tables.terminal("Accuracy of a linear model of token counts, %", head, rows)

    def sentences(self, record: TokenCounts) -> list[str]:
        return record.sentences()

    def figures(self, record: TokenCounts) -> Figures:
        return {"counts": lambda: figures.token_counts(record)}

    def rows(self, record: TokenCounts) -> list[dict[str, Any]]:
        return [row.model_dump(exclude={"printed"}) | row.printed for row in record.rows]
