"""Figures of sweeps: the score along an axis, and several sweeps side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from leanformer.experiments.judging.estimates import Estimate
from leanformer.experiments.sweep_records import Sweep, SweepCell, in_words
from leanformer.foundation.formats import counted_range
from leanformer.report.cells import metric_with_unit
from leanformer.report.figures.style import FIXED, GREY, INK, SIMULATION, SPLIT, STYLE, THEORY, Drawing, plain_text

COLOURS = (FIXED, SPLIT, THEORY, SIMULATION, "#b5838d", "#6b705c", "#e9a23b", INK)
ROOM = 1.2
"""Factor from the outermost value to the edge of a logarithmic axis."""
MOST_COLUMNS = 4
"""Panels beside each other."""
MANY_TICKS = 6
"""Of an axis; from here on, their labels are smaller."""
TITLES = {"groups": "groups of heads", "task.points": "points N", "task.dim+width": "dimension d"}


def lines(record: Sweep) -> Figure:
    """The score along the first axis: a line with 95 % intervals for each value of the second, a panel for the rest."""
    first, second, *_ = _axes(record)
    panels = _panels(record)
    rows = math.ceil(len(panels) / MOST_COLUMNS)
    columns = math.ceil(len(panels) / rows)
    with mpl.rc_context(STYLE):
        drawn = Drawing(figsize=(max(6.4, 4.2 * columns), 3.8 * rows), dpi=160, layout="constrained")
        grid = drawn.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, fixed in zip(grid.flat, panels, strict=False):
            _panel(axes, record, first, second, fixed, differences=False)
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        for axes in grid[:, 0]:
            axes.set_ylabel(plain_text(metric_with_unit(record.metric)))
        if second:
            grid[0, 0].legend(title=_title(second))
    return drawn


def _panels(record: Sweep) -> list[dict[str, Any]]:
    """The values of all axes but the first two that some cell has, without axes that follow another one.

    Where every depth has a learning rate of its own, a panel for each rate would show nothing new.
    """
    first, second, *rest = _axes(record)
    kept: list[str] = []
    for name in rest:
        if not any(_follows(record, name, other) for other in filter(None, (first, second, *kept))):
            kept.append(name)
    there = [{name: cell.values[name] for name in kept} for cell in record.cells]
    every = (dict(zip(kept, chosen, strict=True)) for chosen in product(*(record.axes[name] for name in kept)))
    return [fixed for fixed in every if fixed in there]


def _follows(record: Sweep, name: str, other: str) -> bool:
    """Whether the value of another axis decides that of this one."""
    seen = {(cell.values[other], cell.values[name]) for cell in record.cells}
    return len(seen) == len({value for value, _ in seen}) < len(record.cells)


def side_by_side(records: Sequence[Sweep]) -> Figure:
    """Several sweeps in one picture, a panel each: differences to the original's heads by seed, where up is better."""
    with mpl.rc_context(STYLE):
        drawn = Drawing(figsize=(4.4 * len(records), 3.8), dpi=160, layout="constrained")
        for axes, record in zip(drawn.subplots(1, len(records), squeeze=False)[0], records, strict=True):
            first, second, *rest = _axes(record)
            fixed = {name: record.axes[name][0] for name in rest}
            _panel(axes, record, first, second, fixed, differences=True)
            axes.axhline(0, color=GREY, lw=1)
            unit = record.metric.unit.replace("%", "points")
            better = f"{record.metric.name} better than with the original's heads"
            axes.set_ylabel(plain_text(f"{better}, {unit}" if unit else better))
            axes.set_title(plain_text(", ".join(filter(None, [record.name, in_words(fixed)]))))
            if second:
                axes.legend(title=_title(second))
    return drawn


def _axes(record: Sweep) -> list[str]:
    """The axes of the figure: along which, a line for each of which (or none), and panels."""
    return record.varied if len(record.varied) > 1 else [*record.varied, ""]


