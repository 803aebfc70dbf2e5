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

from leanformer.report.figures.style import FIXED, GREY, INK, SIMULATION, SPLIT, STYLE, THEORY, save
from leanformer.report.numbers import metric_with_unit, parameters, score, signed, significant

Record = Mapping[str, Any]

COLOURS = (FIXED, SPLIT, THEORY, SIMULATION, "#b5838d", "#6b705c", "#e9a23b", INK)


def columns(record: Record) -> list[str]:
    paired = ["against the original's heads"] if any(cell["difference"] for cell in record["cells"]) else []
    return [*_varied(record), "layers", "heads × size", "MLP", "params", metric_with_unit(record), *paired, "rank", "κ"]


def rows(record: Record) -> list[tuple[str, ...]]:
    """One row of text per cell, in the order of `columns`."""
    return [_row(cell, record) for cell in record["cells"]]


def _row(cell: Record, record: Record) -> tuple[str, ...]:
    (stage,) = cell["architecture"]["stages"]
    paired = any(other["difference"] for other in record["cells"])
    return (
        *(str(cell["values"][name]) for name in _varied(record)),
        str(stage["depth"]),
        f"{stage['heads']} × {stage['head_dim']}",
        str(stage["mlp_dim"]),
        parameters(cell["params"]),
        score(cell["score"], record["metric"]),
        *([signed(cell["difference"], record["metric"])] if paired else []),
        "–" if cell["effective_rank"] is None else f"{cell['effective_rank']:.1f}",
        "–" if cell["kappa"] is None else significant(cell["kappa"]),
    )


def _varied(record: Record) -> list[str]:
    """The axes that have more than one value."""
    return [name for name, values in record["axes"].items() if len(values) > 1] or list(record["axes"])[:1]


def table(record: Record) -> Table:
    title = f"{record['name']}: {record['metric']['name']} ± 95 % interval over {_seeds(record)}"
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns(record):
        shown.add_column(name, justify="right")
    for row in rows(record):
        shown.add_row(*row)
    return shown


def _seeds(record: Record) -> str:
    numbers = [len(cell["scores"]) for cell in record["cells"]]
    least, most = min(numbers), max(numbers)
    return f"{most} seed{'s' * (most > 1)}" if least == most else f"{least} to {most} seeds"


def words(record: Record) -> list[str]:
    """What the grid shows, and what is not in it."""
    said = []
    judged = [cell for cell in record["cells"] if cell["difference"]]
    for word, sign in (("worse", -1), ("better", 1)):
        told = [cell for cell in judged if cell["difference"]["told"] and sign * cell["difference"]["mean"] > 0]
        if told:
            listed = "; ".join(
                f"{_cell(cell, record)}: {signed(cell['difference'], record['metric'])}" for cell in told
            )
            said.append(f"{word} than with the original's heads, told from zero: {listed}")
    if judged and max(cell["difference"]["seeds"] for cell in judged) < 3:
        said.append("fewer than three seeds tell no number of heads from another")
    elif judged and not said:
        said.append("no number of heads is told from the original's")
    if baselines := _baselines(record):
        said.append(f"without training, the {record['metric']['name']} is {', '.join(baselines)}")
    said += [f"left out: {_values(skipped['values'])}: {skipped['why']}" for skipped in record["left_out"]]
    return said + [
        f"did not finish: {_values(cell['values'])}: {t}" for cell in record["cells"] for t in cell["diverged"]
    ]


def _baselines(record: Record) -> list[str]:
    """Of trivial answers, over all data of the sweep."""
    found: dict[str, set[str]] = {}
    for cell in record["cells"]:
        for name, value in cell["baselines"].items():
            found.setdefault(name, set()).add(f"{value:.3f}")
    return [f"{' to '.join(sorted({min(v), max(v)}))} for {name}" for name, v in found.items()]


def _cell(cell: Record, record: Record) -> str:
    """A cell by what was varied and the size of its heads."""
    (stage,) = cell["architecture"]["stages"]
    varied = _values({name: cell["values"][name] for name in _varied(record)})
    return f"{varied} ({stage['heads']} × {stage['head_dim']})"


