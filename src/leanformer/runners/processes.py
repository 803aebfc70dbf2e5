"""Several runs at a time: worker processes that each take one run folder after the other.

A worker is `python -m leanformer.runners.worker`. It reads folders from its input, one per line, and answers in lines
of JSON. It needs nothing but the folder, since runs describe themselves, and ends by itself when its parent is gone. A
worker that ends unexpectedly is replaced, and its run is tried again from its last checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leanformer.foundation.formats import counted
from leanformer.foundation.machine import one_gpu
from leanformer.foundation.stopping import Stopped, StopRequest, stop_requests
from leanformer.runners.base import Event, Listener, note_failure
from leanformer.runners.here import ThisProcess
from leanformer.runners.where import RETRIES

PATIENCE = 20.0
"""Seconds that workers have for a last checkpoint."""
ERRORS: dict[str, type[Exception]] = {"OSError": OSError, "ValueError": ValueError, "Stopped": Stopped}

Worker = subprocess.Popen[str]
Attempt = tuple[Path, int]
"""A run's folder, and how often it was tried before."""
Events = queue.SimpleQueue[tuple[Path | None, Event]]
"""Events by run folder; None where a worker ended."""


@dataclass(frozen=True)
class WorkerProcesses:
    """So many workers, each with a thread here that feeds it and listens to it."""

    jobs: int
    threads: int = 1
    log_with: str = ""
    retries: int = RETRIES

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        if len(folders) <= 1:
            ThisProcess(self.log_with).run(folders, listen)
            return
        waiting: queue.SimpleQueue[Attempt] = queue.SimpleQueue()
        events: Events = queue.SimpleQueue()
        for folder in folders:
            waiting.put((folder, 0))
        slots = [_Slot(self, index, waiting, events) for index in range(min(self.jobs, len(folders)))]
        try:
            for slot in slots:
                threading.Thread(target=slot.serve, daemon=True).start()
            with stop_requests() as stop:
                self._listen(len(slots), events, listen, stop)
        finally:
            _end(slots)

    @staticmethod
    def _listen(serving: int, events: Events, listen: Listener, stop: StopRequest) -> None:
        """Pass on what happens until all workers are done, one fails, or a signal asks to stop."""
        while serving:
            if stop.signal_name:
                raise Stopped(f"stopped by {stop.signal_name}; repeat the command to resume")
            try:
                place, event = events.get(timeout=0.2)
            except queue.Empty:
                continue
            if event["event"] == "stopped":
                raise ERRORS[event["kind"]](event["text"])
            if place is None:
                serving -= 1
            else:
                listen(place, event)

    def start(self, index: int) -> Worker:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads)}
        environment |= one_gpu(index)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # a worker imports what this process does
        command = [sys.executable, "-m", "leanformer.runners.worker", *([self.log_with] if self.log_with else [])]
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which ends its workers
        )


@dataclass
class _Slot:
    """One of the runs at a time: a worker, and another one if that ends unexpectedly."""

    runner: WorkerProcesses
    index: int
    waiting: queue.SimpleQueue[Attempt]
    events: Events
    worker: Worker | None = None
    ending: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        """Whatever happens in this thread is reported; else the parent would wait forever."""
        try:
            while self._take():
                pass
        except Exception as error:
            self.events.put((None, _stopped(f"the answer of a worker cannot be understood: {error!r}")))

    def _take(self) -> bool:
        """Have the next run trained; whether there may be another one."""
        try:
            folder, tried = self.waiting.get_nowait()
        except queue.Empty:
            self._close()
            self.events.put((None, {"event": "served"}))
            return False
        worker = self._living()
        if worker is None:
            return False
        how = self._feed(worker, folder)
        if how is None:
            return True
        if self.ending or how == "stopped":
            return False
        self.worker = None
        self._note_crash(folder, tried, how)
        return True

    def _living(self) -> Worker | None:
        """A worker that takes runs; None if all are being ended."""
        with self._lock:
            if self.worker is None and not self.ending:
                self.worker = self.runner.start(self.index)
            return None if self.ending else self.worker

    def _feed(self, worker: Worker, folder: Path) -> str | None:
        """Give a run to a worker and pass on its answers. If it ended unexpectedly, how; "stopped" if all must stop."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(f"{folder}\n")
            worker.stdin.flush()
        except OSError:
            pass  # the worker is gone; how it ended is reported below
        for line in worker.stdout:
            event = json.loads(line)
            self.events.put((folder, event))
            if event["event"] in ("done", "diverged"):
                return None
            if event["event"] == "stopped":
                return "stopped"
        code = worker.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def _note_crash(self, folder: Path, tried: int, how: str) -> None:
        """Try the run again, at the end of the line; after the last attempt, write down why it failed."""
        if tried < self.runner.retries:
            text = f"its process ended unexpectedly ({how}); it is tried again from its last checkpoint"
            self.events.put((folder, {"event": "said", "text": f"{folder}: {text}"}))
            self.waiting.put((folder, tried + 1))
            return
        text = f"its process ended unexpectedly ({how}) in {counted(tried + 1, 'attempt')}"
        note_failure(folder, text, crashed=True)
        self.events.put((folder, {"event": "crashed", "text": text}))

    def _close(self) -> None:
        with self._lock:
            if self.worker is not None and self.worker.stdin is not None:
                self.worker.stdin.close()

    def end(self) -> Worker | None:
        """Let the worker write a checkpoint; no other one is started."""
        with self._lock:
            self.ending = True
            if self.worker is not None:
                self.worker.terminate()
            return self.worker


def _end(slots: Sequence[_Slot]) -> None:
    """Let workers write a checkpoint and end; those that take too long are killed."""
    workers = [worker for slot in slots if (worker := slot.end()) is not None]
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _stopped(text: str) -> dict[str, Any]:
    return {"event": "stopped", "kind": "OSError", "text": text}
