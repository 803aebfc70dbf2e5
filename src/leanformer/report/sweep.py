"""A sweep as a terminal table, in words, as a figure and as Markdown, from its record alone."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.report.comparison import count, score
from leanformer.report.figures import FIXED, GREY, INK, SIMULATION, SPLIT, STYLE, THEORY, save
from leanformer.report.measurement import figure

Record = Mapping[str, Any]

COLOURS = (FIXED, SPLIT, THEORY, SIMULATION, "#b5838d", "#6b705c", "#e9a23b", INK)


def columns(record: Record) -> list[str]:
    metric = record["metric"]
    named = f"{metric['name']}, {metric['unit']}" if metric["unit"] else metric["name"]
    return [*_varied(record), "layers", "heads", "MLP", "params", named, "against the original's heads", "rank", "κ"]


def rows(record: Record) -> list[tuple[str, ...]]:
    """One row of text per cell, in the order of `columns`."""
    return [_row(cell, record) for cell in record["cells"]]


def _row(cell: Record, record: Record) -> tuple[str, ...]:
    (stage,) = cell["architecture"]["stages"]
    return (
        *(str(cell["values"][name]) for name in _varied(record)),
        str(stage["depth"]),
        f"{stage['heads']} × {stage['head_dim']}",
        str(stage["mlp_dim"]),
        count(cell["params"]),
        score(cell["score"], record["metric"]),
        _signed(cell["difference"], record["metric"]),
        "–" if cell["effective_rank"] is None else f"{cell['effective_rank']:.1f}",
        "–" if cell["kappa"] is None else figure(cell["kappa"]),
    )


def _varied(record: Record) -> list[str]:
    """The axes that have more than one value."""
    return [name for name, values in record["axes"].items() if len(values) > 1] or list(record["axes"])[:1]


def _signed(difference: Record | None, metric: Record) -> str:
    if difference is None:
        return ""
    places = 2 if metric["unit"] == "%" else 3
    shown = f"{difference['mean']:+.{places}f}"
    if difference["t"] is None:
        return shown
    return f"{shown} [{difference['t']['low']:+.{places}f}, {difference['t']['high']:+.{places}f}]"


def table(record: Record) -> Table:
    seeds = len(record["seeds"])
    title = f"{record['name']}: {record['metric']['name']} ± 95 % interval over {seeds} seed{'s' * (seeds > 1)}"
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns(record):
        shown.add_column(name, justify="right")
    for row in rows(record):
        shown.add_row(*row)
    return shown


def words(record: Record) -> list[str]:
    """What the grid shows, and what is not in it."""
    said = []
    told = [cell for cell in record["cells"] if _told(cell["difference"])]
    worse = [cell for cell in told if cell["difference"]["mean"] < 0]
    better = [cell for cell in told if cell["difference"]["mean"] > 0]
    for word, cells in (("worse", worse), ("better", better)):
        if cells:
            listed = "; ".join(f"{_sizes(cell)} {_signed(cell['difference'], record['metric'])}" for cell in cells)
            said.append(f"{word} than with the original's heads, told from zero: {listed}")
    if not told and any(cell["difference"] for cell in record["cells"]):
        said.append("no number of heads is told from the original's")
    for name, value in _baselines(record).items():
        said.append(f"without training, {name} scores {value}")
    said += [f"left out: {_values(skipped['values'])}: {skipped['why']}" for skipped in record["left_out"]]
    return said + [f"did not finish: {text}" for text in record["failures"].values()]


def _told(difference: Record | None) -> bool:
    return bool(difference and difference["t"] and (difference["t"]["low"] > 0 or difference["t"]["high"] < 0))


def _baselines(record: Record) -> dict[str, str]:
    """Of trivial answers, over all data of the sweep."""
    found: dict[str, list[float]] = {}
    for cell in record["cells"]:
        for name, value in cell["baselines"].items():
            found.setdefault(name, []).append(value)
    return {name: f"{min(values):.3f}" for name, values in found.items()}


def _sizes(cell: Record) -> str:
    (stage,) = cell["architecture"]["stages"]
    return f"{stage['heads']} × {stage['head_dim']}, {stage['depth']} layer{'s' * (stage['depth'] > 1)}"


def _values(values: Record) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def lines(record: Record) -> Figure:
    """The score along the first axis: a line with 95 % intervals for each value of the second, a panel for the rest."""
    first, second, *rest = [*_varied(record), "", ""][: max(2, len(_varied(record)))]
    panels = [dict(zip(rest, chosen, strict=True)) for chosen in product(*(record["axes"][name] for name in rest))]
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(max(6.4, 4.2 * len(panels)), 3.8), dpi=160, layout="constrained")
        grid = drawn.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, fixed in zip(grid, panels, strict=True):
            _panel(axes, record, first, second, fixed)
        grid[0].set_ylabel(columns(record)[-4])
        grid[0].legend(title=_axis(second) or None)
    return drawn


def _panel(axes: Axes, record: Record, first: str, second: str, fixed: Record) -> None:
    inside = [cell for cell in record["cells"] if all(cell["values"][name] == fixed[name] for name in fixed)]
    for place, value in enumerate(record["axes"][second] if second else [None]):
        cells = [cell for cell in inside if (value is None or cell["values"][second] == value) and cell["score"]]
        shade = COLOURS[place % len(COLOURS)]
        for cell in cells:
            seeds = list(cell["scores"].values())
            axes.plot([cell["values"][first]] * len(seeds), seeds, ".", color=shade, ms=4, alpha=0.35)
        axes.errorbar(
            [cell["values"][first] for cell in cells],
            [cell["score"]["mean"] for cell in cells],
            [_half(cell) for cell in cells],
            fmt="o-",
            color=shade,
            ms=5,
            capsize=3,
            label="" if value is None else str(value),
        )
    places = list(record["axes"][first])
    if all(isinstance(place, (int, float)) for place in places):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(places, [_tick(record, first, place, inside) for place in places])
    for name, value in (inside[0]["baselines"] if inside else {}).items():
        axes.axhline(value, color=GREY, lw=1, ls=":")
        axes.annotate(name, (0.02, value), xycoords=("axes fraction", "data"), va="bottom", fontsize=7, color=GREY)
    sized = first == "heads" and all(" × " in label.get_text() for label in axes.get_xticklabels())
    axes.set_xlabel("heads × head_dim" if sized else _axis(first))
    title = _values(fixed) or f"{record['name']}, {record['metric']['name']} ± 95 % over {len(record['seeds'])} seeds"
    axes.set_title(title)


def _tick(record: Record, first: str, place: Any, cells: Sequence[Record]) -> str:
    """Heads are named with their size where that is the same for all."""
    sizes = {cell["architecture"]["stages"][0]["head_dim"] for cell in cells if cell["values"][first] == place}
    return f"{place} × {sizes.pop()}" if first == "heads" and len(sizes) == 1 else str(place)


def _half(cell: Record) -> float:
    interval = cell["score"]["t"]
    return (interval["high"] - interval["low"]) / 2 if interval else 0.0


def _axis(name: str) -> str:
    return {
        "heads": "heads",
        "groups": "groups of heads",
        "task.points": "points N",
        "task.dim+width": "dimension d",
    }.get(name, name.replace("_", " "))


def markdown(record: Record) -> str:
    """The table and the words, for a page that is committed beside the record."""
    head = columns(record)
    body = [f"| {' | '.join(row)} |" for row in rows(record)]
    said = [f"- {line[0].upper()}{line[1:]}." for line in words(record)]
    commit = f" at commit {record['commit']}" if record["commit"] else ""
    about = (
        f"`{record['command']}`, leanformer {record['versions']['leanformer']}{commit}; {'; '.join(record['sources'])}."
    )
    parts = [
        f"# Sweep: {record['name']}",
        "![the score along the grid](sweep.png)",
        "\n".join([f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}", *body]),
        "\n".join(said),
        "± and [ ] are 95 % intervals over seeds; differences are paired by seed, more is better. Rank is the "
        "effective rank of W_Q W_Kᵀ after training, the median over heads, layers and seeds.",
        about,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(record: Record, folder: Path) -> list[Path]:
    """Write sweep.md and the figure; returns the files."""
    files = save(lines(record), folder / "sweep")
    page = folder / "sweep.md"
    page.write_text(markdown(record), encoding="utf-8")
    return [page, *files]