def _panel(axes: Axes, record: Sweep, first: str, second: str, fixed: Mapping[str, Any], *, differences: bool) -> None:
    inside = [cell for cell in record.cells if cell.score and all(cell.values[name] == fixed[name] for name in fixed)]
    places = _places(axes, first, [value for value in record.axes[first] if _has(inside, first, value)])
    for number, value in enumerate(record.axes[second] if second else [None]):
        cells = [cell for cell in inside if value is None or cell.values[second] == value]
        shade, label = COLOURS[number % len(COLOURS)], "" if value is None else plain_text(str(value))
        _line(axes, cells, [places[cell.values[first]] for cell in cells], shade, label, differences)
    _ticks(axes, first, places, inside, fontsize=None if len(record.axes[first]) < MANY_TICKS else 7)
    _reach(axes, record.axes[first])
    seeds = counted_range([len(cell.scores) for cell in record.cells], "seed")
    over = f"{record.name}: {record.metric.name}, 95 % over {seeds}"
    axes.set_title(plain_text(in_words(fixed) or over))
    if not differences:
        _draw_baselines(axes, inside)


def _has(cells: Sequence[SweepCell], axis: str, value: Any) -> bool:
    return any(cell.values[axis] == value for cell in cells)


def _places(axes: Axes, first: str, values: Sequence[Any]) -> dict[Any, float]:
    """Where each value stands: numbers on a logarithmic axis, anything else one after the other."""
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 for value in values)
    if numeric:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    return {value: value if numeric else place for place, value in enumerate(values)}


def _line(
    axes: Axes, cells: Sequence[SweepCell], places: Sequence[float], shade: str, label: str, differences: bool
) -> None:
    if not differences:
        for cell, place in zip(cells, places, strict=True):
            scores = list(cell.scores.values())
            axes.plot([place] * len(scores), scores, ".", color=shade, ms=4, alpha=0.35)
    estimates: list[Estimate | None] = [cell.difference if differences else cell.score for cell in cells]
    axes.errorbar(
        places,
        [0.0 if estimate is None else estimate.mean for estimate in estimates],  # the original's heads differ by 0
        [0.0 if estimate is None or estimate.t is None else estimate.t.half for estimate in estimates],
        fmt="o-",
        color=shade,
        ms=5,
        capsize=3,
        label=label,
    )


def _ticks(
    axes: Axes, first: str, places: Mapping[Any, float], cells: Sequence[SweepCell], fontsize: int | None
) -> None:
    """Heads are named with their size where all heads of that number have one size."""
    named = {value: _heads(value, cells) if first == "heads" else None for value in places}
    sized = bool(named) and all(named.values())
    labels = [str(name) if sized else plain_text(str(value)) for value, name in named.items()]
    axes.set_xticks(list(places.values()), labels, fontsize=fontsize)
    axes.set_xlabel("heads × head_dim" if sized else _title(first))


def _reach(axes: Axes, values: Sequence[Any]) -> None:
    """All panels reach as far as the whole axis: a panel may have one value of it only."""
    if len(values) > 1 and axes.get_xscale() == "log":
        axes.set_xlim(min(values) / ROOM, max(values) * ROOM)


def _heads(value: Any, cells: Sequence[SweepCell]) -> str | None:
    here = [cell.architecture for cell in cells if cell.values["heads"] == value]
    sizes = {design.stages[0].head_dim if design else None for design in here}
    return f"{value} × {size}" if len(sizes) == 1 and (size := sizes.pop()) else None


def _draw_baselines(axes: Axes, cells: Sequence[SweepCell]) -> None:
    """What trivial answers score, where that is the same for all cells."""
    trivial = cells[0].baselines if cells else {}
    if any(cell.baselines != trivial for cell in cells):
        return
    for name, value in trivial.items():
        axes.axhline(value, color=GREY, lw=1, ls=":")
        axes.annotate(
            plain_text(name), (0.02, value), xycoords=("axes fraction", "data"), va="bottom", fontsize=7, color=GREY
        )


def _title(name: str) -> str:
    return plain_text(TITLES.get(name, name.replace("_", " ")))
