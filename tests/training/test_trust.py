"""What a run folder says of itself is checked: foreign checkpoints, changed results, leftovers of kills."""

import json
import shutil
from pathlib import Path

import pytest

from leanformer.experiments.comparison import compare, summarise
from leanformer.training.checkpoints import Checkpoints
from leanformer.training.loop import train
from leanformer.training.result import Result, is_finished
from support import tiny_run as trained


def stopped_at(folder: Path, step: int, **settings: object) -> Path:
    """A run that was interrupted after so many steps."""

    class EnoughError(Exception):
        pass

    def stop(done: int, loss: float) -> None:
        if done == step:
            raise EnoughError

    trained.described(folder, **settings)
    with pytest.raises(EnoughError):
        train(folder, progress=stop)
    return folder


def test_a_checkpoint_of_another_seed_is_not_used(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12))
    folder, other = (stopped_at(tmp_path / str(seed), 8, steps=12, seed=seed) for seed in (0, 1))
    newest = Checkpoints(folder / "checkpoints").steps()[-1]
    shutil.rmtree(folder / "checkpoints" / f"step-{newest:08d}")
    shutil.copytree(other / "checkpoints" / f"step-{newest:08d}", folder / "checkpoints" / f"step-{newest:08d}")
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "is damaged (it is of another run: seed is 1 there and 0 here): using the checkpoint before it" in said[0]


def test_a_checkpoint_of_another_model_or_without_a_part_is_not_used(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12))
    folder = stopped_at(tmp_path / "cut", 8, steps=12)
    path = Checkpoints(folder / "checkpoints").path(Checkpoints(folder / "checkpoints").steps()[-1])
    sums = [line for line in (path / "SHA256SUMS").read_text().splitlines(True) if "optimizer" not in line]
    (path / "optimizer.safetensors").unlink()
    (path / "SHA256SUMS").write_text("".join(sums))
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "is damaged" in said[0]


def test_a_result_that_was_changed_is_found_and_made_again(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=6)
    whole = train(folder)
    written = json.loads((folder / "result.json").read_text())
    written["final"]["accuracy"] = 99.0
    (folder / "result.json").write_text(json.dumps(written))
    assert not is_finished(folder)
    with pytest.raises(ValueError, match=r"result.json is damaged: .*the final accuracy is 99.0"):
        Result.read(folder / "result.json")
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "training" in said[0]
    assert "makes it from the last checkpoint" in said[0]
    assert Result.read(folder / "result.json") == whole


def test_a_result_of_0_1_must_agree_with_its_last_evaluation() -> None:
    path = Path(__file__).parents[1] / "fixtures" / "v0.1" / "comparison" / "lean" / "seed-0" / "result.json"
    written = json.loads(path.read_text())
    Result.parse(written, "here")
    written["final"]["accuracy"] = 99.0
    with pytest.raises(ValueError, match=r"here is damaged: .*the final accuracy is 99.0, the last evaluation says"):
        Result.parse(written, "here")


def test_a_comparison_trains_a_run_again_whose_result_is_damaged(tmp_path: Path) -> None:
    first = compare(trained.recipe(), arms=["original", "lean"], seeds=1, out=tmp_path, jobs=1)
    (tmp_path / "lean" / "seed-0" / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result.json is damaged: .* in line 1, column 2; training .* again makes it"):
        summarise(tmp_path)
    again = compare(trained.recipe(), arms=["original", "lean"], seeds=1, out=tmp_path, jobs=1)
    assert {arm: row.scores for arm, row in again.arms.items()} == {arm: row.scores for arm, row in first.arms.items()}


def test_what_kills_left_behind_is_removed(tmp_path: Path) -> None:
    folder = stopped_at(tmp_path, 8, steps=12)
    for left in (".step-00000099.part", ".step-00000003.part"):
        (folder / "checkpoints" / left).mkdir()
        (folder / "checkpoints" / left / "model.safetensors").write_bytes(b"half")
    train(folder)
    assert not list((folder / "checkpoints").glob(".*"))
