"""Figures of a comparison: differences, learning curves, scores against parameters, κ over training."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.experiments.judging.estimates import Estimate
from leanformer.foundation.formats import counted
from leanformer.report.cells import metric_with_unit
from leanformer.report.figures.arms import colour
from leanformer.report.figures.lengths import differences_by_length
from leanformer.report.figures.style import FIXED, GREY, INK, SPLIT, framed, log_axis, plain_text
from leanformer.report.figures.tuning import sensitivity
from leanformer.training.result import Evaluation

Runs = Mapping[str, Sequence[Sequence[Evaluation]]]
"""Evaluations of each run, by arm."""
Value = Callable[[Evaluation], float]


def available(record: Comparison) -> dict[str, tuple[str, Callable[[], Figure]]]:
    """Every figure that the record has the data for, by file name: its caption, and what draws it."""
    metric, runs = record.metric.name, runs_of(record)
    found: dict[str, tuple[str, Callable[[], Figure]]] = {}
    if any(len(_scored(run, metric)) > 1 for evaluations in runs.values() for run in evaluations):
        found["learning_curves"] = (f"Held-out {metric} along training", lambda: learning_curves(record))
    if any(arm.score and arm.params for arm in record.arms.values()):
        found["score_by_params"] = (f"{metric.capitalize()} against parameters", lambda: score_by_params(record))
    if record.verdict.verdicts:
        caption = "Paired differences and their 95 % intervals"
        found = {"differences": (caption, lambda: differences(record)), **found}
    if any(sum(1 for point in run if point.kappa) > 1 for evaluations in runs.values() for run in evaluations):
        found["kappa"] = ("Condition number of the attention over training", lambda: kappa_over_training(runs))
    if record.lengths and record.verdict.verdicts:
        found["lengths"] = ("Differences by the length of the training", lambda: differences_by_length(record))
    if (tuning := record.tuning) is not None:
        for setting in tuning.plan.settings:
            caption = f"{metric.capitalize()} of every arm by {setting.name}, on the part of the samples for tuning"
            found[f"tuning_{setting.name}"] = (caption, functools.partial(sensitivity, record, tuning, setting.name))
    return found


def _scored(run: Sequence[Evaluation], metric: str) -> list[Evaluation]:
    return [point for point in run if metric in point.scores]


def runs_of(record: Comparison) -> Runs:
    return {arm: [run.evaluations for run in runs.values()] for arm, runs in record.runs.items() if runs}


def learning_curves(record: Comparison) -> Figure:
    """The metric along training: a thin line per seed, a thick one for their mean."""
    metric, runs = record.metric, runs_of(record)

    def draw(axes: Axes) -> None:
        for arm, evaluations in runs.items():
            scored = [_scored(run, metric.name) for run in evaluations]
            _lines(axes, arm, list(runs), scored, lambda point: point.scores[metric.name], fmean)
        axes.set(xlabel="optimizer steps", ylabel=plain_text(metric_with_unit(metric)))
        axes.set_title(plain_text(f"{record.name}: held-out {metric.name} along training"))
        axes.legend()

    return framed(draw)


def kappa_over_training(runs: Runs) -> Figure:
    """κ along training, the form of the paper's Fig. 2: median over layers, a line per seed and their median."""

    def draw(axes: Axes) -> None:
        for arm, evaluations in runs.items():
            measured = [[point for point in run if point.kappa] for run in evaluations]
            _lines(axes, arm, list(runs), measured, _median_kappa, median)
        log_axis(axes.yaxis)
        axes.set(xlabel="optimizer steps", ylabel="condition number κ")
        axes.set_title("κ of the attention blocks over training, median over layers")
        axes.legend()

    return framed(draw)


def _median_kappa(point: Evaluation) -> float:
    return point.kappa.median_over_layers if point.kappa else math.nan


