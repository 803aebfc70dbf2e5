"""`lf.measure`, however the model and its inputs are given."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer.models import families
from support import tiny_run
from support.architectures import SMALL

DESIGN = SMALL["vit"]


def built() -> nn.Module:
    torch.manual_seed(0)
    return families.build(DESIGN)


def test_a_model_is_the_same_by_module_by_folder_and_by_architecture(tmp_path: Path) -> None:
    model = built()
    lf.save_pretrained(model, tmp_path / "saved")
    by_folder = lf.measure(tmp_path / "saved", batch=2)
    by_module = lf.measure(model, batch=2)
    by_architecture = lf.measure(DESIGN, batch=2)
    assert by_folder.layers == by_module.layers == by_architecture.layers
    assert (by_folder.weights, by_module.weights, by_architecture.weights) == (
        "as saved",
        "as given",
        "initial, seed 0",
    )
    assert by_module.model == type(model).__name__
    other = lf.measure(DESIGN, batch=2, checkpoint=tmp_path / "saved", seed=1)
    assert [layer.columns for layer in other.layers] == [layer.columns for layer in by_folder.layers]


def test_a_batch_of_ones_own_gives_every_sample() -> None:
    model, images = built(), torch.randn(3, 3, 32, 32)
    seen = lf.measure(model, images)
    assert isinstance(seen, lf.Probe)
    assert len(seen.layers[0].values.kappa) == 3
    assert repr(seen).startswith("Probe(2 layers: κ ")
    assert len(seen.to_frame()) == 2
    assert "a batch of your own" in (seen._repr_html_() or "")
    assert seen.plot().axes
    by_name = lf.measure(DESIGN, images)
    assert by_name.inputs == "a batch of your own"


def test_another_precision_leaves_the_module_as_it_was() -> None:
    model = built()
    exact = lf.measure(model, torch.randn(1, 3, 32, 32), dtype="float64")
    assert isinstance(exact, lf.Measurement)
    assert exact.weights == "as given, in float64"
    assert next(model.parameters()).dtype == torch.float32


def test_heads_and_ranks(tmp_path: Path) -> None:
    heads = lf.measure(DESIGN, batch=1, heads=[2, 4], depth=1, out=tmp_path)
    assert isinstance(heads, lf.HeadsMeasurement)
    assert {(row.regime, row.heads) for row in heads.rows} == {(r, h) for r in ("fixed", "split") for h in (2, 4)}
    assert lf.HeadsMeasurement.read(tmp_path / "kappa_by_heads.json") == heads
    ranks = lf.measure(built(), rank=True, out=tmp_path)
    assert isinstance(ranks, lf.Ranks)
    assert lf.Ranks.read(tmp_path / "rank_by_layer.json") == ranks
    assert len(ranks.to_frame()) == 2 * 4
    assert {file.name for file in tmp_path.iterdir()} == {
        f"{name}.{suffix}" for name in ("kappa_by_heads", "rank_by_layer") for suffix in ("json", "png", "svg")
    }


def test_a_run_is_measured_on_its_own_held_out_samples(tmp_path: Path) -> None:
    folder = tiny_run.described(tmp_path / "run", steps=2, evaluations=1)
    lf.train(folder)
    assert lf.measure(folder, batch=2).inputs == "2 held-out samples of digits, embedded in scikit-learn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(model="gpt2", depth=2), "^depth goes with heads$"),
        (
            dict(model="gpt2", rank=True, heads=2),
            "^rank reads the weights alone: it takes no heads, depth, projections",
        ),
        (dict(model="gpt2", heads=2, dtype="float64"), "^heads measures at initialisation: it takes no checkpoint"),
        (
            dict(model="gpt2", heads="0,2"),
            '^heads takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "0,2"$',
        ),
        (dict(model=nn.Linear(2, 2), heads=2), "^heads builds the model again: give its name or its architecture"),
        (dict(model=nn.Linear(2, 2)), "^Linear belongs to no known family, .*: give a batch of your own$"),
        (
            dict(model=nn.Linear(2, 2), batch=torch.ones(1, 2), text="x"),
            "^a batch of your own leaves no choice of images",
        ),
        (dict(model="gpt2", mask=torch.ones(1, 2)), "^mask goes with a module and a batch of your own$"),
        (
            dict(model="gpt2", out="/proc/nothing"),
            "^/proc/nothing cannot be written to: .*; name another folder by out$",
        ),
        (dict(model="gtp2"), "did you mean gpt2"),
    ],
)
def test_errors_name_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lf.measure(**arguments)
