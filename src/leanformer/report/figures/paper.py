"""The paper's figures as it draws them: a panel per depth, parameters beside points, the original as a dotted line."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.architecture import Regime
from leanformer.foundation.formats import counted
from leanformer.paper.construction import Construction
from leanformer.paper.counts import TokenCounts
from leanformer.paper.drawn import FigurePoint, PaperFigure
from leanformer.paper.ntk import STARTS, TangentKernels
from leanformer.paper.parts import BlockParts
from leanformer.paper.record import CLAIM_STATUSES, Scorecard
from leanformer.report.figures.claim import MARKS
from leanformer.report.figures.style import (
    FIXED,
    GREY,
    INK,
    SIMULATION,
    SPLIT,
    STYLE,
    THEORY,
    Drawing,
    framed,
    log_axis,
    plain_text,
)

ANNOTATED_BY_SHARE = 5
"""The figure whose points say how many parameters they save; others say how many they have."""
COLOURS = (FIXED, SPLIT, SIMULATION, "#b5838d", "#6b705c", "#e9a23b", INK)


def draw(record: PaperFigure) -> Figure:
    """All panels of a figure, with what the paper prints beneath."""
    panels = list(dict.fromkeys(point.panel for point in record.points)) or [""]
    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(max(6.4, 4.4 * len(panels)), 4.2), dpi=160, layout="constrained")
        grid = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            _panel(axes, record, panel, [point for point in record.points if point.panel == panel])
        grid[0].set_ylabel(plain_text(record.y_label))
        if any(len({point.line for point in record.points if point.panel == panel}) > 1 for panel in panels):
            grid[-1].legend(fontsize=7)
        title = f"Figure {record.number} at {record.scale} scale: {record.title}"
        drawing.suptitle(plain_text(title), fontsize=10, color=INK, x=0.01, ha="left")
        drawing.supxlabel(plain_text(_caption(record)), fontsize=6.5, color=GREY)
    return drawing


def _caption(record: PaperFigure) -> str:
    """What the marks mean, and what the paper prints."""
    bars = any(point.low is not None for point in record.points)
    marks = ["bars: 95 % intervals over seeds"] if bars else []
    marks += ["dotted: the original"] if record.original is not None else []
    marks += ["percent: parameters against the original's"] if record.number == ANNOTATED_BY_SHARE else []
    marks += ["green: better than the original, paired by seed"] if any(p.better for p in record.points) else []
    printed = [f"the paper prints: {'; '.join(record.printed)}"] if record.printed else []
    return "\n".join(filter(None, ["; ".join(marks), *printed]))


def _panel(axes: Axes, record: PaperFigure, panel: str, points: Sequence[FigurePoint]) -> None:
    for number, line in enumerate(dict.fromkeys(point.line for point in points)):
        own = sorted((point for point in points if point.line == line), key=lambda point: point.x)
        _line(axes, own, COLOURS[number % len(COLOURS)], "o-" if record.joined else "o")
    _notes(axes, points, apart=record.joined)
    if record.original is not None:
        axes.axhline(record.original, color=INK, ls=":", lw=1.2)
    if record.log_y:
        log_axis(axes.yaxis)
    if record.joined:
        places = sorted({point.x for point in points})
        axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_title(plain_text(panel))
    axes.set_xlabel(plain_text(record.x_label))


def _notes(axes: Axes, points: Sequence[FigurePoint], apart: bool) -> None:
    """Beside each point; if lines are to be kept apart, above the highest of them and below the others."""
    highest = {point.x: max(other.y for other in points if other.x == point.x) for point in points}
    for point in points:
        if point.line != "printed":
            beside = (3, -10 if apart and point.y < highest[point.x] else 5)
            words = plain_text(point.note)
            axes.annotate(words, (point.x, point.y), beside, textcoords="offset points", fontsize=6.5)


def _line(axes: Axes, points: Sequence[FigurePoint], shade: str, style: str) -> None:
    name = points[0].line
    axes.errorbar(
        [point.x for point in points],
        [point.y for point in points],
        [_reach(points, -1), _reach(points, 1)] if all(point.low is not None for point in points) else None,
        fmt=style,
        color=shade,
        mfc="none" if name == "printed" else shade,
        ms=5,
        capsize=3,
        lw=1.2,
        label=name,
    )
    better = [point for point in points if point.better]
    axes.plot([point.x for point in better], [point.y for point in better], "o", color=THEORY, ms=7, zorder=5)


def _reach(points: Sequence[FigurePoint], side: int) -> list[float]:
    """From each point to the lower or upper end of its interval."""
    ends = [point.low if side < 0 else point.high for point in points]
    return [side * ((point.y if end is None else end) - point.y) for point, end in zip(points, ends, strict=True)]


def parts(record: BlockParts) -> Figure:
    """κ of blocks, of single heads and of the MLP's weights, layer by layer."""

    def drawing(axes: Axes) -> None:
        layers = [part.layer for part in record.layers]
        axes.plot(layers, [part.block for part in record.layers], "o-", color=FIXED, label="all heads side by side")
        axes.plot(layers, [part.head for part in record.layers], "o-", color=SPLIT, label="one head alone")
        for number in range(min(len(part.mlp) for part in record.layers)):
            values = [part.mlp[number] for part in record.layers]
            axes.plot(layers, values, "o-", color=THEORY, label=f"weights of the MLP, {number + 1}")
        log_axis(axes.yaxis)
        axes.set(xlabel="layer", ylabel="κ")
        axes.set_title(plain_text(f"{record.model}, {record.weights}"))
        axes.legend()

    return framed(drawing)


