"""Figures of measurements: κ by layer and by heads, ranks, and theory against simulation."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.records.files import number
from leanformer.report.figures.style import FIXED, GREY, SIMULATION, SPLIT, THEORY, framed, short_name

Record = Mapping[str, Any]


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
        axes.set_title(f"{short_name(record['model'])}, {record['weights']}: directions that each head uses")
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
        axes.set_title(f"Attention of {short_name(record['model'])} ({record['weights']})")
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
        axes.set_title(f"{short_name(record['model'])}, {record['depth']} layers ({record['weights']}); band: layers")
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
