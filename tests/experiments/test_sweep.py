"""Sweeps end to end: grids, equal parameters, resuming, the record, the page and the command."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.costs.closed_forms import formula
from leanformer.experiments import recipes
from leanformer.experiments.cells import Cell, cells
from leanformer.experiments.grid import Grid
from leanformer.experiments.judging.estimates import Interval
from leanformer.experiments.overrides import axes
from leanformer.experiments.summary import summarise
from leanformer.experiments.sweep import read_record
from leanformer.experiments.sweep_records import Difference, Sweep, SweepCell
from leanformer.foundation.records.files import locked
from leanformer.report import sweep as report
from leanformer.report.figures.sweep import lines
from leanformer.training.settings import Training
from support.command import call
from support.tiny_run import recipe

sweep = partial(lf.sweep, report=False)  # pages take longer than these runs


def grid(equal_params: bool = False, **values: tuple[Any, ...]) -> Grid:
    return Grid(axes={name.replace("__", "."): chosen for name, chosen in values.items()}, equal_params=equal_params)


def sizes(cell: Cell) -> tuple[int, int, int, int]:
    (stage,) = cell.design.stages
    return stage.depth, stage.heads, stage.head_dim, stage.mlp_dim


# Grids


def test_a_grid_is_every_combination_in_order() -> None:
    found, left_out = cells(recipe(), grid(heads=(1, 2, 3), regime=("fixed", "split"), depth=(1,)))
    assert [sizes(cell) for cell in found] == [
        (1, 1, 8, 32),
        (1, 1, 16, 32),
        (1, 2, 8, 32),
        (1, 2, 8, 32),
        (1, 3, 8, 32),
    ]
    assert [skipped.values for skipped in left_out] == [{"heads": 3, "regime": "split", "depth": 1}]
    assert "heads=3 do not divide width 16" in left_out[0].why
    assert found[2].arm == found[3].arm, "one design is run once, however it is reached"


def test_groups_multiply_heads_that_fill_the_width() -> None:
    found, _ = cells(recipe(), grid(heads=(1, 4), groups=(1, 3)))
    assert [sizes(cell)[1:3] for cell in found] == [(1, 16), (3, 16), (4, 4), (12, 4)]


def test_sizes_and_settings_can_change_together() -> None:
    found, _ = cells(
        recipes.recipe("farthest"), Grid(axes={"heads": (1, 2), "regime": ("split",), "task.dim+width": (8, 32)})
    )
    assert [(cell.design.stages[0].width, sizes(cell)[1:3], dict(cell.settings)) for cell in found] == [
        (8, (1, 8), {"task.dim": 8}),
        (32, (1, 32), {"task.dim": 32}),
        (8, (2, 4), {"task.dim": 8}),
        (32, (2, 16), {"task.dim": 32}),
    ]
    assert {cell.place for cell in found} == {"task.dim-8", "task.dim-32"}


@pytest.mark.parametrize("name", ["fashion-mnist", "tinystories"])
def test_at_equal_parameters_designs_differ_by_half_a_hidden_unit_a_layer_at_most(name: str) -> None:
    chosen = recipes.recipe(name)
    assert chosen.grid is not None
    found, left_out = cells(chosen, chosen.grid)
    closed = formula(chosen.original)
    base = chosen.original.resized(depth=found[0].design.depth)
    unit = base.depth * (2 * base.stages[0].width + 1)
    for cell in found:
        over = closed.parameters(cell.design).total - closed.parameters(base).total
        assert abs(over) <= unit / 2
    assert {tuple(cell.values.values())[:2] for cell in found} >= {
        (1, "fixed"),
        (1, "split"),
        (8, "fixed"),
        (16, "split"),
    }
    assert all("more parameters than the whole original" in skipped.why for skipped in left_out)


@pytest.mark.parametrize("name", [name for name in recipes.names() if recipes.recipe(name).grid])
def test_every_recipes_grid_can_be_built(name: str) -> None:
    chosen = recipes.recipe(name)
    assert chosen.grid is not None
    found, _ = cells(chosen, chosen.grid)
    assert len(found) > len(next(iter(chosen.grid.axes.values())))
    text = recipes.description(name)
    assert f"leanformer sweep {name}" in text


def test_axes_are_read_as_they_are_written() -> None:
    assert axes(["heads=1,2", "regime=fixed,split", "training.lr=1e-3,0.01", "task.dim+width=8,16"]) == {
        "heads": (1, 2),
        "regime": ("fixed", "split"),
        "training.lr": (0.001, 0.01),
        "task.dim+width": (8, 16),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head=1,2", 'there is no axis "head"; there are depth, heads, .*, task.NAME, training.NAME'),
        ("heads", 'an axis is given with its values, as in "heads=1,2,4", got "heads"'),
        ("heads=1,,2", "heads must be whole numbers from 1 on, got 1, None, 2"),
        ("heads=1,x", "heads must be whole numbers from 1 on, got 1, x"),
        ("heads=2,2", r"the axis heads needs values, each of them once, got \[2, 2\]"),
        ("regime=both", "regime must be fixed or split, got both"),
        ("regime=split", "regime says what stays when heads change, so heads must be varied too"),
    ],
)
def test_wrong_axes_are_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grid(axes=axes([text]))


def test_axes_that_contradict_are_told() -> None:
    with pytest.raises(ValueError, match="the axis heads is given twice"):
        axes(["heads=1,2", "heads=4"])
    with pytest.raises(ValueError, match="mlp_dim cannot be varied at equal parameters"):
        Grid(axes={"mlp_dim": (8, 16)}, equal_params=True)


def test_what_cannot_be_swept_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='the recipe small names nothing to vary: give axes, such as "heads=1,2,4,8"'):
        sweep(recipe(), out=tmp_path)
    with pytest.raises(ValueError, match="no design of this grid can be built: heads=3 do not divide"):
        sweep(recipe(), vary={"heads": [3, 5], "regime": ["split"]}, out=tmp_path)
    davit = recipe(original=lf.architecture_of("davit_tiny"), lean=lf.architecture_of("davit_tiny"))
    with pytest.raises(ValueError, match="sweeps take models of one stage; davit_tiny has 4"):
        sweep(davit, vary={"heads": [1, 2]}, out=tmp_path)


# Runs


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    out = tmp_path_factory.mktemp("sweep") / "small"
    vary = {"heads": [1, 2, 4], "regime": ["fixed", "split"], "depth": [1]}
    return out, sweep(recipe(), vary=vary, out=out, seeds=2, jobs=1)


def test_the_record_has_every_cell_with_its_scores(swept: tuple[Path, Sweep]) -> None:
    out, record = swept
    assert [tuple(cell.values.values())[:2] for cell in record.cells] == [
        (heads, regime) for heads in (1, 2, 4) for regime in ("fixed", "split")
    ]
    arms = summarise(out).arms
    assert len(arms) == 5, "2 heads of 8 split the width, whichever regime they come from"
    for cell in record.cells:
        assert cell.scores == arms[cell.name].scores
        assert len(cell.scores) == 2
        assert 0 < cell.effective_rank <= cell.architecture.stages[0].head_dim
    assert read_record(out) == record == Sweep.read(out / "sweep.json")


def test_differences_are_against_the_originals_heads_seed_by_seed(swept: tuple[Path, Sweep]) -> None:
    _, record = swept
    found = {tuple(cell.values.values())[:2]: cell for cell in record.cells}
    assert found[2, "fixed"].difference is None
    assert found[2, "split"].difference is None
    pairs = [found[4, "split"].scores[seed] - found[2, "split"].scores[seed] for seed in ("0", "1")]
    assert found[4, "split"].difference.mean == pytest.approx(sum(pairs) / 2)


def test_the_same_call_trains_nothing_and_more_values_only_what_is_missing(swept: tuple[Path, Sweep]) -> None:
    out, record = swept
    trained: list[tuple[str, int]] = []
    vary = {"heads": [1, 2, 4], "regime": ["fixed", "split"], "depth": [1]}
    again = sweep(recipe(), vary=vary, out=out, seeds=2, jobs=1, planned=lambda _, runs: trained.extend(runs))
    assert not trained
    assert [cell.scores for cell in again.cells] == [cell.scores for cell in record.cells]
    more = sweep(
        recipe(), vary={**vary, "heads": [4, 8]}, out=out, seeds=2, jobs=1, planned=lambda _, runs: trained.extend(runs)
    )
    assert sorted(trained) == [(arm, seed) for arm in sorted({arm for arm, _ in trained}) for seed in (0, 1)]
    assert len(trained) == 4, "two new designs"
    assert len(more.cells) == 8, "earlier cells stay"


def test_settings_are_swept_in_folders_of_their_own(tmp_path: Path) -> None:
    record = sweep(
        "farthest",
        vary={"heads": [1, 2], "task.dim+width": [4, 8], "regime": ["split"], "training.steps": [2]},
        out=tmp_path,
        seeds=1,
        jobs=1,
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "task.dim-4_training.steps-2",
        "task.dim-8_training.steps-2",
    ]
    assert [cell.architecture.stages[0].width for cell in record.cells] == [4, 8, 4, 8]
    assert len(record.sources) == 2
    assert all(len(cell.baselines) == 2 for cell in record.cells)
    assert record.cells[0].score.t is None
    text = report.markdown(Sweep.read(tmp_path / "sweep.json"))
    assert "Without training, the error is 1.000 for the origin" in text


@pytest.mark.parametrize("file", ["plan.json", "*/seed-0/result.json"])
def test_a_damaged_place_is_not_left_out(file: str, tmp_path: Path) -> None:
    small = recipe(training=Training(steps=2, batch=8))
    found = sweep(small, vary={"heads": [2], "task.shift": [0, 1]}, seeds=1, out=tmp_path, jobs=1)
    assert len(found.cells) == 2
    spoilt = min(tmp_path.glob(f"*/{file}"))
    spoilt.write_text("{")
    with pytest.raises(ValueError, match=f"{spoilt} is damaged"):
        read_record(tmp_path)


def test_a_sweep_over_settings_grows_in_any_order(tmp_path: Path) -> None:
    trained: list[tuple[str, int]] = []

    def go(**axes: list[Any]) -> Sweep:
        trained.clear()
        vary = {name.replace("__", "."): values for name, values in axes.items()}
        return sweep("farthest", vary=vary, out=tmp_path, seeds=1, jobs=1, planned=lambda _, runs: trained.extend(runs))

    go(heads=[1, 2], groups=[1], task__points=[4, 8], training__steps=[2])
    record = go(training__steps=[2], task__points=[8], heads=[4, 1], groups=[1])
    assert trained == [("depth-1_heads-4x4_width-16_mlp-256", 0)]
    assert [(cell.values["heads"], cell.values["task.points"]) for cell in record.cells] == [
        (1, 4),
        (1, 8),
        (2, 4),
        (2, 8),
        (4, 8),
    ]


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"heads": [1, 2], "training.foo": [1, 2]}, "training has no setting foo"),
        ({"heads": [1, 2], "task.foo": [1]}, "the task farthest-point has no setting foo"),
        ({"heads": [1, 2], "task.points": [4, 1]}, "points must be a whole number of at least 2, got 1"),
        ({"heads": [1, 2], "task.dim": [16, 8]}, 'width must be point_dim 8 where positions="none", got 16'),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_trained(
    vary: dict[str, list[Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        sweep("farthest", vary=vary, out=tmp_path / "out", seeds=1, jobs=1)
    assert not (tmp_path / "out").exists()


def test_a_place_where_every_run_diverges_does_not_end_the_sweep(tmp_path: Path) -> None:
    small = replace(recipes.recipe("farthest"), training=Training(steps=4, batch=4, evaluations=1, probe=0, clip=None))
    vary = {"heads": [1, 2], "training.lr": [1e38, 0.01], "groups": [1]}
    record = sweep(small, vary=vary, out=tmp_path, seeds=1, jobs=1)
    assert [cell.values["training.lr"] for cell in record.cells] == [0.01, 0.01]
    assert [(skipped.values["heads"], "no run in" in skipped.why) for skipped in record.left_out] == [
        (1, True),
        (2, True),
    ]
    with pytest.raises(ValueError, match="is finished yet"):
        sweep(small, vary={**vary, "training.lr": [1e38]}, out=tmp_path / "all", seeds=1, jobs=1)


def test_the_record_is_made_anew_of_what_has_finished(tmp_path: Path) -> None:
    vary = {"heads": [1, 2], "groups": [1], "training.steps": [2]}
    whole = sweep("farthest", vary=vary, out=tmp_path, seeds=2, jobs=1)
    (tmp_path / "training.steps-2" / whole.cells[1].name / "seed-1" / "result.json").unlink()
    (tmp_path / "sweep.json").unlink()
    shown = call("report", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "over 1 to 2 seeds" in shown.stdout
    assert "Fewer than three seeds distinguish no number of heads from another." in shown.stdout
    assert [len(cell.scores) for cell in read_record(tmp_path).cells] == [2, 1]


# What is shown


def test_the_page_says_what_the_record_does(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    record = Sweep.read(swept[0] / "sweep.json")
    files = report.write(record, tmp_path)
    assert {file.name for file in files} == {"sweep.md", "sweep.png", "sweep.svg"}
    text = (tmp_path / "sweep.md").read_text()
    assert text.count("\n| ") == len(record.cells) + 1
    figure = lines(record)
    (axes_drawn,) = figure.axes
    assert [text.get_text() for text in axes_drawn.get_legend().get_texts()] == ["fixed", "split"]


def test_differences_that_can_be_distinguished_from_zero_are_said(swept: tuple[Path, Sweep]) -> None:
    _, record = swept

    def cell(heads: int, mean: float, low: float, high: float) -> SweepCell:
        template = record.cells[0]
        design = template.architecture.resized(heads=heads, keep="width")
        interval = Interval(low=low, high=high)
        difference = Difference(
            mean=mean, deviation=1, t=interval, bootstrap=None, seeds=3, told=low * high > 0, against="original"
        )
        return template.model_copy(
            update={"values": {"heads": heads}, "architecture": design, "difference": difference}
        )

    cells = [cell(2, 0.1, -0.2, 0.4), cell(4, 1.0, 0.5, 1.5), cell(8, -2.0, -3.0, -1.0)]
    shown = record.model_copy(update={"axes": {"heads": [2, 4, 8]}, "cells": cells, "left_out": []})
    assert shown.sentences() == [
        "worse than with the original's heads, distinguishable from zero: heads 8 (8 × 2): -2.00 [-3.00, -1.00]",
        "better than with the original's heads, distinguishable from zero: heads 4 (4 × 4): +1.00 [+0.50, +1.50]",
    ]


def test_panels_are_those_that_say_something() -> None:
    """Committed grids: each depth has its own learning rate, and not every MLP was trained with every depth."""
    results = Path(__file__).parents[2] / "results"
    drawn = lines(Sweep.read(results / "paper" / "grid-cifar10-small" / "sweep.json"))
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles == [f"mlp_dim {size}" for size in (64, 128, 256, 384, 512)]
    assert [axes.get_subplotspec().rowspan.start for axes in drawn.axes] == [0, 0, 0, 1, 1]
    (only,) = lines(Sweep.read(results / "paper" / "grid-text-short" / "sweep.json")).axes
    assert [text.get_text() for text in only.get_legend().get_texts()] == ["1", "2"]
    alone = Sweep.read(results / "sweep-farthest-length" / "sweep.json")
    assert len(lines(alone).axes) == 1


def test_a_folder_keeps_to_its_sweep_and_a_locked_one_is_not_touched(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    out, _ = swept
    with pytest.raises(ValueError, match=r"holds another sweep: axes is \['depth', 'heads', 'regime'\] there"):
        sweep(recipe(), vary={"heads": [1, 2]}, out=out, seeds=2, jobs=1)
    with locked(tmp_path / "busy", ".sweep.lock"), pytest.raises(ValueError, match="another process is working in"):
        sweep(recipe(), vary={"heads": [1, 2]}, out=tmp_path / "busy", seeds=1, jobs=1)
    assert not (tmp_path / "busy" / "sweep-plan.json").exists()


def test_the_command(tmp_path: Path) -> None:
    vary = ["--vary", "heads=1,2", "--vary", "groups=1,2", "--vary", "regime=split"]
    shown = call("sweep", "farthest", *vary, "--steps", "3", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "farthest: error ± 95 % interval over 1 seed" in shown.stdout
    assert "Without training, the error is 1.000 for the origin, 0.819 for the best multiple" in shown.stdout
    again = call("report", str(tmp_path), "--out", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "sweep.md").read_text() == (tmp_path / "sweep.md").read_text()
    both = call("report", str(tmp_path), str(tmp_path / "again"), "--out", str(tmp_path / "both"))
    assert both.returncode == 0, both.stderr
    assert {file.name for file in (tmp_path / "both").iterdir()} == {"sweeps.png", "sweeps.svg"}
    wrong = call("sweep", "farthest", "--vary", "heads=x", "--out", str(tmp_path / "wrong"))
    assert wrong.returncode == 2
    assert "heads must be whole numbers from 1 on, got x" in wrong.stderr


def test_a_model_in_the_place_of_another_is_refused(swept: tuple[Path, Sweep], tmp_path: Path) -> None:
    out = Path(shutil.copytree(swept[0], tmp_path / "copy"))
    first, second = (out / swept[1].cells[place].name / "seed-0" / "model" for place in (0, -1))
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with pytest.raises(ValueError, match=r"is not what .*result\.json says it was: put that run.s model back"):
        read_record(out)
