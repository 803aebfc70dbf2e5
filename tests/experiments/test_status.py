"""`leanformer status` and `leanformer jobs`: every state of a run, and commands that finish a study."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments.plan import read_plan, write_plan
from leanformer.experiments.status import open_commands, status
from leanformer.experiments.summary import summarise
from leanformer.foundation.leases import Owner
from leanformer.foundation.records.files import locked, worker_in
from leanformer.runners.base import FAILURE, Failure
from leanformer.training.loop import train
from support import tiny_run
from support.command import call


def planned(out: Path) -> Path:
    """A comparison of which only the plan is there."""
    lf.compare(tiny_run.recipe(arms=("original", "lean")), seeds=2, jobs=1, out=out, report=False, progress=False)
    plan = read_plan(out)
    for arm, seed in plan.runs():
        shutil.rmtree(out / arm / f"seed-{seed}")
    write_plan(plan, tiny_run.TASK, out)
    return out


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("study"))


def states(folder: Path) -> dict[str, str]:
    return {run.place: run.state for run in status(folder).runs}


def test_every_state_is_seen(study: Path) -> None:
    assert set(states(study).values()) == {"queued"}
    train(study / "lean" / "seed-0")
    Failure(text="the loss became nan at step 3").write(study / "lean" / "seed-1" / FAILURE)

    class StopError(Exception): ...

    def stop(step: int, loss: float) -> None:
        found = next(run for run in status(study).runs if run.place == "original/seed-0")
        assert (found.state, found.where) == ("running", f"{socket.gethostname()} {os.getpid()}")
        assert found.step == step
        assert found.seconds_left == pytest.approx((6 - step) * (found.step_seconds or 0))
        if step >= 4:
            raise StopError

    with pytest.raises(StopError):
        train(study / "original" / "seed-0", progress=stop)
    assert states(study) == {
        "lean/seed-0": "done",
        "lean/seed-1": "failed",
        "original/seed-0": "stopped",
        "original/seed-1": "queued",
    }
    found = status(study)
    assert not found.is_over
    assert found.sentences() == [
        "4 runs: 1 queued, 1 stopped, 1 failed, 1 done",
        "lean/seed-1 failed: the loss became nan at step 3",
    ]
    assert [shlex.split(command) for command in open_commands(study)] == [
        ["leanformer", "train", str(study / "original" / "seed-0")],
        ["leanformer", "train", str(study / "original" / "seed-1")],
    ]
    shown = call("status", str(study))
    assert shown.returncode == 0, shown.stderr
    assert "4 runs: 1 queued, 1 stopped, 1 failed, 1 done." in shown.stdout
    assert json.loads(call("status", str(study), "--json").stdout)["kind"] == "status"


def test_the_commands_finish_a_study(tmp_path: Path) -> None:
    out = planned(tmp_path)
    listed = call("jobs", str(out)).stdout.splitlines()
    assert len(listed) == 4
    for command in listed:
        done = call(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
    assert call("jobs", str(out)).stdout == ""
    assert status(out).is_over
    assert call(*shlex.split(listed[0])[1:]).returncode == 0, "once more changes nothing"
    assert "over 2 seeds" in call("report", str(out)).stdout
    assert "4 runs: 4 done." in call("status", str(out), "--watch").stdout


def test_a_worker_that_was_killed_is_gone(tmp_path: Path) -> None:
    code = f"""
import time
from pathlib import Path
from leanformer.foundation.records.files import locked
with locked(Path({str(tmp_path)!r})):
    print("in", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert worker_in(tmp_path) == f"{socket.gethostname()} {process.pid}"
        with pytest.raises(ValueError, match="another process is working in"), locked(tmp_path):
            pass
        process.kill()
        process.wait()
    assert worker_in(tmp_path) == "", "its sign is still there, but it is dead"
    with locked(tmp_path):
        assert worker_in(tmp_path) == f"{socket.gethostname()} {os.getpid()}"
    assert worker_in(tmp_path) == ""
    sign = tmp_path / ".locked-by-000001"
    sign.write_bytes(Owner("another-host", 7, 0.0, "1", "x").content(3))
    assert worker_in(tmp_path) == "another-host 7"
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    assert worker_in(tmp_path) == "", "nothing has changed for long"
    for damaged in ("", "x", "{}", "[1]", '{"host": 3}'):
        sign.write_text(damaged)
        assert worker_in(tmp_path) == ""


def test_own_loops_are_shown_and_have_no_commands(tmp_path: Path) -> None:
    def fit(model: object, seed: int, folder: Path) -> float:
        if seed:
            raise ValueError("no luck")
        return 1.0

    asked = dict(original="gpt2", lean="depth=1", margin=1.0, seeds=2, report=False, progress=False)
    small = lf.architecture_of("gpt2", width=16, depth=2, heads=2, head_dim=8, mlp_dim=16, vocab_size=20)
    lf.compare(train=fit, **{**asked, "original": small}, out=tmp_path)
    assert sorted(run.state for run in status(tmp_path).runs) == ["done"] * 3 + ["failed"] * 3
    with pytest.raises(ValueError, match="a training loop of one's own, whose runs have no commands"):
        open_commands(tmp_path)


def test_the_code_of_a_users_task_is_not_needed(tmp_path: Path) -> None:
    folder = tiny_run.described(tmp_path / "lean" / "seed-0")
    written = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**written, "task": {"kind": "elsewhere.py:Mine"}}))
    assert states(tmp_path) == {"lean/seed-0": "queued"}
    with locked(tmp_path):
        assert status(tmp_path).worker


def test_what_is_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        status(tmp_path / "nothing")
    shown = call("jobs", str(tmp_path))
    assert shown.returncode == 2
    assert "holds no runs: it has neither a run.json nor an own-plan.json" in " ".join(shown.stderr.split())


def test_the_report_of_a_study_under_way_names_its_open_runs(tmp_path: Path) -> None:
    planned = lf.compare(tiny_run.recipe(), seeds=2, plan_only=True, out=tmp_path)
    assert [run.state for run in planned.runs] == ["queued"] * 6
    with pytest.raises(ValueError, match="is finished yet"):
        summarise(tmp_path)
    for arm in ("original", "lean"):
        lf.train(tmp_path / arm / "seed-0")
    record = summarise(tmp_path)
    assert len(record.open_runs) == 4
    assert record.open_runs["lean, seed 1"] == "queued"
    assert (
        record.sentences()[0]
        .lower()
        .startswith("this comparison is under way, with 4 open runs: shallow, seed 0: queued")
    )
    finished = lf.compare(tiny_run.recipe(), seeds=2, jobs=1, out=tmp_path, report=False)
    assert not finished.open_runs
