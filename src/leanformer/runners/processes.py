"""Several runs at a time: worker processes that each take one run folder after the other.

A worker is `python -m leanformer.runners.worker`. It reads folders from its input, one per line, and answers in lines
of JSON. It needs nothing but the folder, since runs describe themselves, and ends by itself when its parent is gone.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.foundation.machine import one_gpu
from leanformer.foundation.stopping import Stopped, StopRequest, stop_requests
from leanformer.runners.base import Event, Listener
from leanformer.runners.here import ThisProcess

PATIENCE = 20.0
"""Seconds that workers have for a last checkpoint."""
ERRORS: dict[str, type[Exception]] = {"OSError": OSError, "ValueError": ValueError, "Stopped": Stopped}

Worker = subprocess.Popen[str]
Events = queue.SimpleQueue[tuple[Path | None, Event]]
"""Events by run folder; None where a worker ended."""


@dataclass(frozen=True)
class WorkerProcesses:
    """So many workers, each with a thread here that feeds it and listens to it."""

    jobs: int
    threads: int = 1
    log_with: str = ""

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        if len(folders) <= 1:
            ThisProcess(self.log_with).run(folders, listen)
            return
        waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
        events: Events = queue.SimpleQueue()
        for folder in folders:
            waiting.put(folder)
        workers: list[Worker] = []
        try:
            for index in range(min(self.jobs, len(folders))):
                worker = self._start(index)
                workers.append(worker)
                threading.Thread(target=_serve, args=(worker, waiting, events), daemon=True).start()
            with stop_requests() as stop:
                self._listen(len(workers), events, listen, stop)
        finally:
            _end(workers)

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

    def _start(self, index: int) -> Worker:
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


def _end(workers: Sequence[Worker]) -> None:
    """Let workers write a checkpoint and end; those that take too long are killed."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _serve(worker: Worker, waiting: queue.SimpleQueue[Path], events: Events) -> None:
    """Whatever happens in this thread is reported; else the parent would wait forever."""
    try:
        _feed(worker, waiting, events)
    except Exception as error:
        events.put((None, _stopped(f"the answer of a worker cannot be understood: {error!r}")))


def _feed(worker: Worker, waiting: queue.SimpleQueue[Path], events: Events) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    while True:
        try:
            folder = waiting.get_nowait()
        except queue.Empty:
            break
        try:
            worker.stdin.write(f"{folder}\n")
            worker.stdin.flush()
        except OSError:
            pass  # the worker is gone; how it ended is reported below
        for line in worker.stdout:
            event = json.loads(line)
            events.put((folder, event))
            if event["event"] in ("done", "diverged"):
                break
            if event["event"] == "stopped":
                return
        else:
            code = worker.wait()
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            text = f"the worker of {folder} ended unexpectedly ({how}); repeat the command to resume"
            events.put((folder, _stopped(text)))
            return
    worker.stdin.close()
    events.put((None, {"event": "served"}))


def _stopped(text: str) -> dict[str, Any]:
    return {"event": "stopped", "kind": "OSError", "text": text}