def _values(values: Record) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def lines(record: Record) -> Figure:
    """The score along the first axis: a line with 95 % intervals for each value of the second, a panel for the rest."""
    first, second, *rest = _axes(record)
    panels = [dict(zip(rest, chosen, strict=True)) for chosen in product(*(record["axes"][name] for name in rest))]
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(max(6.4, 4.2 * len(panels)), 3.8), dpi=160, layout="constrained")
        grid = drawn.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, fixed in zip(grid, panels, strict=True):
            _panel(axes, record, first, second, fixed)
        grid[0].set_ylabel(metric_with_unit(record))
        if second:
            grid[0].legend(title=_axis(second))
    return drawn


def side_by_side(records: Sequence[Record]) -> Figure:
    """Several sweeps in one picture, a panel each: differences to the original's heads by seed, where up is better."""
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(4.4 * len(records), 3.8), dpi=160, layout="constrained")
        for axes, record in zip(drawn.subplots(1, len(records), squeeze=False)[0], records, strict=True):
            first, second, *rest = _axes(record)
            fixed = {name: record["axes"][name][0] for name in rest}
            _panel(axes, record, first, second, fixed, differences=True)
            axes.axhline(0, color=GREY, lw=1)
            unit = record["metric"]["unit"].replace("%", "points")
            axes.set_ylabel(
                f"{record['metric']['name']} better than with the original's heads{f', {unit}' * bool(unit)}"
            )
            axes.set_title(", ".join(filter(None, [record["name"], _values(fixed)])))
            if second:
                axes.legend(title=_axis(second))
    return drawn


def _axes(record: Record) -> list[str]:
    """The axes of the figure: along which, a line for each of which (or none), and panels."""
    varied = _varied(record)
    return varied if len(varied) > 1 else [*varied, ""]


def _panel(axes: Axes, record: Record, first: str, second: str, fixed: Record, differences: bool = False) -> None:
    inside = [
        cell for cell in record["cells"] if cell["score"] and all(cell["values"][name] == fixed[name] for name in fixed)
    ]
    values = [value for value in record["axes"][first] if any(cell["values"][first] == value for cell in inside)]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 for value in values)
    if numeric:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    places = {value: value if numeric else place for place, value in enumerate(values)}
    for number, line in enumerate(record["axes"][second] if second else [None]):
        cells = [cell for cell in inside if line is None or cell["values"][second] == line]
        shade = COLOURS[number % len(COLOURS)]
        for cell in [] if differences else cells:
            seeds = list(cell["scores"].values())
            axes.plot([places[cell["values"][first]]] * len(seeds), seeds, ".", color=shade, ms=4, alpha=0.35)
        drawn = [(cell["difference"] if differences else cell["score"]) or SAME for cell in cells]
        axes.errorbar(
            [places[cell["values"][first]] for cell in cells],
            [estimate["mean"] for estimate in drawn],
            [_half(estimate) for estimate in drawn],
            fmt="o-",
            color=shade,
            ms=5,
            capsize=3,
            label="" if line is None else str(line),
        )
    ticks = {value: _tick(first, value, inside) for value in values}
    sized = first == "heads" and all(" × " in text for text in ticks.values())
    axes.set_xticks(list(places.values()), list(ticks.values()) if sized else list(map(str, values)))
    axes.set_xlabel("heads × head_dim" if sized else _axis(first))
    axes.set_title(_values(fixed) or f"{record['name']}: {record['metric']['name']}, 95 % over {_seeds(record)}")
    if differences:
        return
    trivial = inside[0]["baselines"] if inside else {}
    for name, value in trivial.items() if all(cell["baselines"] == trivial for cell in inside) else ():
        axes.axhline(value, color=GREY, lw=1, ls=":")
        axes.annotate(name, (0.02, value), xycoords=("axes fraction", "data"), va="bottom", fontsize=7, color=GREY)


def _tick(first: str, place: Any, cells: Sequence[Record]) -> str:
    """Heads are named with their size where that is the same for all."""
    sizes = {cell["architecture"]["stages"][0]["head_dim"] for cell in cells if cell["values"][first] == place}
    return f"{place} × {sizes.pop()}" if first == "heads" and len(sizes) == 1 else str(place)


SAME: Record = {"mean": 0.0, "t": None}
"""The difference of the original's heads to themselves."""


def _half(estimate: Record) -> float:
    interval = estimate["t"]
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
