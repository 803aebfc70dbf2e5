"""What a design is counted to cost and the time it takes, both divided by the original's."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.costs.speed import Bench, Speed
from leanformer.report.figures.style import FIXED, GREY, INK, STYLE, Drawing, plain_text


def ratios(record: Bench, names: Mapping[str, str], title: str) -> Figure:
    """A panel for each design: counts as rings, times as dots with their intervals; left of 1 is less."""
    others = record.designs[1:]
    with mpl.rc_context(STYLE):
        drawing = Drawing(figsize=(2.6 + 3.8 * len(others), 3.9), dpi=160, layout="constrained")
        drawing.suptitle(plain_text(title), fontsize=9, color=INK, x=0.01, ha="left")
        panels = drawing.subplots(1, len(others), sharey=True, sharex=True, squeeze=False)[0]
        for axes, design in zip(panels, others, strict=True):
            _panel(axes, record, design, names)
        panels[0].invert_yaxis()
        panels[0].set_xlim(left=0)  # of all panels, whose axes are shared
        drawing.supxlabel("divided by the original's: rings are counts, dots are times", fontsize=9, color=INK)
    return drawing


def _panel(axes: Axes, record: Bench, design: Speed, names: Mapping[str, str]) -> None:
    shares = record.shares(design)
    timed = [(names[one.workload], one.ratio) for one in design.timed if one.ratio is not None]
    axes.axvline(1.0, color=INK, ls=":", lw=1.2)
    axes.plot(list(shares.values()), range(len(shares)), "o", color=GREY, mfc="none", ms=6)
    for place, (_, ratio) in enumerate(timed, len(shares)):
        axes.plot([ratio.low, ratio.high], [place, place], color=FIXED, lw=2)
        axes.plot([ratio.mean], [place], "o", color=FIXED, ms=5)
    axes.set_yticks(range(len(shares) + len(timed)), [*shares, *(name for name, _ in timed)])
    axes.set_title(plain_text(design.name), fontsize=9)