def _lines(
    axes: Axes,
    arm: str,
    arms: Sequence[str],
    runs: Sequence[Sequence[Evaluation]],
    value: Value,
    mean: Callable[[list[float]], float],
) -> None:
    shade = colour(arm, arms)
    each = [[(point.step, value(point)) for point in run] for run in runs]
    axes.add_collection(LineCollection(each, colors=shade, linewidths=0.6, alpha=0.4))
    steps = [point.step for point in min(runs, key=len, default=[])]
    means = [mean([value(run[place]) for run in runs]) for place in range(len(steps))]
    axes.plot(steps, means, "o-", color=shade, lw=1.8, ms=3, label=plain_text(arm))


def score_by_params(record: Comparison) -> Figure:
    """Scores against parameters, the form of the paper's Fig. 3: a dot per seed, mean and 95 % interval beside it."""
    arms = {name: arm for name, arm in record.arms.items() if arm.score and arm.params}

    def draw(axes: Axes) -> None:
        counts = [arm.params or 0 for arm in arms.values()]
        beside = 0.015 * ((max(counts) - min(counts)) or max(counts))  # arms of one size stand side by side
        for place, (name, arm) in enumerate(arms.items()):
            assert arm.score is not None
            shade, params = colour(name, list(arms)), counts[place] + beside * (place - (len(arms) - 1) / 2)
            axes.plot([params] * len(arm.scores), list(arm.scores.values()), ".", color=shade, ms=5, alpha=0.4)
            axes.errorbar(
                params, arm.score.mean, _half(arm.score), fmt="o", color=shade, ms=6, capsize=4, label=_sizes(arm)
            )
        if ORIGINAL in arms and (usual := arms[ORIGINAL].score):
            axes.axhline(usual.mean, color=GREY, lw=1, ls=":")
        axes.margins(x=0.15)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k")
        axes.set(xlabel="parameters", ylabel=plain_text(metric_with_unit(record.metric)))
        axes.set_title(plain_text(f"{record.name}: {record.metric.name} against parameters; bars: 95 % over seeds"))
        axes.legend()

    return framed(draw)


def differences(record: Comparison) -> Figure:
    """Every paired difference with its interval, and the margin beyond which an arm would have lost."""
    verdict, metric = record.verdict, record.metric
    rows = [(f"{LEAN} − {against}", found.difference) for against, found in verdict.lean.items()]
    if verdict.effects:
        rows.append((f"{SHALLOW} − {ORIGINAL}", verdict.effects.depth))
    rows += [(f"{arm} − {found.against}", found.difference) for arm, found in verdict.others.items()]

    def draw(axes: Axes) -> None:
        for place, (_, found) in enumerate(reversed(rows)):
            axes.errorbar(found.mean, place, xerr=_half(found), fmt="o", color=FIXED, ms=6, capsize=4)
        axes.axvline(0, color=INK, lw=1)
        axes.axvline(-record.margin, color=SPLIT, lw=1.2, ls="--", label=f"margin: {record.margin:g} worse")
        axes.set_yticks(range(len(rows)), [plain_text(name) for name, _ in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        better = "" if metric.higher_is_better else ", sign turned so that right is better"
        unit = "points" if metric.unit == "%" else metric.unit
        axes.set(xlabel=plain_text(f"difference in {metric.name}, {unit}{better}"))
        seeds = counted(len(record.seeds), "seed")
        axes.set_title(plain_text(f"{record.name}: paired by seed, 95 % intervals over {seeds}"))
        axes.legend(loc="upper left")

    return framed(draw, height=1.4 + 0.5 * max(2, len(rows)))


def _half(estimate: Estimate) -> float:
    return estimate.t.half if estimate.t else 0.0


def _sizes(arm: ArmResult) -> str:
    if arm.architecture is None:
        sizes = ", ".join(f"{name} {value}" for name, value in arm.sizes.items())
        return plain_text(f"{arm.name}: {sizes}" if sizes else arm.name)
    heads = " ".join(str(stage.heads) for stage in arm.architecture.stages)
    return plain_text(f"{arm.name}: {counted(arm.architecture.depth, 'layer')}, {heads} heads")
