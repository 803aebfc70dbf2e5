"""Figures of a comparison: learning curves, scores against parameters, κ over training, differences. Records only."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.records.files import number
from leanformer.report.figures.style import FIXED, GREY, INK, SIMULATION, SPLIT, THEORY, framed

Record = Mapping[str, Any]
Runs = Mapping[str, Sequence[Sequence[Record]]]
"""Evaluations of each run, by arm."""

COLOURS = {"original": INK, "lean": FIXED, "shallow": SPLIT, "wide": SIMULATION}
MORE = (THEORY, "#b5838d", "#6b705c", "#e9a23b")


def colour(arm: str, arms: Sequence[str]) -> str:
    others = [name for name in arms if name not in COLOURS]
    return COLOURS.get(arm) or MORE[others.index(arm) % len(MORE)]


def runs_of(record: Record) -> Runs:
    return {arm: [run["evaluations"] for run in runs.values()] for arm, runs in record["runs"].items() if runs}


def learning_curves(record: Record) -> Figure:
    """The metric along training: a thin line per seed, a thick one for their mean."""
    metric, runs = record["metric"], runs_of(record)

    def draw(axes: Axes) -> None:
        for arm, evaluations in runs.items():
            _lines(axes, arm, list(runs), evaluations, lambda point: point.get(metric["name"], math.nan), fmean)
        axes.set(xlabel="optimizer steps", ylabel=_named(metric))
        axes.set_title(f"{record['name']}: held-out {metric['name']} along training")
        axes.legend()

    return framed(draw)


def kappa_over_training(runs: Runs) -> Figure:
    """κ along training, the form of the paper's Fig. 2: median over layers, a line per seed and their median."""

    def draw(axes: Axes) -> None:
        for arm, evaluations in runs.items():
            measured = [
                [point["kappa"] | {"step": point["step"]} for point in run if "kappa" in point] for run in evaluations
            ]
            _lines(axes, arm, list(runs), measured, lambda point: number(point["median_over_layers"]), median)
        axes.set_yscale("log")
        axes.set(xlabel="optimizer steps", ylabel="condition number κ")
        axes.set_title("κ of the attention blocks over training, median over layers")
        axes.legend()

    return framed(draw)


def _lines(axes: Axes, arm: str, arms: Sequence[str], runs: Sequence[Sequence[Record]], value: Any, mean: Any) -> None:
    shade = colour(arm, arms)
    for run in runs:
        axes.plot([point["step"] for point in run], [value(point) for point in run], color=shade, lw=0.6, alpha=0.4)
    steps = [point["step"] for point in min(runs, key=len, default=[])]
    means = [mean([value(run[place]) for run in runs]) for place in range(len(steps))]
    axes.plot(steps, means, "o-", color=shade, lw=1.8, ms=3, label=arm)


def score_by_params(record: Record) -> Figure:
    """Scores against parameters, the form of the paper's Fig. 3: a dot per seed, mean and 95 % interval beside it."""
    metric = record["metric"]
    arms = {name: arm for name, arm in record["arms"].items() if arm["score"]}

    def draw(axes: Axes) -> None:
        counts = [arm["params"] for arm in arms.values()]
        beside = 0.015 * ((max(counts) - min(counts)) or max(counts))  # arms of one size stand side by side
        for place, (name, arm) in enumerate(arms.items()):
            shade, params = colour(name, list(arms)), arm["params"] + beside * (place - (len(arms) - 1) / 2)
            axes.plot([params] * len(arm["scores"]), list(arm["scores"].values()), ".", color=shade, ms=5, alpha=0.4)
            interval = arm["score"]["t"]
            half = (interval["high"] - interval["low"]) / 2 if interval else 0
            axes.errorbar(params, arm["score"]["mean"], half, fmt="o", color=shade, ms=6, capsize=4, label=_sizes(arm))
        if "original" in arms:
            axes.axhline(arms["original"]["score"]["mean"], color=GREY, lw=1, ls=":")
        axes.margins(x=0.15)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k")
        axes.set(xlabel="parameters", ylabel=_named(metric))
        axes.set_title(f"{record['name']}: {metric['name']} against parameters; bars: 95 % over seeds")
        axes.legend()

    return framed(draw)


def differences(record: Record) -> Figure:
    """Every paired difference with its interval, and the margin beyond which an arm would have lost."""
    verdict, metric = record["verdict"], record["metric"]
    rows: list[tuple[str, Record]] = [
        (f"lean − {against}", found["difference"]) for against, found in verdict["lean"].items()
    ]
    if verdict["effects"]:
        rows.append(("shallow − original", verdict["effects"]["depth"]))
    rows += [(f"{arm} − original", found["difference"]) for arm, found in verdict["others"].items()]

    def draw(axes: Axes) -> None:
        for place, (_, found) in enumerate(reversed(rows)):
            half = (found["t"]["high"] - found["t"]["low"]) / 2 if found["t"] else 0
            axes.errorbar(found["mean"], place, xerr=half, fmt="o", color=FIXED, ms=6, capsize=4)
        axes.axvline(0, color=INK, lw=1)
        axes.axvline(-record["margin"], color=SPLIT, lw=1.2, ls="--", label=f"margin: {record['margin']:g} worse")
        axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        better = "" if metric["higher_is_better"] else ", sign turned so that right is better"
        unit = "points" if metric["unit"] == "%" else metric["unit"]
        axes.set(xlabel=f"difference in {metric['name']}, {unit}{better}")
        axes.set_title(f"{record['name']}: paired by seed, 95 % intervals over {len(record['seeds'])} seeds")
        axes.legend(loc="upper left")

    return framed(draw, height=1.4 + 0.5 * max(2, len(rows)))


def _named(metric: Record) -> str:
    return f"{metric['name']}, {metric['unit']}" if metric["unit"] else metric["name"]


def _sizes(arm: Record) -> str:
    stages = arm["architecture"]["stages"]
    depth = sum(stage["depth"] for stage in stages)
    heads = " ".join(str(stage["heads"]) for stage in stages)
    return f"{arm['name']}: {depth} layers, {heads} heads"
