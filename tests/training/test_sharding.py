"""One model over several processes: FSDP2 against DDP, other numbers of processes, κ, checkpoints in pieces."""

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.models import families
from leanformer.models.names import architecture_of
from leanformer.models.weights import from_pretrained, save_pretrained
from leanformer.tasks.next_token import NextToken
from leanformer.training import sharded_state
from leanformer.training.checkpoints import SUMS, Checkpoints
from leanformer.training.loop import train
from leanformer.training.result import Result
from leanformer.training.run import Run, read_run, write_run
from leanformer.training.settings import Training

SMALL = architecture_of(
    "tinystories-gpt2",
    **dict(width=16, depth=2, heads=3, head_dim=8, mlp_dim=24),
    **dict(vocab_size=257, max_position_embeddings=16, dropout=0.0),
)
"""Some of its sizes are odd, so that two processes cannot halve them."""


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with DDP, with FSDP2, and one that begins on four processes and is resumed on two, on one and on two again.

    All of them clip, accumulate gradients, learn from a teacher and are parametrized for depth.
    """
    root = tmp_path_factory.mktemp("sharding")
    texts = [f"the {i} little cats number {i * 7 % 13} sat on mats {i * i % 17}" for i in range(120)]
    (root / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    torch.manual_seed(7)
    save_pretrained(families.build(SMALL), root / "teacher")
    usual: dict[str, Any] = dict(steps=12, batch=16, lr=4e-3, evaluations=2, probe=2, save_every=3, accumulate=2)
    usual |= dict(parametrization="completep", base_depth=4, teacher=str(root / "teacher"))
    low = dict(precision="bfloat16", steps=4)
    for name, choices in {
        "ddp": {},
        "full": dict(shard="full", keep_checkpoints=True),
        "moved": dict(shard="full", checkpointing=True),
        "low-ddp": low,
        "low-full": dict(low, shard="full"),
    }.items():
        task = NextToken(dataset=str(root / "text.txt"), tokenizer="bytes", length=16)
        training = Training(**{**usual, **choices})
        write_run(Run(name="run", architecture=SMALL, task=task, training=training), root / name)
    jobs = [
        "ddp:2",
        "full:2",
        "moved:4:4",
        "moved:2:7",
        "moved:1:10",
        "moved:2",
        "low-ddp:2",
        "low-full:2",
        "families:2",
    ]
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), environment.get("PYTHONPATH", "")])
    command = [sys.executable, str(tests / "support" / "launch.py"), *jobs]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    for step in (3, 6, 9):
        assert f"resuming from step {step} of 12" in done.stdout
    return root


def result(root: Path, name: str) -> Result:
    return Result.read(root / name / "result.json")


def kappas(found: Result) -> list[list[tuple[float, float, float]]]:
    return [evaluation.kappa.layers for evaluation in found.evaluations if evaluation.kappa is not None]


@pytest.mark.parametrize(("name", "tolerance"), [("full", 1e-6), ("moved", 1e-5)])
def test_the_curve_is_that_of_ddp(launched: Path, name: str, tolerance: float) -> None:
    ddp, found = result(launched, "ddp"), result(launched, name)
    assert np.allclose(found.losses, ddp.losses, rtol=tolerance, atol=0)
    assert ddp.losses[-1][1] < 0.9 * ddp.losses[0][1], "it learns"
    for ours, theirs in zip(found.evaluations, ddp.evaluations, strict=True):
        assert ours.scores == pytest.approx(theirs.scores, rel=1e-5)
    assert found.params == ddp.params
    assert kappas(found)[0] == kappas(ddp)[0], "before the first step the weights are the same"
    assert np.allclose(np.log(kappas(found)), np.log(kappas(ddp)), atol=0.05)  # κ of 10⁵ magnifies rounding
    whole, divided = (from_pretrained(launched / place).state_dict() for place in ("ddp", name))
    assert whole.keys() == divided.keys()
    assert all(torch.allclose(whole[key], divided[key], atol=1e-4) for key in whole)


def test_bfloat16_gives_the_curve_of_ddp_up_to_its_rounding(launched: Path) -> None:
    ddp, found = result(launched, "low-ddp"), result(launched, "low-full")
    assert np.allclose(found.losses, ddp.losses, rtol=5e-3)


def test_a_checkpoint_in_pieces_holds_safetensors_and_what_the_cost_model_says(launched: Path) -> None:
    places = Checkpoints(launched / "full" / "checkpoints")
    folder = places.path(places.steps()[-1])
    pieces = sorted(folder.glob("shard-*.safetensors"))
    assert {path.name for path in folder.iterdir()} == {SUMS, "state.json", *(path.name for path in pieces)}
    setting = Setting(shard="full", devices=2, tokens=16)
    held = formula(SMALL, setting).cost(SMALL, setting).held
    sizes = [sum(tensor.nbytes for tensor in load_file(piece).values()) for piece in pieces]
    assert len(sizes) == 2
    assert sum(sizes) / 2 == pytest.approx(held.parameters + held.optimizer, rel=0.02)  # beside counters of steps
    assert max(sizes) < 1.1 * min(sizes)
    found = places.latest()
    assert found is not None
    trained = from_pretrained(launched / "full").state_dict()
    assert all(torch.equal(tensor, trained[name]) for name, tensor in found.tensors["model"].items())


def test_a_damaged_piece_is_found_and_the_checkpoint_before_used(launched: Path, tmp_path: Path) -> None:
    shutil.copytree(launched / "full" / "checkpoints", tmp_path / "checkpoints")
    places = Checkpoints(tmp_path / "checkpoints")
    before, newest = places.steps()[-2:]
    piece = sorted(places.path(newest).glob("shard-*"))[1]
    content = bytearray(piece.read_bytes())
    content[-3] ^= 0x10
    piece.write_bytes(content)
    said: list[str] = []
    found = places.latest(said.append, whole=False)
    assert found is not None
    assert (found.step, dict(found.tensors)) == (before, {})
    assert f"{piece.name} does not match its checksum" in said[0]
    sorted(places.path(before).glob("shard-*"))[0].unlink()  # and its checksum, so that only the pieces can tell
    sums = (places.path(before) / SUMS).read_text().splitlines()
    (places.path(before) / SUMS).write_text("".join(f"{line}\n" for line in sums if "shard-00001" not in line))
    said.clear()
    places.latest(said.append)
    assert any("its pieces do not make up" in line for line in said), said


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, alone = Checkpoints(tmp_path), SimpleNamespace(process_index=0)
    tensors = {"model": {"a": torch.arange(6.0)}, "optimizer": {"0.step": torch.tensor(3.0)}}
    sharded_state.save(places, 3, tensors, {"step": 3}, None, alone)  # type: ignore[arg-type]
    found = places.latest()
    assert found is not None
    assert torch.equal(found.tensors["optimizer"]["0.step"], torch.tensor(3.0))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(HuggingFaceStorageWriter, "write_data", full)
    with pytest.raises(
        OSError, match=r"step 4 could not be saved .*No space left on device\. The checkpoint of step 3"
    ):
        sharded_state.save(places, 4, tensors, {"step": 4}, None, alone)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_one_process_with_shard_full_trains_as_always(launched: Path, tmp_path: Path) -> None:
    run = read_run(launched / "full")
    for shard in ("none", "full"):
        settings = replace(run.training, shard=shard, steps=3, save_every=None, keep_checkpoints=False)
        write_run(run.model_copy(update={"training": settings}), tmp_path / shard)
    one, two = (train(tmp_path / shard) for shard in ("none", "full"))
    assert one.losses == two.losses
    assert one.model_sums == two.model_sums
    names = [{path.name for path in (tmp_path / shard / "checkpoints").glob("*/*")} for shard in ("none", "full")]
    assert names[0] == names[1] == {"model.safetensors", "state.json", SUMS}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(shard="half"), "shard must be one of none, full, got 'half'"),
        (dict(checkpointing="yes"), "checkpointing must be true or false, got 'yes'"),
        (dict(compile=1), "compile must be true or false, got 1"),
        (dict(shard="full", ema=0.9), "shard=full keeps no moving average of the weights: set ema=None"),
        (dict(shard="full", precision="float16"), "shard=full has no scaler .*: set precision=bfloat16"),
    ],
)
def test_what_cannot_be_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Training(steps=1, **settings)
