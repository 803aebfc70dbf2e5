"""Signals and killed parents: checkpoints are written, exit codes say what to do, nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leanformer.foundation.stopping import EXIT_CODE, Stopped, stop_requests
from leanformer.training.checkpoints import Checkpoints
from leanformer.training.loop import train
from support import tiny_run as trained

LEANFORMER = str(Path(sys.executable).with_name("leanformer"))
LONG = dict(steps=100_000, evaluations=1, probe=0, save_every=50_000)


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_a_request_inside_training_leaves_a_checkpoint_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12, save_every=12))
    folder = trained.described(tmp_path / "stopped", steps=12, save_every=12)

    def stop(step: int, loss: float) -> None:
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match=r"lean, seed 0: stopped by SIGTERM after step 6 of 12, with a checkpoint"):
        train(folder, progress=stop)
    assert Checkpoints(folder / "checkpoints").steps() == [6]
    assert train(folder) == whole
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_command_ends_with_a_code_that_says_resume(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, **LONG)
    process = subprocess.Popen([LEANFORMER, "train", str(folder)], stderr=subprocess.PIPE, text=True)
    wait_for((folder / "timing.jsonl").is_file)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == EXIT_CODE
    assert "stopped by SIGTERM after step" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert Checkpoints(folder / "checkpoints").steps()


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from leanformer import compare
from leanformer.foundation.stopping import Stopped
from support.tiny_run import recipe, training
long = recipe(training=training(steps=100_000, evaluations=1, probe=0, save_every=50_000))
try:
    compare(long, arms=["original", "lean"], seeds=1, out=sys.argv[2], jobs=2)
except Stopped as error:
    print(error, file=sys.stderr)
    sys.exit(75)
"""


def workers_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"PPid:\t{parent}\n" in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_workers_end_with_their_parent(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1]), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(list(out.glob("*/*/timing.jsonl"))) == 2, seconds=120)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.send_signal(number)
    if number is signal.SIGTERM:
        _, said = process.communicate(timeout=60)
        assert process.returncode == EXIT_CODE
        assert "Traceback" not in said
        assert all(Checkpoints(run / "checkpoints").steps() for run in out.glob("*/seed-0"))
    wait_for(lambda: not any(map(alive, workers)), seconds=2.0)
    process.wait()


def test_a_request_in_a_forked_child_ends_the_child() -> None:
    with stop_requests() as stop:
        child = os.fork()
        if child == 0:
            time.sleep(10)
            os._exit(0)
        time.sleep(0.3)  # Python forgets signals that come while it forks
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM
        assert stop.signal_name == ""
