"""How the score of every arm depends on the settings that were tuned."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.tuning.records import Tuning
from leanformer.experiments.tuning.search import SCREENING
from leanformer.report.cells import metric_with_unit
from leanformer.report.figures.arms import colour
from leanformer.report.figures.style import GREY, framed, log_axis, plain_text

WORDS = {"lr": "peak learning rate", "weight_decay": "weight decay"}


def sensitivity(record: Comparison, tuning: Tuning, name: str) -> Figure:
    """The score by one setting: a line for the trials in full, dots for the screening, a ring around the best."""
    metric, arms = record.metric, list(tuning.best)

    def draw(axes: Axes) -> None:
        shared = tuning.shared[name]
        axes.axvline(shared, color=GREY, linestyle=":", linewidth=1, label=f"the recipe's, {shared:g}")
        for arm in arms:
            ink = colour(arm, arms)
            if screened := tuning.curve(arm, name, SCREENING):
                axes.plot(*zip(*screened, strict=True), ".", color=ink, alpha=0.35, markersize=5)
            curve = tuning.curve(arm, name)
            axes.plot(*zip(*curve, strict=True), marker="o", color=ink, markersize=4, label=arm)
            best = tuning.best[arm][name]
            axes.plot([best], [dict(curve)[best]], "o", markersize=11, markerfacecolor="none", markeredgecolor=ink)
        axes.plot([], [], ".", color=GREY, markersize=5, label="screening, with fewer steps")
        axes.set(xlabel=WORDS.get(name, name), ylabel=plain_text(metric_with_unit(metric)))
        axes.set_title(plain_text(f"{record.name}: {metric.name} on the tuning part"))
        log_axis(axes.xaxis)
        axes.legend()

    return framed(draw)
