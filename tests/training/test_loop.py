"""The loop: against a bare one, against itself after kills, on two processes, and when things go wrong."""

import hashlib
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.models.weights import from_pretrained
from leanformer.training.checkpoints import Checkpoints
from leanformer.training.loop import train
from leanformer.training.monitoring import Diverged
from leanformer.training.optimizer import decay_groups
from leanformer.training.randomness import seed_everything
from leanformer.training.result import Result
from leanformer.training.run import read_run, write_run
from leanformer.training.settings import Training
from support import tiny_run as trained
from support.kills import die_at_flush

fork = multiprocessing.get_context("fork")


def outcome(folder: Path) -> dict[str, str]:
    """Digests of everything that a finished run leaves, but for times."""
    files = [folder / "model" / "model.safetensors", folder / "result.json", folder / "records.jsonl"]
    newest = Checkpoints(folder / "checkpoints").steps()[-1]
    files += sorted(Checkpoints(folder / "checkpoints").path(newest).iterdir())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# What the loop computes


def test_it_is_the_bare_loop_to_the_last_bit(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=12, weight_decay=0.1)
    result = train(folder)
    run, data = read_run(folder), trained.digits()
    seed_everything(0)
    model = families.build(run.architecture)
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=4e-3, fused=True)
    losses = []
    for step, (images, labels) in enumerate(data.batches(Order(0, 16, data.size), range(12), Share())):
        rate = 4e-3 * (step + 1) / 1 if step < 1 else 4e-3 * (1 + math.cos(math.pi * (step - 1) / 11)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert [loss for _, loss in result.losses] == losses
    for name, tensor in from_pretrained(folder).state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_accumulation_changes_sums_only(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=8))
    pieces = train(trained.described(tmp_path / "pieces", steps=8, accumulate=4))
    assert pieces.losses == [(step, pytest.approx(loss, abs=1e-5)) for step, loss in whole.losses]


def test_the_average_of_weights_is_what_is_evaluated_and_saved(tmp_path: Path) -> None:
    settings: dict[str, Any] = dict(schedule="constant", warmup=0)
    runs = [trained.described(tmp_path / str(steps), steps=steps, **settings) for steps in (1, 2, 3)]
    results = [train(run) for run in runs]
    averaged = trained.described(tmp_path / "averaged", steps=3, ema=0.75, **settings)
    assert train(averaged).losses == results[-1].losses
    first, second, third = (from_pretrained(run).state_dict() for run in runs)
    for name, mean in from_pretrained(averaged).state_dict().items():  # the first update copies, later ones decay
        wanted = 0.75 * (0.75 * first[name] + 0.25 * second[name]) + 0.25 * third[name]
        assert torch.allclose(mean, wanted, atol=1e-6), name


def test_weight_decay_spares_vectors_and_what_the_model_exempts() -> None:
    model = families.build(trained.architecture())
    decayed, others = (group["params"] for group in decay_groups(model, 0.1))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(p)] for p in others} >= {"pos_embed", "blocks.0.norm1.weight", "head.bias"}
    assert all(p.ndim > 1 and names[id(p)] != "pos_embed" for p in decayed)
    assert len(decayed) + len(others) == len(names)
    assert [len(group["params"]) for group in decay_groups(model, 0.1, "all")] == [len(names), 0]


@pytest.mark.parametrize(("steps", "warmup"), [(100, 10), (37, 5), (50, 25)])
def test_one_cycle_is_torchs(steps: int, warmup: int) -> None:
    settings = Training(steps=steps, lr=0.3, schedule="one-cycle", warmup=warmup)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.3, total_steps=steps, pct_start=warmup / steps, anneal_strategy="linear"
    )
    for step in range(steps):
        assert settings.lr_at(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9), step
        optimizer.step()
        if step < steps - 1:
            cycle.step()


def test_schedules_rise_peak_and_end_where_they_say() -> None:
    cosine = Training(steps=100, lr=1.0, warmup=10, warmup_lr=0.1, min_lr=0.01)
    assert cosine.lr_at(9) == 1.0
    assert cosine.lr_at(0) == pytest.approx(0.1 + 0.9 / 10)
    assert cosine.lr_at(55) == pytest.approx((1 + 0.01) / 2)
    assert cosine.lr_at(99) == pytest.approx(0.01, abs=1e-3)
    triangle = Training(steps=100, lr=1.0, schedule="triangle", warmup=0.25)
    assert [triangle.lr_at(step) for step in (24, 25, 62, 99)] == pytest.approx([1.0, 1.0, 38 / 75, 1 / 75])
    assert Training(steps=9, lr=1.0, schedule="constant", warmup=0).lr_at(8) == 1.0
    falling = Training(steps=5, lr=1.0, schedule="one-cycle", warmup=0)
    assert [falling.lr_at(step) for step in range(5)] == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0], abs=1e-5)


# Kills


