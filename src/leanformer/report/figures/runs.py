"""Figures of single runs and of GLUE: the score along a run, κ along it, scores by task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.experiments.glue import Glue
from leanformer.report.cells import metric_with_unit
from leanformer.report.figures.arms import colour
from leanformer.report.figures.style import FIXED, framed, log_axis, plain_text
from leanformer.training.result import Result


def of_run(record: Result) -> dict[str, Callable[[], Figure]]:
    """The figures that a run has the data for, by name."""
    found = {"learning_curve": lambda: learning_curve(record)}
    if any(point.kappa for point in record.evaluations):
        found["kappa"] = lambda: kappa(record)
    return found


def learning_curve(record: Result) -> Figure:
    """The metric at every evaluation."""
    scores = [point.scores.get(record.metric.name, math.nan) for point in record.evaluations]
    return _along(record, scores, metric_with_unit(record.metric))


def kappa(record: Result) -> Figure:
    """κ at every evaluation, the median over layers."""
    medians = [point.kappa.median_over_layers if point.kappa else math.nan for point in record.evaluations]
    return _along(record, medians, "condition number κ", logarithmic=True)


def _along(record: Result, values: Sequence[float], label: str, logarithmic: bool = False) -> Figure:
    def draw(axes: Axes) -> None:
        axes.plot([point.step for point in record.evaluations], values, "o-", color=FIXED, ms=4)
        if logarithmic:
            log_axis(axes.yaxis)
        axes.set(xlabel="optimizer steps", ylabel=plain_text(label))
        axes.set_title(plain_text(f"{record.name}, seed {record.seed}"))

    return framed(draw)


def glue_scores(record: Glue) -> Figure:
    """Every task's score by arm, with 95 % intervals over seeds."""
    arms = list(record.params)

    def draw(axes: Axes) -> None:
        for number, arm in enumerate(arms):
            shift = 0.12 * (number - (len(arms) - 1) / 2)
            rows = [
                (place, task.arms[arm].score) for place, task in enumerate(record.tasks.values()) if arm in task.arms
            ]
            found = [(place + shift, score) for place, score in rows if score is not None]
            axes.errorbar(
                [place for place, _ in found],
                [score.mean for _, score in found],
                [score.t.half if score.t else 0.0 for _, score in found],
                fmt="o",
                color=colour(arm, arms),
                ms=5,
                capsize=3,
                label=plain_text(arm),
            )
        axes.set_xticks(range(len(record.tasks)), list(record.tasks))
        axes.set(ylabel="score, %")
        axes.set_title("GLUE, validation; bars: 95 % over seeds")
        axes.legend()

    return framed(draw)
