"""How the difference between arms depends on the length of the training."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.judging.verdicts import Verdict
from leanformer.report.figures.style import FIXED, INK, SIMULATION, SPLIT, THEORY, framed, plain_text

COLOURS = (FIXED, SPLIT, SIMULATION, THEORY)


def differences_by_length(record: Comparison) -> Figure:
    """Every paired difference with its interval against the share of the steps, and the margin."""
    metric, found = record.metric, _by_pair(record)

    def draw(axes: Axes) -> None:
        for place, (pair, by_share) in enumerate(found.items()):
            shares, halves = sorted(by_share), [by_share[share].difference.t for share in sorted(by_share)]
            axes.errorbar(
                [share * 1.02**place for share in shares],
                [by_share[share].difference.mean for share in shares],
                yerr=[half.half if half else 0.0 for half in halves],
                fmt="o-",
                color=COLOURS[place % len(COLOURS)],
                ms=5,
                capsize=4,
                label=plain_text(pair),
            )
        axes.axhline(0, color=INK, lw=1)
        axes.axhline(-record.margin, color=SPLIT, lw=1.2, ls="--", label=f"margin: {record.margin:g} worse")
        shares = sorted({share for by_share in found.values() for share in by_share})
        axes.set_xscale("log", base=2)
        axes.set_xticks(shares, [f"{share:.3g}" for share in shares], minor=False)
        better = "" if metric.higher_is_better else ", sign turned so that up is better"
        unit = "points" if metric.unit == "%" else metric.unit
        axes.set(xlabel="share of the steps", ylabel=plain_text(f"difference in {metric.name}, {unit}{better}"))
        axes.set_title(plain_text(f"{record.name}: differences by the length of the training, 95 % intervals"))
        axes.legend()

    return framed(draw)


def _by_pair(record: Comparison) -> dict[str, dict[float, Verdict]]:
    """Verdicts by pair of arms and share of the steps."""
    lengths: Mapping[float, list[Verdict]] = {
        **{float(share): variant.verdict.verdicts for share, variant in record.lengths.items()},
        1.0: record.verdict.verdicts,
    }
    found: dict[str, dict[float, Verdict]] = {}
    for share, verdicts in lengths.items():
        for verdict in verdicts:
            found.setdefault(f"{verdict.arm} − {verdict.against}", {})[share] = verdict
    return found
