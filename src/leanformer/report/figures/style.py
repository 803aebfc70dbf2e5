"""The look of every figure, and how figures are saved."""

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

INK, GREY = "#1f2430", "#8a919e"
FIXED, SPLIT, THEORY, SIMULATION = "#1b6ca8", "#d1603d", "#3a7d44", "#7a5195"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # said, or else every drawing looks for a place that is free of ticks
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8ec",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "leanformer",  # names inside the file do not change from run to run
}


class Drawing(Figure):
    """A figure that a notebook shows by itself, also where nobody imported pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.savefig(file, format="png")
        return file.getvalue()


def framed(draw: Callable[[Axes], None], width: float = 6.4, height: float = 3.8) -> Figure:
    """A figure in the style of all others."""
    with mpl.rc_context(STYLE):
        figure = Drawing(figsize=(width, height), dpi=160, layout="constrained")
        draw(figure.add_subplot())
    return figure


class Powers(LogFormatterSciNotation):
    """Labels such as 2×10⁴ as plain text. Matplotlib's own are formulas, which take ten times as long to draw."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label = super().__call__(x, pos).replace(r"$\mathdefault{", "").replace("}$", "").replace(r"\times", "×")
        base, _, exponent = label.partition("^{")
        return base + exponent.removesuffix("}").translate(RAISED)


def log_axis(axis: Axis) -> None:
    """A logarithmic axis of base 10; a plain one where nothing has a place on it, as where every κ is infinite."""
    if not math.isfinite(axis.get_minpos()):
        return
    axis.axes.set(**{"xscale" if isinstance(axis, XAxis) else "yscale": "log"})
    axis.set_major_formatter(Powers())
    axis.set_minor_formatter(Powers(labelOnlyBase=False))


def settle(figure: Figure) -> None:
    """Find the layout and the places of legends once: to find them again for every format takes most of the time."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)
    for axes in figure.axes:
        inside = axes.transAxes.inverted()
        (across, below), (left, up) = (axis.label.get_position() for axis in (axes.xaxis, axes.yaxis))
        axes.xaxis.set_label_coords(across, inside.transform((0, below))[1])
        axes.yaxis.set_label_coords(inside.transform((left, 0))[0], up)
        if (legend := axes.get_legend()) is not None:
            corner = legend.get_window_extent().p0
            legend.borderaxespad = 0
            legend.set_loc(tuple(inside.transform(corner)))


def save(figure: Figure, path: Path, suffixes: Sequence[str] = (".png", ".svg")) -> list[Path]:
    """Write a figure in several formats; returns the files. The same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(suffix) for suffix in suffixes]
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context(STYLE):
        settle(figure)
        for file in files:
            figure.savefig(file, metadata=dates.get(file.suffix))
    return files


def svg(figure: Figure) -> bytes:
    """A figure as SVG, whose words stay words; the same figure gives the same bytes."""
    file = io.BytesIO()
    with mpl.rc_context({**STYLE, "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def short_name(name: str) -> str:
    return Path(name).name if Path(name).name != "model" else Path(name).parent.name


def plain_text(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign would start a formula."""
    return text.replace("$", r"\$")