def _train_and_die(folder: Path, calls: int | None) -> None:
    """Train; with `calls`, be killed at the so-manieth time that something is put onto the disk."""
    torch.set_num_threads(1)
    if calls is not None:
        die_at_flush(calls)
    train(folder, trained.digits())


CHOICES: dict[str, Any] = dict(options={"drop_rate": 0.1, "drop_path_rate": 0.1}, ema=0.9, steps=40)


def test_killed_ten_times_and_resumed_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Five kills at random moments, five in the middle of writing, each of a new process."""
    trained.digits()
    reference = trained.described(tmp_path / "reference", **CHOICES)
    began = time.perf_counter()
    _train_and_die(reference, None)
    took = time.perf_counter() - began
    folder, draw = trained.described(tmp_path / "killed", **CHOICES), random.Random(5)
    seen = []
    for kill in range(10):
        inside = draw.randint(3, 40) if kill % 2 else None
        process = fork.Process(target=_train_and_die, args=(folder, inside))
        process.start()
        if inside is None:
            process.join(draw.uniform(0.1, 0.5) * took)
            process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL or (folder / "result.json").is_file()
        seen.append(Checkpoints(folder / "checkpoints").steps()[-1:])
        if (folder / "result.json").is_file():  # finished early: begin once more
            assert outcome(folder) == outcome(reference)
            folder = trained.described(tmp_path / f"killed-{kill}", **CHOICES)
    assert len({str(steps) for steps in seen}) > 3, "the kills came at different places"
    _train_and_die(folder, None)
    assert outcome(folder) == outcome(reference)


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(tmp_path: Path) -> None:
    reference = trained.described(tmp_path / "reference", **CHOICES)
    _train_and_die(reference, None)
    folder = trained.described(tmp_path / "damaged", **CHOICES)
    process = fork.Process(target=_train_and_die, args=(folder, 60))
    process.start()
    process.join()
    checkpoints = Checkpoints(folder / "checkpoints")
    newest = checkpoints.path(checkpoints.steps()[-1]) / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    said: list[str] = []
    train(folder, say=said.append)
    assert "model.safetensors does not match its checksum" in said[0]
    assert said[1] == f"lean, seed 0: resuming from step {checkpoints_before(said[0])} of 40"
    assert outcome(folder) == outcome(reference)


def checkpoints_before(message: str) -> int:
    return int(message.split("step-")[1][:8]) - 3


def test_two_processes_keep_out_of_one_folder(tmp_path: Path) -> None:
    from leanformer.foundation.records.files import locked

    folder = trained.described(tmp_path)
    with locked(folder), pytest.raises(ValueError, match="another process is working in"):
        train(folder)


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=2)
    first = train(folder)
    steps: list[int] = []
    assert train(folder, progress=lambda step, loss: steps.append(step)) == first
    assert not steps


# Several processes


def _start(folder: Path) -> subprocess.Popen[str]:
    """Two processes, as torchrun starts them; torchrun itself is in tests/experiments/test_comparison.py."""
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, tests / "support" / "launch.py", folder],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _launched(folder: Path) -> Result:
    process = _start(folder)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said[-3000:]
    return Result.read(folder / "result.json")


TOGETHER: dict[str, Any] = dict(
    steps=30, accumulate=2, save_every=5, task=trained.ImageClasses(dataset="digits", shift=1, mixup=0.8)
)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A run on two processes, and its result."""
    folder = trained.described(tmp_path_factory.mktemp("two"), **TOGETHER)
    return folder, _launched(folder)


def test_two_processes_give_the_curve_of_one(two: tuple[Path, Result], tmp_path: Path) -> None:
    folder, result = two
    one = train(trained.described(tmp_path, **TOGETHER))
    assert np.allclose(one.losses, result.losses, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(one.evaluations, result.evaluations, strict=True):
        assert ours.scores["loss"] == pytest.approx(theirs.scores["loss"], rel=1e-3)
    weights = (from_pretrained(place).state_dict() for place in (tmp_path, folder))
    for ours, theirs in zip(*(state.values() for state in weights), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-3)


def test_two_processes_that_are_killed_resume_to_the_same_bits(two: tuple[Path, Result], tmp_path: Path) -> None:
    reference, result = two
    folder = trained.described(tmp_path, **TOGETHER)
    process = _start(folder)
    while process.poll() is None and len(Checkpoints(folder / "checkpoints").steps()) < 2:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "result.json").is_file()
    assert _launched(folder) == result
    for ours, theirs in zip(
        *(from_pretrained(place).state_dict().values() for place in (folder, reference)), strict=True
    ):
        assert torch.equal(ours, theirs)


# Bad luck and bad input


