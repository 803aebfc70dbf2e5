"""The figure of a design plan: parameters against memory of every candidate."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.designing.record import CandidateRecord, DesignRecord
from leanformer.report.figures.style import FIXED, GREY, INK, SPLIT, THEORY, framed, plain_text, short_name


def pareto(record: DesignRecord) -> Figure:
    """Parameters against memory of every candidate within the limits; the front, warnings and recommendation marked."""
    plain = [(params, memory) for params, memory, warned in record.points if not warned]
    warned = [(params, memory) for params, memory, warned in record.points if warned]

    def draw(axes: Axes) -> None:
        axes.plot(*_places(plain), ".", color=GREY, ms=3, alpha=0.6, label="candidate")
        axes.plot(*_places(warned), "x", color=SPLIT, ms=4, label="with a warning")
        axes.plot(*_places(map(_costs, record.front)), "o", color=FIXED, ms=4, mfc="none", label="dominated by none")
        axes.plot(*_places([_costs(record.original)]), "s", color=INK, ms=7, label="original")
        axes.plot(*_places([_costs(record.recommended)]), "*", color=THEORY, ms=13, label="try first")
        axes.set(xlabel="parameters, millions", ylabel=f"training memory, GB, batch {record.setting.batch}")
        axes.set_title(plain_text(f"Leaner designs of {short_name(record.original.architecture.name)}"))
        axes.legend()

    return framed(draw)


def _costs(candidate: CandidateRecord) -> tuple[int, int]:
    return candidate.params, candidate.memory_bytes


def _places(costs: Iterable[tuple[int, int]]) -> tuple[list[float], list[float]]:
    listed = list(costs)
    return [params / 1e6 for params, _ in listed], [memory / 1e9 for _, memory in listed]
