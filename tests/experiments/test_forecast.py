"""Forecasts: what is said before training is what training then takes, and nothing is written."""

import json
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments import forecast
from support import tiny_run
from support.command import call


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a step took 2 s and an evaluation 10 s."""
    monkeypatch.setattr(forecast, "step_seconds", lambda designs, *_: dict.fromkeys(designs, 2.0))
    monkeypatch.setattr(forecast, "_evaluation_seconds", lambda *_: 10.0)


def test_the_forecast_is_what_training_takes(tmp_path: Path) -> None:
    recipe, out = tiny_run.recipe(), tmp_path / "out"
    found = lf.compare(recipe, seeds=2, jobs=1, out=out, dry_run=True)
    assert isinstance(found, lf.Forecast)
    assert not out.exists(), "nothing is written"
    assert all(arm.step_seconds > 0 and arm.evaluation_seconds > 0 for arm in found.arms)
    record = lf.compare(recipe, seeds=2, jobs=1, out=out, report=False)
    assert [arm.name for arm in found.arms] == list(record.arms)
    for arm in found.arms:
        real = record.arms[arm.name]
        assert (arm.params, arm.steps, arm.memory_bytes) == (real.params, real.steps, real.memory_bytes)
        kept = sum(file.stat().st_size for file in (out / arm.name / "seed-0").rglob("*.safetensors"))
        assert arm.disk_bytes == pytest.approx(kept, rel=0.25, abs=8000), "but for the headers of files"
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    again = lf.compare(recipe, seeds=3, jobs=1, out=out, dry_run=True)
    assert (again.finished, again.runs) == (6, 3), "what is there is not trained again"
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before


def test_times_and_sizes_add_up(timed: None, tmp_path: Path) -> None:
    found = lf.compare(tiny_run.recipe(), seeds=4, jobs=2, out=tmp_path / "out", dry_run=True)
    run = 6 * 2.0 + 3 * 10.0
    assert {arm.run_seconds for arm in found.arms} == {run}
    assert found.seconds == 12 * run / 2
    largest = max(arm.memory_bytes for arm in found.arms)
    assert found.memory_bytes == 2 * largest, "of two runs at a time"
    assert found.disk_bytes == 4 * sum(arm.disk_bytes for arm in found.arms) < found.training_disk_bytes
    assert len(repr(found)) < 2000
    looks = lf.compare(tiny_run.recipe(), until="decided", max_seeds=9, out=tmp_path / "out", dry_run=True)
    assert "there may be up to 9 seeds" in looks.notes[0]


def test_more_layers_take_longer() -> None:
    data, training = tiny_run.digits(), tiny_run.training()
    times = [
        forecast.arm_forecast("x", tiny_run.architecture().resized(depth=depth), training, data).step_seconds
        for depth in (1, 12)
    ]
    assert times[1] > 2 * times[0]


def test_the_commands_say_it(timed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call("compare", "digits", "--seeds", "2", "--jobs", "1", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "parameters, 400 steps of 2000.0 ms" in shown.stdout
    assert "in all: 6 runs, 1 at a time" in shown.stdout
    shown = call("sweep", "digits", "--vary", "heads=2,4", "--seeds", "2", "--dry-run", "--json")
    assert json.loads(shown.stdout)["runs"] == 4
    shown = call("train", "digits", "--dry-run")
    assert "in all: 1 run, 1 at a time" in shown.stdout
    assert not list(tmp_path.iterdir())


def test_a_loop_of_one_s_own_has_no_forecast(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dry_run does not go with train or command"):
        lf.compare(train=lambda model, seed, folder: 1.0, original="gpt2", lean="depth=6", out=tmp_path, dry_run=True)