def construction(record: Construction) -> Figure:
    """The error of the constructed head against its sharpness, a line for each number of points."""

    def drawing(axes: Axes) -> None:
        for number, points in enumerate(dict.fromkeys(row.points for row in record.rows)):
            own = [row for row in record.rows if row.points == points]
            shade = COLOURS[number % len(COLOURS)]
            axes.plot([r.sharpness for r in own], [r.error for r in own], "o-", color=shade, label=f"{points} points")
        log_axis(axes.xaxis)
        log_axis(axes.yaxis)
        axes.set(xlabel="sharpness c of the scores", ylabel="error (the origin scores 1)")
        axes.set_title(f"one constructed head of rank {record.dim}")
        axes.legend()

    return framed(drawing)


def token_counts(record: TokenCounts) -> Figure:
    """For each task the linear model's accuracy with its interval, and the printed ones."""

    def drawing(axes: Axes) -> None:
        places = list(range(len(record.rows)))
        values = [row.linear for row in record.rows]
        ends = [[row.linear - row.low for row in record.rows], [row.high - row.linear for row in record.rows]]
        axes.errorbar(values, places, xerr=ends, fmt="o", color=GREY, capsize=3, label="linear model of token counts")
        for variant, shade in (("original", FIXED), ("lean", SPLIT)):
            printed = [row.printed[variant] for row in record.rows]
            axes.plot(printed, places, "D", color=shade, mfc="none", label=f"printed, {variant}")
        axes.set_yticks(places, [plain_text(row.task) for row in record.rows])
        axes.invert_yaxis()
        axes.set_xlabel("accuracy, %")
        axes.set_title("tasks of Table 3, at the paper's lengths")
        axes.legend(fontsize=7)

    return framed(drawing)


WAYS: dict[str, tuple[Regime, bool]] = {
    "heads keep their size": ("fixed", False),
    "the same at equal parameters": ("fixed", True),
    "heads split the width": ("split", False),
}
"""In which heads are added to a transformer: the regime, and whether the MLP makes up for their parameters."""


