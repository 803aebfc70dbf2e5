"""Runs, several at a time: worker processes that each take one run folder after the other.

A worker is `python -m leanformer.runners.workers`: it reads folders from its input, one a line, and answers in JSON. It
needs nothing but the folder, since runs describe themselves, and ends by itself when its parent is gone. May import
tasks and training.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leanformer import machine as processes
from leanformer.records.files import write_text
from leanformer.tasks.base import load

DIVERGED = "diverged.json"
"""In a run's folder: why it ended without a result."""
Listener = Callable[[Path, Mapping[str, Any]], None]
"""Hears of a run: progress (step, loss), said (text), done, diverged (text)."""


def default_jobs(threads: int) -> int:
    """How many runs this machine takes at a time: one per GPU, or as many as its cores have threads for."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, processes.cores() // threads)


def run_all(folders: Sequence[Path], jobs: int, listen: Listener, threads: int = 1, log_with: str = "") -> None:
    """Train every run; one that diverges is told to `listen` and the others go on, anything else stops all."""
    if processes.process_count() > 1 or jobs == 1 or len(folders) == 1:
        for folder in folders:
            _train(folder, functools.partial(listen, folder), log_with)
    elif folders:
        _Pool(list(folders), min(jobs, len(folders)), listen, threads, log_with).run()


def _train(folder: Path, tell: Callable[[Mapping[str, Any]], None], log_with: str) -> None:
    from leanformer.training.loop import Diverged, train
    from leanformer.training.run import read_run

    (folder / DIVERGED).unlink(missing_ok=True)
    try:
        train(
            folder,
            load(read_run(folder).task),
            say=lambda text: tell({"event": "said", "text": text}),
            progress=lambda step, loss: tell({"event": "progress", "step": step, "loss": loss}),
            log_with=log_with,
        )
    except Diverged as error:
        if processes.is_first_process():
            write_text(folder / DIVERGED, json.dumps({"text": str(error)}) + "\n")
        tell({"event": "diverged", "text": str(error)})
    else:
        tell({"event": "done"})


@dataclass
class _Pool:
    """Worker processes, each with a thread here that feeds it and listens to it."""

    folders: list[Path]
    jobs: int
    listen: Listener
    threads: int
    log_with: str
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self) -> None:
        waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
        events: queue.SimpleQueue[tuple[Path | None, Mapping[str, Any]]] = queue.SimpleQueue()
        for folder in self.folders:
            waiting.put(folder)
        try:
            for index in range(self.jobs):
                worker = self._start(index)
                self.workers.append(worker)
                threading.Thread(target=_serve, args=(worker, waiting, events), daemon=True).start()
            serving = self.jobs
            while serving:
                place, event = events.get()
                if event["event"] == "stopped":
                    raise (OSError if event["kind"] == "OSError" else ValueError)(event["text"])
                if place is None:
                    serving -= 1
                else:
                    self.listen(place, event)
        finally:
            for worker in self.workers:
                worker.kill()
                worker.wait()

    def _start(self, index: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads)}
        import torch

        if torch.cuda.is_available():
            given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            devices = given if given != [""] else [str(device) for device in range(torch.cuda.device_count())]
            environment["CUDA_VISIBLE_DEVICES"] = devices[index % len(devices)]
        command = [sys.executable, "-m", "leanformer.runners.workers", *([self.log_with] if self.log_with else [])]
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
        )


def _serve(worker: subprocess.Popen[str], waiting: queue.SimpleQueue[Path], events: queue.SimpleQueue[Any]) -> None:
    """Whatever happens here is told, or the parent would wait forever."""
    try:
        _feed(worker, waiting, events)
    except Exception as error:
        events.put((None, {"event": "stopped", "kind": "OSError", "text": f"a worker cannot be understood: {error!r}"}))


def _feed(worker: subprocess.Popen[str], waiting: queue.SimpleQueue[Path], events: queue.SimpleQueue[Any]) -> None:
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
            pass  # it is gone; how it ended is told below
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
            text = f"the worker of {folder} ended unexpectedly ({how}); the same command goes on where it stopped"
            events.put((folder, {"event": "stopped", "kind": "OSError", "text": text}))
            return
    worker.stdin.close()
    events.put((None, {"event": "served"}))


def main() -> None:
    """The worker: folders in, lines of JSON out; what libraries print goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted parent ends its workers itself
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    log_with = sys.argv[1] if len(sys.argv) > 1 else ""

    def tell(event: Mapping[str, Any]) -> None:
        try:
            print(json.dumps(event), file=answers, flush=True)
        except BrokenPipeError:
            os._exit(1)  # nobody is listening any more

    for line in sys.stdin:
        try:
            _train(Path(line.rstrip("\n")), tell, log_with)
        except (ValueError, OSError) as error:
            kind = "OSError" if isinstance(error, OSError) else "ValueError"
            tell({"event": "stopped", "kind": kind, "text": str(error)})


if __name__ == "__main__":
    main()
