"""How figures are drawn: in the same time for many runs as for few, with the layout found once."""

from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leanformer.report.figures.comparison import kappa_over_training
from leanformer.report.figures.style import framed, log_axis, save
from leanformer.training.result import Evaluation


def evaluations(seed: int) -> list[Evaluation]:
    kappa = {"mean_over_layers": 5.0, "layers": []}
    return [
        Evaluation.model_validate({"step": step, "kappa": {**kappa, "median_over_layers": 100.0 * (1 + seed + step)}})
        for step in range(10)
    ]


def drawn(axes: Axes) -> None:
    axes.plot([1, 2, 3], [5, 50, 30000], label="a line")
    log_axis(axes.yaxis)
    axes.set(xlabel="below", ylabel="left")
    axes.set_title("a title")
    axes.legend()


def test_a_figure_of_many_runs_has_no_more_parts_than_one_of_few() -> None:
    few, many = (kappa_over_training({"lean": [evaluations(seed) for seed in range(count)]}) for count in (1, 200))
    assert len(few.axes[0].get_children()) == len(many.axes[0].get_children())
    assert many.axes[0].dataLim.y1 >= 100 * (1 + 199 + 9), "the lines of all seeds are in the picture"


def test_the_layout_is_found_once_for_all_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draws, draw = [], Figure.draw

    def counted(self: Figure, renderer: object) -> None:
        draws.append(self.get_layout_engine() is not None)
        draw(self, renderer)

    monkeypatch.setattr(Figure, "draw", counted)
    save(framed(drawn), tmp_path / "figure", (".png", ".svg", ".pdf"))
    assert draws == [True, False, False, False]


def test_a_settled_figure_looks_as_it_did(tmp_path: Path) -> None:
    """What a layout engine finds at every drawing is where `save` has fixed it."""
    loose, fixed = framed(drawn), framed(drawn)
    loose.draw_without_rendering()
    save(fixed, tmp_path / "figure", (".png",))
    for ours, theirs in zip(_places(fixed.axes[0]), _places(loose.axes[0]), strict=True):
        assert ours == pytest.approx(theirs, abs=0.6), "in pixels"


def _places(axes: Axes) -> list[tuple[float, float, float, float]]:
    legend = axes.get_legend()
    assert legend is not None
    parts = [axes, axes.xaxis.label, axes.yaxis.label, legend]
    return [part.get_window_extent().extents.tolist() for part in parts]


def test_labels_of_powers_are_plain_text() -> None:
    figure = framed(drawn)
    figure.draw_without_rendering()
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert "10²" in shown
    assert not [label for label in shown if "$" in label]
    formatter = figure.axes[0].yaxis.get_major_formatter()
    assert [formatter(value) for value in (0.001, 1.0, 1e12)] == ["10⁻³", "10⁰", "10¹²"]
