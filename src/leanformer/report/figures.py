"""Figures, drawn from records alone. May import matplotlib and records."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.records.base import number

Record = Mapping[str, Any]

INK, GREY = "#1f2430", "#8a919e"
FIXED, SPLIT, THEORY, SIMULATION = "#1b6ca8", "#d1603d", "#3a7d44", "#7a5195"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8ec",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "leanformer",  # names inside the file do not change from run to run
}


def framed(draw: Callable[[Axes], None], width: float = 6.4, height: float = 3.8) -> Figure:
    """A figure in the style of all others."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
        draw(figure.add_subplot())
    return figure


def save(figure: Figure, path: Path, suffixes: Sequence[str] = (".png", ".svg")) -> list[Path]:
    """Write a figure in several formats; returns the files. The same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(suffix) for suffix in suffixes]
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context(STYLE):
        for file in files:
            figure.savefig(file, metadata=dates.get(file.suffix))
    return files


def rank_by_layer(record: Record) -> Figure:
    """The effective rank of W_Q W_Kᵀ of every head, layer by layer, and the head_dim that it cannot exceed."""
    layers = record["layers"]

    def draw(axes: Axes) -> None:
        for place, layer in enumerate(layers, start=1):
            axes.plot([place] * layer["heads"], layer["effective_rank"], ".", color=FIXED, ms=5, alpha=0.5)
        places = range(1, len(layers) + 1)
        axes.plot(places, [layer["head_dim"] for layer in layers], "_", color=SPLIT, ms=12, mew=2, label="head_dim")
        axes.plot([], [], ".", color=FIXED, label="a head")
        axes.set_ylim(0)
        axes.set(xlabel="layer", ylabel="effective rank of W_Q W_Kᵀ")
        axes.set_title(f"{_short(record['model'])}, {record['weights']}: directions that each head uses")
        axes.legend()

    return framed(draw)


def kappa_by_layer(record: Record) -> Figure:
    """κ of each layer: median, quartiles and maximum over samples, the Gaussian prediction beside it."""
    layers = record["layers"]

    def draw(axes: Axes) -> None:
        places = list(range(1, len(layers) + 1))
        kappa = {key: [number(layer["kappa"][key]) for layer in layers] for key in layers[0]["kappa"]}
        axes.fill_between(places, kappa["lower_quartile"], kappa["upper_quartile"], color=FIXED, alpha=0.2, lw=0)
        axes.plot(places, kappa["median"], "o-", color=FIXED, ms=4, label="median and quartiles")
        axes.plot(places, kappa["max"], "^", color=FIXED, ms=3, alpha=0.5, label="maximum")
        axes.plot(places, [number(layer["gaussian"]) for layer in layers], "--", color=THEORY, label="Gaussian block")
        axes.set_yscale("log")
        axes.set_xticks(places if len(places) <= 24 else places[::4])
        axes.set(xlabel="layer", ylabel="condition number κ")
        axes.set_title(f"Attention of {_short(record['model'])} ({record['weights']})")
        axes.legend()

    return framed(draw)


def kappa_by_heads(record: Record) -> Figure:
    """κ against the number of heads, in both regimes, with the Gaussian prediction and the cliff."""
    rows = record["rows"]

    def draw(axes: Axes) -> None:
        for regime, colour, words in (("fixed", FIXED, "head_dim kept"), ("split", SPLIT, "width kept")):
            chosen = [row for row in rows if row["regime"] == regime]
            if not chosen:
                continue
            heads = [row["heads"] for row in chosen]
            low, high = ([number(row[key]) for row in chosen] for key in ("lowest_layer", "highest_layer"))
            axes.fill_between(heads, low, high, color=colour, alpha=0.15, lw=0)
            axes.plot(
                heads, [number(row["kappa"]) for row in chosen], "o-", color=colour, ms=4, label=f"{regime}: {words}"
            )
            gaussian = [number(row["gaussian"]) for row in chosen]
            axes.plot(heads, gaussian, "--", color=colour, lw=1, label=f"{regime}, Gaussian block")
        fixed = [row for row in rows if row["regime"] == "fixed"]
        if fixed:
            _mark_cliff(axes, fixed[0]["tokens"] / fixed[0]["head_dim"])
        axes.set_yscale("log")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel="heads", ylabel="condition number κ, median over layers")
        axes.set_title(f"{_short(record['model'])}, {record['depth']} layers ({record['weights']}); band: layers")
        axes.legend()

    return framed(draw)


def theory_against_simulation(record: Record) -> Figure:
    """Theorem 3.2, its finite-size form and exact sampling as heads are added, through the cliff where h·d = N."""
    rows = record["rows"]

    def draw(axes: Axes) -> None:
        columns, curve = [row["columns"] for row in rows], record["curve"]
        edge = [min(number(value), 1e9) for value in curve["edge"]]
        low, high = ([number(row["quartiles"][side]) for row in rows] for side in (0, 1))
        axes.fill_between(columns, low, high, color=SIMULATION, alpha=0.2, lw=0)
        axes.plot(
            columns, [row["median"] for row in rows], "o", color=SIMULATION, ms=4, label="sampled median, quartiles"
        )
        axes.plot(curve["columns"], edge, "-", color=GREY, lw=1, label="Theorem 3.2 (asymptotic)")
        axes.plot(curve["columns"], curve["expected"], "-", color=THEORY, label="finite size, exp E log κ")
        _mark_cliff(axes, record["tokens"])
        axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_ylim(1, 2 * max(*high, *curve["expected"]))
        axes.set(xlabel="columns h·d", ylabel="condition number κ")
        axes.set_title(f"Gaussian blocks: {record['tokens']} tokens, heads of {record['head_dim']}")
        axes.legend()

    return framed(draw)


def pareto(record: Record) -> Figure:
    """Parameters against memory of every candidate within the limits; the front, warnings and recommendation marked."""

    def draw(axes: Axes) -> None:
        def points(rows: Sequence[Any]) -> tuple[list[float], list[float]]:
            return [row[0] / 1e6 for row in rows], [row[1] / 1e9 for row in rows]

        def ends(row: Record) -> tuple[float, float]:
            return row["params"] / 1e6, row["memory_bytes"] / 1e9

        axes.plot(
            *points([p for p in record["points"] if not p[2]]), ".", color=GREY, ms=3, alpha=0.6, label="candidate"
        )
        axes.plot(*points([p for p in record["points"] if p[2]]), "x", color=SPLIT, ms=4, label="with a warning")
        front = [[row["params"], row["memory_bytes"]] for row in record["front"]]
        axes.plot(*points(front), "o", color=FIXED, ms=4, mfc="none", label="dominated by none")
        axes.plot(*ends(record["original"]), "s", color=INK, ms=7, label="original")
        axes.plot(*ends(record["recommended"]), "*", color=THEORY, ms=13, label="try first")
        axes.set(xlabel="parameters, millions", ylabel=f"training memory, GB, batch {record['setting']['batch']}")
        axes.set_title(f"Leaner designs of {_short(record['original']['architecture']['name'])}")
        axes.legend()

    return framed(draw)


def _mark_cliff(axes: Axes, place: float) -> None:
    axes.axvline(place, color=GREY, lw=1, ls=":")
    axes.annotate(
        "h·d = N",
        (place, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        color=GREY,
    )


def _short(name: str) -> str:
    return Path(name).name if Path(name).name != "model" else Path(name).parent.name