def tangent_kernels(record: TangentKernels) -> Figure:
    """κ of tangent kernels: of MLPs against width and depth, of transformers against heads, by start and depth."""
    depths_of = sorted({row.depth for row in record.transformers})
    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(13.0, 7.0), dpi=160, layout="constrained")
        grid = drawing.subplots(2, max(3, 1 + len(depths_of)))
        widths, depths = grid[0, 0], grid[1, 0]
        _by_size(
            widths, [row.width for row in record.widths], [row.kappas for row in record.widths], 0, "one hidden layer"
        )
        widths.axhline(median(record.limits), color=INK, ls=":", lw=1.2, label="infinite width")
        sizes = [row.depth for row in record.depths]
        _by_size(depths, sizes, [row.normalised for row in record.depths], 0, "normalised")
        _by_size(depths, sizes, [row.plain for row in record.depths], 1, "plain ReLU")
        for start, line in zip(STARTS, grid[:, 1:], strict=True):
            for axes, depth in zip(line, depths_of, strict=False):
                for number, (name, (regime, equal)) in enumerate(WAYS.items()):
                    rows = record.of(regime, equal_params=equal, start=start).get(depth, [])
                    if rows:
                        _by_size(axes, [row.heads for row in rows], [row.kappas for row in rows], number, name)
                axes.set(title=f"transformers of {counted(depth, 'layer')}, {start}", xlabel="heads")
            line[len(depths_of) - 1].legend(fontsize=7)
            line[0].set_ylabel("κ of the tangent kernel")
        for axes in grid[:, 1 + len(depths_of) :].flat:
            axes.set_axis_off()
        widths.set(title="MLPs by width", xlabel="width", ylabel="κ of the tangent kernel", yscale="linear")
        depths.set(title="infinitely wide MLPs by depth", xlabel="hidden layers", ylabel="κ of the tangent kernel")
        widths.legend(fontsize=7)
        depths.legend(fontsize=7)
    return drawing


def _by_size(axes: Axes, sizes: Sequence[int], kappas: Sequence[Sequence[float]], number: int, label: str) -> None:
    """The median over seeds with their range."""
    middle = [median(own) for own in kappas]
    reach = [
        [m - min(own) for m, own in zip(middle, kappas, strict=True)],
        [max(own) - m for m, own in zip(middle, kappas, strict=True)],
    ]
    axes.errorbar(
        sizes, middle, reach, fmt="o-", color=COLOURS[number % len(COLOURS)], ms=4, capsize=3, lw=1.2, label=label
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda size, place: f"{size:g}")
    log_axis(axes.yaxis)


def error_by_heads(title: str, values: Sequence[tuple[str, int, float]]) -> Figure:
    """An error against the number of heads, a line for each name."""

    def drawing(axes: Axes) -> None:
        for number, name in enumerate(dict.fromkeys(line for line, _, _ in values)):
            own = [(heads, error) for line, heads, error in values if line == name]
            axes.plot(*zip(*own, strict=True), "o-", color=COLOURS[number % len(COLOURS)], label=name)
        log_axis(axes.xaxis)
        axes.set(xlabel="heads", ylabel="error (the origin scores 1)", title=title)
        axes.legend()

    return framed(drawing)


def dots(title: str, names: Sequence[str], values: Sequence[Sequence[float]]) -> Figure:
    """The values of some designs, one dot for every seed."""

    def drawing(axes: Axes) -> None:
        for place, own in enumerate(values):
            axes.plot(own, [place] * len(own), "o", color=FIXED)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        log_axis(axes.xaxis)
        axes.set_title(title)

    return framed(drawing)


def statuses(record: Scorecard) -> Figure:
    """How many claims have each status."""

    def drawing(axes: Axes) -> None:
        counts = [sum(claim.status == status for claim in record.claims) for status in CLAIM_STATUSES]
        bars = axes.barh(CLAIM_STATUSES, counts, color=[MARKS[status][2] for status in CLAIM_STATUSES])
        axes.bar_label(bars, padding=3)
        axes.invert_yaxis()
        axes.set_xlabel("claims")
        axes.set_title("two papers, by what the records say")

    return framed(drawing, height=2.6)
