"""A comparison of which no run has a result says why, each reason once."""

from pathlib import Path

import pytest
from torch import nn

import leanformer as lf
from leanformer.experiments.failing import nothing_finished
from support.tiny_run import recipe, training

RUNS = [(arm, seed) for arm in ("original", "lean") for seed in (0, 1)]


def refuse(model: nn.Module, seed: int, folder: Path) -> float:
    raise ValueError("no device")


def refuse_in_two_ways(model: nn.Module, seed: int, folder: Path) -> float:
    if folder.parent.name == "lean":
        raise KeyError("missing")
    raise ValueError(f"no device {seed}")


def said(failures: dict[tuple[str, int], str]) -> str:
    return str(nothing_finished(Path("out"), RUNS, failures))


def test_nothing_has_failed() -> None:
    assert said({}) == "no run in out is finished yet"


def test_some_have_failed() -> None:
    assert said({("lean", 1): "lean, seed 1: too slow"}) == (
        "no run in out is finished yet: 1 of 4 runs (2 arms × 2 seeds) failed: too slow"
    )


def test_several_reasons_are_counted_by_arms_and_seeds() -> None:
    failures = {
        run: f"{run[0]}, seed {run[1]}: " + ("slow" if run == RUNS[0] else f"no memory at {run[1]}") for run in RUNS
    }
    assert said(failures) == (
        "no run in out is finished: all 4 runs (2 arms × 2 seeds) failed; 1 run (original × 1 seed): slow; "
        "3 runs (of 2 arms): no memory at 1"
    )
    assert said({run: f"reason {'abcd'[number]}" for number, run in enumerate(RUNS)}).endswith("; and 1 other reason")


def test_a_recipe_of_which_every_run_diverges(tmp_path: Path) -> None:
    diverging = recipe(training=training(steps=4, lr=1e30, clip=None, evaluations=1, save_every=None))
    with pytest.raises(ValueError) as refused:
        lf.compare(diverging, out=tmp_path, seeds=2, jobs=1, progress=False)
    message = str(refused.value)
    assert message.startswith(f"no run in {tmp_path} is finished: all 6 runs (3 arms × 2 seeds) failed: ")
    assert message.count("A lower lr") == 1


@pytest.mark.parametrize(("train", "times"), [(refuse, 1), (refuse_in_two_ways, 1)])
def test_a_training_loop_of_which_every_run_fails(train, times: int, tmp_path: Path) -> None:
    sizes = {"original": {"depth": 2}, "lean": {"depth": 1}, "arms": ["original", "lean"]}
    with pytest.raises(ValueError) as refused:
        lf.compare(train=train, model="vit_tiny_patch16_224", **sizes, seeds=2, out=tmp_path, jobs=1, progress=False)
    message = str(refused.value)
    assert message.startswith(f"no run in {tmp_path} is finished: all 4 runs (2 arms × 2 seeds) failed")
    assert message.count("no device") == times
    assert "(original/seed-0/traceback.txt has the traceback)" in message
    if train is refuse_in_two_ways:
        assert "2 runs (lean × 2 seeds): KeyError" in message
