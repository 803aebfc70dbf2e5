"""What a finished run keeps: its model, and what its result can be made from again; more if it is asked to."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from leanformer.models.weights import from_pretrained
from leanformer.training.checkpoints import Checkpoints
from leanformer.training.loop import train
from leanformer.training.result import Result
from support import tiny_run as trained


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def made_again(folder: Path) -> tuple[Result, list[int]]:
    """The result, and the steps that were taken for it."""
    steps: list[int] = []
    return train(folder, progress=lambda step, loss: steps.append(step)), steps


@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}, {"precision": "bfloat16"}], ids=str)
def test_a_finished_run_keeps_weights_and_no_optimizer(settings: dict[str, Any], tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=9, **settings)
    result = train(folder)
    kept = "average" if "ema" in settings else "model"
    assert files(folder / "checkpoints") == {
        f"step-00000009/{name}" for name in (f"{kept}.safetensors", "state.json", "SHA256SUMS")
    }
    weights = {name: tensor.clone() for name, tensor in from_pretrained(folder).state_dict().items()}
    (folder / "result.json").write_text("{")
    shutil.rmtree(folder / "model")
    again, steps = made_again(folder)
    assert again == result
    assert steps == [], "nothing was trained again"
    assert all(torch.equal(tensor, weights[name]) for name, tensor in from_pretrained(folder).state_dict().items())


def test_without_its_last_checkpoint_it_is_trained_again(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=6)
    result = train(folder)
    (folder / "result.json").unlink()
    (folder / "checkpoints" / "step-00000006" / "model.safetensors").write_bytes(b"")
    again, steps = made_again(folder)
    assert again == result
    assert steps[0] == 1


def test_all_checkpoints_are_kept_if_asked(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=9, keep_checkpoints=True)
    result = train(folder)
    checkpoints = Checkpoints(folder / "checkpoints")
    assert checkpoints.steps()[-2:] == [6, 9]
    assert all((checkpoints.path(step) / "optimizer.safetensors").is_file() for step in checkpoints.steps())
    (folder / "result.json").unlink()  # as in folders of 0.1, whose last checkpoint has an optimizer
    assert made_again(folder) == (result, [])
    with pytest.raises(ValueError, match="keep_checkpoints must be true or false, got 1"):
        trained.training(keep_checkpoints=1)


def test_a_run_that_stops_early_keeps_what_it_needs(tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def stop(step: int, loss: float) -> None:
        if step == 7:
            raise EnoughError

    whole = train(trained.described(tmp_path / "whole", steps=9))
    folder = trained.described(tmp_path / "cut", steps=9)
    with pytest.raises(EnoughError):
        train(folder, progress=stop)
    assert "step-00000006/optimizer.safetensors" in files(folder / "checkpoints")
    assert train(folder) == whole


def test_its_card_may_be_changed(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=2)
    train(folder)
    assert "lf.from_pretrained" in (folder / "model" / "README.md").read_text()
    (folder / "model" / "README.md").write_text("Our digits.")
    from_pretrained(folder)


def test_it_takes_a_fraction_of_the_space(tmp_path: Path) -> None:
    sizes = {}
    for asked in (False, True):
        folder = trained.described(tmp_path / str(asked), steps=9, keep_checkpoints=asked)
        train(folder)
        sizes[asked] = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    assert sizes[False] < 0.35 * sizes[True]


def test_others_may_read_what_a_run_wrote_as_any_new_file(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=2, evaluations=1, save_every=None)
    mask = os.umask(0o027)
    try:
        train(folder)
    finally:
        os.umask(mask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*.safetensors")}
    assert modes == dict.fromkeys(("model.safetensors", "outcomes.safetensors"), 0o640)
