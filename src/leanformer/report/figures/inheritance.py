"""The figure of an inheritance: the influence of every layer, and which of them stay."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.inheriting.record import Inheritance
from leanformer.report.figures.style import FIXED, GREY, framed, log_axis, plain_text, short_name


def influence_by_layer(record: Inheritance) -> Figure:
    def draw(axes: Axes) -> None:
        for kept, colour, label in ((True, FIXED, "stays"), (False, GREY, "removed")):
            heights = {row.layer: row.influence or 0.0 for row in record.scores if row.kept == kept}
            if heights:
                axes.bar(list(heights), list(heights.values()), color=colour, label=label)
        axes.set_axisbelow(True)
        log_axis(axes.yaxis)
        axes.set_xticks(range(0, len(record.scores), 1 if len(record.scores) <= 24 else 4))
        axes.set(xlabel="layer", ylabel="block influence, 1 − cos(input, output)")
        axes.set_title(plain_text(f"{short_name(record.model)}: layers by the rule {record.rule}"))
        axes.legend()

    return framed(draw)
