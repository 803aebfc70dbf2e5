"""Checkpoints: what goes in comes out, damage is found, the right ones are kept."""

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leanformer.foundation.records.files import locked, write_text
from leanformer.training.checkpoints import SUMS, Checkpoints
from leanformer.training.randomness import random_state, set_random_state


def save(checkpoints: Checkpoints, step: int, best: int | None = None) -> None:
    weight = torch.full((3, 4), float(step))
    checkpoints.save(step, {"model": {"a": weight, "b": torch.arange(step), "tied": weight}}, {"step": step}, best)


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 7)
    found = checkpoints.latest()
    assert found is not None
    assert found.state == {"step": 7}
    assert torch.equal(found.tensors["model"]["a"], torch.full((3, 4), 7.0))
    assert found.tensors["model"]["tied"] is found.tensors["model"]["a"]
    checked = subprocess.run(["sha256sum", "-c", SUMS], cwd=checkpoints.path(7), capture_output=True, check=False)
    assert checked.returncode == 0


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 7):
        save(checkpoints, step, best=2 if step >= 2 else None)
    assert checkpoints.steps() == [2, 5, 6]
    with pytest.raises(ValueError, match="keep must be at least 1 checkpoint, got 0"):
        Checkpoints(tmp_path, keep=0)


@given(name=st.sampled_from(["model.safetensors", "state.json", SUMS]), place=st.floats(0, 0.999), cut=st.booleans())
def test_any_damage_is_found(tmp_path_factory: pytest.TempPathFactory, name: str, place: float, cut: bool) -> None:
    checkpoints = Checkpoints(tmp_path_factory.mktemp("damage"))
    save(checkpoints, 1)
    save(checkpoints, 2)
    file = checkpoints.path(2) / name
    content = bytearray(file.read_bytes())
    at = int(place * len(content))
    if cut:
        del content[at:]
    else:
        content[at] ^= 0x10
    file.write_bytes(content)
    said: list[str] = []
    found = checkpoints.latest(said.append)
    assert found is not None
    assert found.step == 1
    assert len(said) == 1
    assert "step-00000002 is damaged" in said[0]


def test_a_missing_file_is_damage_and_no_good_one_is_none(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    save(checkpoints, 1)
    (checkpoints.path(1) / "state.json").unlink()
    said: list[str] = []
    assert checkpoints.latest(said.append) is None
    assert "state.json is missing" in said[0]


def test_every_generator_is_put_back() -> None:
    state = random_state()
    drawn = random.random(), np.random.rand(), torch.rand(3).tolist()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    set_random_state(state)
    assert (random.random(), np.random.rand(), torch.rand(3).tolist()) == drawn


def test_a_lock_is_lifted_when_its_holder_ends(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match="another process is working in"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_text_is_written_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b.json", "1")
    write_text(tmp_path / "a" / "b.json", "22")
    assert (tmp_path / "a" / "b.json").read_text() == "22"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_a_transposed_view_is_not_taken_for_another_name_of_the_same_tensor(tmp_path: Path) -> None:
    square = torch.arange(9.0).reshape(3, 3)
    Checkpoints(tmp_path).save(1, {"model": {"a": square, "b": square.T, "c": square}}, {"step": 1}, None)
    found = Checkpoints(tmp_path).latest()
    assert found is not None
    assert torch.equal(found.tensors["model"]["b"], square.T)
    assert found.tensors["model"]["c"] is found.tensors["model"]["a"]


def test_checkpoints_behind_a_damaged_one_are_kept(tmp_path: Path) -> None:
    """A damaged checkpoint of a late step does not count as one of the last few."""
    places = Checkpoints(tmp_path, keep=1)
    places.save(9, {"model": {}}, {}, best=None)
    (places.path(9) / "state.json").write_text("{")
    assert places.latest() is None
    places.save(2, {"model": {}}, {}, best=None)
    found = places.latest()
    assert found is not None
    assert found.step == 2
    assert places.steps() == [2]


@pytest.mark.parametrize("left", ["step-00000009", ".step-00000002.part", "step-5", "step-x"])
def test_what_is_no_checkpoint_is_not_in_the_way(left: str, tmp_path: Path) -> None:
    places = Checkpoints(tmp_path, keep=1)
    (tmp_path / left).write_text("a file")
    places.latest()
    places.tidy()
    for step in (2, 4):
        places.save(step, {"model": {}}, {}, best=None)
    assert places.steps() == [4]
