"""Runs of a user's own training loop: one process for each, several at a time, each with a limit of time.

A run that crashes or hangs ends alone. What it prints is kept in its folder. On a request to stop, and when this
process is gone, the processes end with everything that they started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from leanformer.foundation.machine import one_gpu
from leanformer.foundation.registry import modules_of_files
from leanformer.foundation.stopping import Stopped, stop_requests
from leanformer.runners import guard

STDOUT, STDERR = "stdout.txt", "stderr.txt"
PATIENCE = 10.0
"""Seconds that a process has to end by itself."""
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Child:
    """What to start for one run: a command, or a call of a function that is carried over."""

    folder: Path
    """The run's; what is printed goes to files in it."""
    command: Callable[[], Sequence[str]] | None = None
    """Gives the words of the command when its turn has come."""
    function: bytes = b""
    """From `carried`."""
    arguments: Sequence[str | int] = ()
    """Of the function."""


@dataclass(frozen=True)
class Ending:
    """How the process of a run ended."""

    code: int
    """Its exit code; negative for a signal."""
    seconds: float
    timed_out: bool = False
    how: str = ""
    """In words, where more is known than the code."""

    def __str__(self) -> str:
        if self.how:
            return self.how
        if self.code >= 0:
            return f"exit code {self.code}"
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(-self.code).name}"
        return f"ended by signal {-self.code}"


def carried(call: Callable[..., Any], what: str) -> bytes:
    """A function with all that it refers to, for a process of its own.

    Args:
        call: the function.
        what: how an error calls it.
    """
    import cloudpickle

    files = modules_of_files()
    for module in files:
        cloudpickle.register_pickle_by_value(module)
    try:
        function: bytes = cloudpickle.dumps(call)
    except Exception as error:  # objects refuse in their own ways
        raise ValueError(_cannot_be_carried(what, f"{type(error).__name__}: {error}")) from error
    finally:
        for module in files:
            cloudpickle.unregister_pickle_by_value(module)
    return function


def _cannot_be_carried(what: str, why: str) -> str:
    return (
        f"{what} cannot be carried into a process of its own ({' '.join(why.split())}): make inside the function what "
        "it needs, or put it into a module that can be imported; jobs=1 without a time_limit needs no process"
    )


@dataclass(frozen=True)
class Children:
    """Where runs of a user's own loop run."""

    jobs: int = 1
    threads: int = 1
    """CPU threads of each."""
    time_limit: float | None = None
    """Seconds that a run may take."""
    what: str = "train"
    """How errors call the function."""

    def run(
        self, children: Sequence[Child], begun: Callable[[Child], None], ended: Callable[[Child, Ending], None]
    ) -> None:
        """Run them all. `begun` is called before each, `ended` after each."""
        waiting, running = list(reversed(children)), dict[int, _Running]()
        try:
            with stop_requests() as stop:
                while waiting or running:
                    if stop.signal_name:
                        raise Stopped(f"stopped by {stop.signal_name}; repeat the command to resume")
                    for place in range(self.jobs):
                        if waiting and place not in running:
                            begun(waiting[-1])
                            running[place] = self._start(waiting.pop(), place)
                    for place, one in list(running.items()):
                        if (ending := one.ending(self.time_limit)) is not None:
                            del running[place]
                            if one.refused:
                                raise ValueError(_cannot_be_carried(self.what, one.refused))
                            ended(one.child, ending)
                    time.sleep(LOOK_SECONDS)
        finally:
            _end(list(running.values()))

    def _start(self, child: Child, place: int) -> _Running:
        child.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            **(one_gpu(place) if self.jobs > 1 else {}),
        }
        with contextlib.ExitStack() as stack:
            out, errors = (stack.enter_context((child.folder / name).open("wb")) for name in (STDOUT, STDERR))
            options: dict[str, Any] = {"stdout": out, "stderr": errors, "env": environment, "start_new_session": True}
            if child.command is not None:
                command = [sys.executable, "-I", guard.__file__, *child.command()]
                return _Running(child, subprocess.Popen(command, **options, stdin=subprocess.DEVNULL))  # noqa: S603
            answer, theirs = os.pipe()
            stack.callback(os.close, theirs)
            os.set_blocking(answer, False)
            command = [sys.executable, "-m", "leanformer.runners.function_child", str(theirs)]
            handed = stack.enter_context(_handed_over(child))
            process = subprocess.Popen(command, **options, stdin=handed, pass_fds=(theirs,))  # noqa: S603
            return _Running(child, process, answer)


def _handed_over(child: Child) -> IO[bytes]:
    """A file without a name that holds this process's path for imports, the arguments, and the function."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    path = [str(Path.cwd()) if place == "" else place for place in sys.path]
    file.write(json.dumps({"path": path, "arguments": list(child.arguments)}).encode() + b"\n")
    file.write(child.function)
    file.seek(0)
    return file


class _Running:
    """A process that runs. The limit of time counts from the moment at which its function arrived."""

    def __init__(self, child: Child, process: subprocess.Popen[bytes], answer: int | None = None) -> None:
        self.child, self.process, self.answer = child, process, answer
        self.began: float | None = time.monotonic() if answer is None else None
        self.refused = ""

    def ending(self, time_limit: float | None) -> Ending | None:
        """How it ended; None as long as it runs."""
        self._listen()
        code, now = self.process.poll(), time.monotonic()
        seconds = 0.0 if self.began is None else now - self.began
        timed_out = code is None and time_limit is not None and seconds > time_limit
        if code is None and not timed_out:
            return None
        self.kill()
        self._listen()
        if self.answer is not None:
            os.close(self.answer)
        return Ending(self.process.wait(), seconds, timed_out)

    def _listen(self) -> None:
        if self.answer is None or self.began is not None:
            return
        try:
            heard = os.read(self.answer, 4096)
        except BlockingIOError:
            return
        if heard == b".":
            self.began = time.monotonic()
        elif heard:
            self.refused = heard.decode(errors="replace")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process and to everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _end(running: Sequence[_Running]) -> None:
    """Ask processes to end; those that take too long are killed."""
    for one in running:
        one.kill(signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    for one in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, deadline - time.monotonic()))
        one.kill()
        one.process.wait()
