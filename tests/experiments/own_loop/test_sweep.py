"""Sweeps around a function of one's own."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import leanformer as lf
from leanformer.experiments.sweep import read_record
from leanformer.report import sweep as report
from support.architectures import SMALL
from support.command import call
from support.own_loop import Tiny, without_training

sweep = functools.partial(lf.sweep, report=False)


def by_heads(model: nn.Module, seed: int, folder: Path) -> float:
    """More heads are better, by one point each, whatever the seed."""
    return 10 * seed + model.layers.layers[0].self_attn.num_heads + seed % 2 / 100


def test_every_combination_is_trained_and_drawn(tmp_path: Path) -> None:
    out = tmp_path / "out"
    metric = lf.Metric("accuracy", "%")
    choices: dict[str, Any] = dict(train=by_heads, model=Tiny, original=dict(heads=2), metric=metric, out=out)
    record = sweep(**choices, heads=[1, 2, 3], depth=[1, 2], seeds=3)
    assert [(cell.values["heads"], cell.values["depth"]) for cell in record.cells] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [skipped.values for skipped in record.left_out] == [dict(heads=3, depth=1), dict(heads=3, depth=2)]
    assert "embed_dim must be divisible by num_heads" in record.left_out[0].why
    one = record.cells[0]
    assert (one.score.mean, one.difference.mean, one.difference.told) == pytest.approx((11, -1, True), abs=0.01)
    assert one.params == sum(parameter.numel() for parameter in Tiny(1, 1).parameters())
    assert read_record(out) == record
    grown = sweep(**choices, heads=[4], depth=[1], seeds=3)
    assert [cell.values for cell in grown.cells][-1] == dict(heads=4, depth=1)
    assert len(grown.cells) == 5
    assert report.headings(grown) == ["heads", "depth", "params", "accuracy, %", "against the original's heads", "κ"]
    shown = call("report", str(out))
    assert (shown.returncode, (out / "sweep.png").stat().st_size > 5000) == (0, True)
    assert "Worse than with the original's heads" in shown.stdout


def test_designs_are_varied_too(tmp_path: Path) -> None:
    record = sweep(
        train=without_training, model=SMALL["gpt2"], vary=["heads=2,4", "regime=fixed,split"], seeds=1, out=tmp_path
    )
    assert [cell.architecture.stages[0].head_dim for cell in record.cells] == [8, 16, 8, 8]
    assert record.original == SMALL["gpt2"]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(), "vary must name sizes with their values, such as heads=[1, 2, 4]"),
        (dict(heads=[1, 1]), "the axis heads needs values, each of them once, got"),
        (dict(heads=[3]), "no model of this grid can be made: the model cannot be made: AssertionError"),
        (
            dict(layers=[1]),
            "no model of this grid can be made: the function that makes the model cannot be given layers=1",
        ),
        (dict(heads=[1], steps=3), "steps does not go with train or command"),
        (dict(heads=[1], train=None), "functions that make models need train"),
        (dict(heads=[1], train=None, model=None, metric="loss"), "metric needs train or command"),
    ],
)
def test_mistakes_are_refused_in_one_line(choices: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep(**{**dict(train=by_heads, model=functools.partial(Tiny, depth=1), out=tmp_path), **choices})
    assert not list(tmp_path.glob("*/*"))


def test_sweeps_of_recipes_and_own_loops_do_not_share_a_folder(tmp_path: Path) -> None:
    made = functools.partial(sweep, train=by_heads, model=functools.partial(Tiny, 1), seeds=1, out=tmp_path)
    made(heads=[1, 2])
    with pytest.raises(ValueError, match="holds the sweep of a training loop of one's own: choose another folder"):
        sweep("farthest", heads=[1, 2], out=tmp_path)
    with pytest.raises(ValueError, match="holds another sweep, over heads: choose another folder"):
        made(mlp_dim=[4], heads=[1])
