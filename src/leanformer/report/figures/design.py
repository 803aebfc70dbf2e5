"""The figure of a design plan: parameters against memory of every candidate."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.report.figures.style import FIXED, GREY, INK, SPLIT, THEORY, framed, short_name

Record = Mapping[str, Any]


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
        axes.set_title(f"Leaner designs of {short_name(record['original']['architecture']['name'])}")
        axes.legend()

    return framed(draw)