def test_a_loss_that_is_no_number_stops_the_run_and_names_step_and_batch(tmp_path: Path) -> None:
    class Poisoned(type(trained.digits())):  # type: ignore[misc]
        calls = 0

        def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
            self.calls += 1
            found = super().loss(model, batch)
            return found * math.nan if self.calls == 8 else found

    healthy = trained.digits()
    data = Poisoned(healthy.task, healthy.found)
    folder = trained.described(tmp_path, steps=500)  # losses are looked at every five steps
    samples = ", ".join(map(str, Order(0, 16, data.size).indices(7)[:8]))
    with pytest.raises(Diverged, match=f"the loss became nan at step 8 .*batch of samples {samples}, …"):
        train(folder, data)
    assert Checkpoints(folder / "checkpoints").steps() == [3, 6]
    assert train(folder).final["step"] == 500


def test_weights_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    class Poisoned(type(trained.digits())):  # type: ignore[misc]
        calls = 0

        def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
            self.calls += 1
            found = super().loss(model, batch)
            if self.calls == 6:
                found.register_hook(lambda gradient: gradient * math.nan)
            return found

    healthy = trained.digits()
    folder = trained.described(tmp_path)
    with pytest.raises(Diverged, match="weights became infinite or NaN at step 6"):
        train(folder, Poisoned(healthy.task, healthy.found))
    assert Checkpoints(folder / "checkpoints").steps() == [3]
    assert train(folder).final["step"] == 40


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    folder = trained.described(tmp_path)
    train_a_bit = fork.Process(target=_train_and_die, args=(folder, 40))
    train_a_bit.start()
    train_a_bit.join()
    saved = Checkpoints(folder / "checkpoints").steps()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # no file may grow beyond: the weights do not fit
    try:
        with pytest.raises(OSError, match=r"could not be saved in .*intact; free some space, then repeat the command"):
            train(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Checkpoints(folder / "checkpoints").steps() == saved
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(OSError, match="the disk has 0 MB free, 0 MB are needed"):
        train(folder)
    monkeypatch.undo()
    assert train(folder).final["step"] == 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(steps=0), "steps must be a whole number of at least 1, got 0"),
        (dict(batch=1.5), "batch must be a whole number of at least 1, got 1.5"),
        (dict(lr=math.nan), "lr must be a number of at least 0, got nan"),
        (dict(schedule="linear"), "schedule must be one of cosine, one-cycle, triangle, constant, got 'linear'"),
        (dict(precision="half"), "precision must be one of float32, bfloat16, float16, got 'half'"),
        (dict(ema=1.0), "ema must be a number between 0 and 1, or None, got 1.0"),
        (dict(save_every=0), "save_every must be a whole number of at least 1, got 0"),
        (dict(betas=3), "betas must be two numbers from 0 to below 1, got 3"),
        (dict(clip=-1), "clip must be a number above 0, or None, got -1"),
        (dict(clip="abc"), "clip must be a number above 0, or None, got 'abc'"),
        (dict(warmup=40), "a warm-up of 40 steps leaves none of 40: give a share, such as warmup=0.1"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        trained.training(**settings)


def test_other_mistakes_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run\.json"):
        train(tmp_path)
    folder = trained.described(tmp_path / "a", accumulate=3)
    with pytest.raises(ValueError, match="a batch of 16 does not divide into 1 processes × 3 pieces"):
        train(folder)
    with pytest.raises(ValueError, match=r"holds another run: training.accumulate is 3 there and 1 here"):
        write_run(trained.run(), folder)
    with pytest.raises(ValueError, match="log_with must be one of tensorboard, trackio, wandb, got 'mlflow'"):
        train(trained.described(tmp_path / "b"), log_with="mlflow")
    with pytest.raises(ValueError, match="log_with='wandb' needs the package of that name: pip install wandb"):
        train(tmp_path / "b", log_with="wandb")


def test_bfloat16_follows_float32_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12, precision="bfloat16"))
    exact = train(trained.described(tmp_path / "exact", steps=12))
    assert whole.losses != exact.losses
    assert np.allclose(whole.losses, exact.losses, rtol=0.02)
    stopped = trained.described(tmp_path / "stopped", steps=12, precision="bfloat16")
    process = fork.Process(target=_train_and_die, args=(stopped, 7))
    process.start()
    process.join()
    assert not (stopped / "result.json").is_file()
    assert train(stopped) == whole


def test_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    import random

    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    seed_everything(5)
    expected = (random.random(), np.random.random(), torch.rand(1).item())
    seed_everything(5)
    train(trained.described(tmp_path, steps=2, threads=1))
    assert (random.random(), np.random.random(), torch.rand(1).item()) == expected
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)


def test_a_tracker_hears_losses_scores_and_kappa(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(trained.described(tmp_path, steps=4), log_with="tensorboard")
    events = EventAccumulator(str(tmp_path / "leanformer"))  # beside it are the settings
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("train_loss")]
    assert losses == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in result.losses]
    assert [event.value for event in events.Scalars("accuracy")] == pytest.approx(
        [evaluation.scores["accuracy"] for evaluation in result.evaluations]
    )
    assert len(events.Scalars("kappa")) == len(result.evaluations)
