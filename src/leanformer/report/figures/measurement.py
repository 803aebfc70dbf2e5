"""Figures of measurements: κ by layer and by heads, ranks, and theory against simulation."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.measurement import Measurement, Ranks
from leanformer.conditioning.theory import Theory
from leanformer.report.figures.style import (
    FIXED,
    GREY,
    SIMULATION,
    SPLIT,
    THEORY,
    framed,
    log_axis,
    plain_text,
    short_name,
)


def rank_by_layer(record: Ranks) -> Figure:
    """The effective rank of W_Q W_Kᵀ of every head, layer by layer, and the head_dim that it cannot exceed."""
    layers = record.layers

    def draw(axes: Axes) -> None:
        for place, layer in enumerate(layers, start=1):
            axes.plot([place] * layer.heads, layer.effective_rank, ".", color=FIXED, ms=5, alpha=0.5)
        places = range(1, len(layers) + 1)
        axes.plot(places, [layer.head_dim for layer in layers], "_", color=SPLIT, ms=12, mew=2, label="head_dim")
        axes.plot([], [], ".", color=FIXED, label="a head")
        axes.set_ylim(0)
        axes.set(xlabel="layer", ylabel="effective rank of W_Q W_Kᵀ")
        axes.set_title(plain_text(f"{short_name(record.model)}, {record.weights}: directions that each head uses"))
        axes.legend()

    return framed(draw)


def kappa_by_layer(record: Measurement) -> Figure:
    """κ of each layer: median, quartiles and maximum over samples, the Gaussian prediction beside it."""
    kappas = [layer.kappa for layer in record.layers]

    def draw(axes: Axes) -> None:
        places = list(range(1, len(kappas) + 1))
        low, high = [kappa.lower_quartile for kappa in kappas], [kappa.upper_quartile for kappa in kappas]
        axes.fill_between(places, low, high, color=FIXED, alpha=0.2, lw=0)
        axes.plot(places, [kappa.median for kappa in kappas], "o-", color=FIXED, ms=4, label="median and quartiles")
        axes.plot(places, [kappa.max for kappa in kappas], "^", color=FIXED, ms=3, alpha=0.5, label="maximum")
        axes.plot(places, [layer.gaussian for layer in record.layers], "--", color=THEORY, label="Gaussian block")
        log_axis(axes.yaxis)
        axes.set_xticks(places if len(places) <= 24 else places[::4])
        axes.set(xlabel="layer", ylabel="condition number κ")
        axes.set_title(plain_text(f"Attention of {short_name(record.model)} ({record.weights})"))
        axes.legend()

    return framed(draw)


def kappa_by_heads(record: HeadsMeasurement) -> Figure:
    """κ against the number of heads, in both regimes, with the Gaussian prediction and the cliff."""

    def draw(axes: Axes) -> None:
        for regime, colour, words in (("fixed", FIXED, "head_dim kept"), ("split", SPLIT, "width kept")):
            rows = [row for row in record.rows if row.regime == regime]
            if not rows:
                continue
            heads = [row.heads for row in rows]
            low, high = [row.lowest_layer for row in rows], [row.highest_layer for row in rows]
            axes.fill_between(heads, low, high, color=colour, alpha=0.15, lw=0)
            axes.plot(heads, [row.kappa for row in rows], "o-", color=colour, ms=4, label=f"{regime}: {words}")
            gaussian = [row.gaussian for row in rows]
            axes.plot(heads, gaussian, "--", color=colour, lw=1, label=f"{regime}, Gaussian block")
        fixed = next((row for row in record.rows if row.regime == "fixed" and row.head_dim), None)
        if fixed is not None and fixed.head_dim:
            _mark_cliff(axes, fixed.tokens / fixed.head_dim)
        log_axis(axes.yaxis)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel="heads", ylabel="condition number κ, median over layers")
        depth = "1 layer" if record.depth == 1 else f"{record.depth} layers"
        axes.set_title(plain_text(f"{short_name(record.model)}, {depth} ({record.weights}); band: layers"))
        axes.legend()

    return framed(draw)


def theory_against_simulation(record: Theory) -> Figure:
    """Theorem 3.2, its finite-size form and exact sampling as heads are added, through the cliff where h·d = N."""
    rows, curve = record.rows, record.curve

    def draw(axes: Axes) -> None:
        columns = [row.columns for row in rows]
        edge = [min(value, 1e9) for value in curve.edge]
        low, high = ([row.quartiles[side] for row in rows] for side in (0, 1))
        axes.fill_between(columns, low, high, color=SIMULATION, alpha=0.2, lw=0)
        medians = [row.median for row in rows]
        axes.plot(columns, medians, "o", color=SIMULATION, ms=4, label="sampled median, quartiles")
        axes.plot(curve.columns, edge, "-", color=GREY, lw=1, label="Theorem 3.2 (asymptotic)")
        axes.plot(curve.columns, curve.expected, "-", color=THEORY, label="finite size, exp E log κ")
        _mark_cliff(axes, record.tokens)
        log_axis(axes.yaxis)
        log_axis(axes.xaxis)
        axes.set_ylim(1, 2 * max(*high, *curve.expected))
        axes.set(xlabel="columns h·d", ylabel="condition number κ")
        axes.set_title(plain_text(f"Gaussian blocks: {record.tokens} tokens, heads of {record.head_dim}"))
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
