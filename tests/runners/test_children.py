"""Processes for runs of a user's own: how they end, what they leave, and that nothing outlives them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leanformer.foundation.stopping import Stopped
from leanformer.runners.children import Child, Children, Ending, carried

SLEEPER = (
    "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
)
"""A program that starts another and waits."""


def ended(children: list[Child], **options) -> dict[str, Ending]:
    found: dict[str, Ending] = {}
    Children(**options).run(
        children, lambda child: None, lambda child, ending: found.update({child.folder.name: ending})
    )
    return found


def python(folder: Path, program: str) -> Child:
    return Child(folder, lambda: [sys.executable, "-c", program])


def is_gone(process: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 20
    while not is_gone(process):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)


def wait_for_text(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not (file.is_file() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.05)


def test_commands_end_each_in_its_own_way(tmp_path: Path) -> None:
    programs = {
        "fine": "import os; print('out', os.environ['OMP_NUM_THREADS'])",
        "wrong": "import sys; print('why', file=sys.stderr); sys.exit(3)",
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "hanging": SLEEPER,
    }
    children = [python(tmp_path / name, program) for name, program in programs.items()]
    children.append(Child(tmp_path / "missing", lambda: ["no-such-program", "a b"]))
    found = ended(children, jobs=2, threads=7, time_limit=2.0)
    assert {name: str(ending) for name, ending in found.items() if not ending.timed_out} == {
        "fine": "exit code 0",
        "wrong": "exit code 3",
        "killed": "ended by SIGSEGV",
        "missing": "exit code 127",
    }
    assert found["hanging"].timed_out
    assert found["hanging"].seconds > 2.0
    wait_until_gone(int((tmp_path / "hanging" / "stdout.txt").read_text()))
    assert (tmp_path / "fine" / "stdout.txt").read_text() == "out 7\n"
    assert (tmp_path / "wrong" / "stderr.txt").read_text() == "why\n"
    assert "no-such-program cannot be started: No such file" in (tmp_path / "missing" / "stderr.txt").read_text()


def test_a_function_is_carried_over_with_what_it_refers_to(tmp_path: Path) -> None:
    factor = 3

    def write(number: int, folder: str) -> None:
        Path(folder, "answer").write_text(str(factor * number))
        print("seen")

    function = carried(write, "train")
    child = Child(tmp_path / "run", function=function, arguments=(7, str(tmp_path / "run")))
    assert ended([child])["run"].code == 0
    assert (tmp_path / "run" / "answer").read_text() == "21"
    assert (tmp_path / "run" / "stdout.txt").read_text() == "seen\n"


def test_a_function_that_cannot_be_carried_over_says_so(tmp_path: Path) -> None:
    lock = threading.Lock()
    message = (
        r"train cannot be carried into a process of its own \(TypeError: cannot pickle '_thread.lock' object\): make"
    )
    with pytest.raises(ValueError, match=message):
        carried(lock.acquire, "train")
    arrives = carried(ended, "train").replace(b"test_children", b"best_children")  # a module that the child lacks
    with pytest.raises(ValueError, match=r"train cannot be carried .* \(ModuleNotFoundError: No module named"):
        ended([Child(tmp_path / "run", function=arrives)])


def test_a_request_to_stop_ends_all_of_them(tmp_path: Path) -> None:
    def stop() -> None:
        for name in ("a", "b"):
            wait_for_text(tmp_path / name / "stdout.txt")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(Stopped, match="stopped by SIGTERM; repeat the command to resume"):
        ended([python(tmp_path / name, SLEEPER) for name in ("a", "b")], jobs=2)
    for name in ("a", "b"):
        wait_until_gone(int((tmp_path / name / "stdout.txt").read_text()))


def test_commands_do_not_outlive_a_process_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from leanformer.runners.children import Child, Children;"
        f"child = Child(Path(sys.argv[1]), lambda: [sys.executable, '-c', {SLEEPER!r}]);"
        "Children().run([child], lambda c: None, lambda c, e: None)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "run")])
    printed = tmp_path / "run" / "stdout.txt"
    wait_for_text(printed)
    process.kill()
    process.wait()
    wait_until_gone(int(printed.read_text()))
