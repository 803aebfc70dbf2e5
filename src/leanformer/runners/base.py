"""What every runner does: train the runs that folders describe, and report on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from leanformer import tasks
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.base import Record

FAILURE = "diverged.json"

Event = Mapping[str, Any]
"""What happened to a run: {"event": "progress", "step", "loss"}, {"event": "said", "text"}, {"event": "done"} or
{"event": "diverged", "text"}."""
Listener = Callable[[Path, Event], None]
"""Receives a run's folder and an event."""


class Runner(Protocol):
    """A place where runs run."""

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        """Train every run. One that diverges is reported and the others continue; any other error stops all."""


class Failure(Record):
    """Why a run ended without a result."""

    kind: ClassVar[str] = "failure"

    text: str


def read_failure(folder: Path) -> str | None:
    """Why the run in a folder failed; None if it did not."""
    return Failure.read(folder / FAILURE).text if (folder / FAILURE).is_file() else None


def execute(folder: Path, report: Callable[[Event], None], log_with: str = "") -> None:
    """Train one run in this process, reporting its events."""
    from leanformer.training.loop import train
    from leanformer.training.monitoring import Diverged
    from leanformer.training.run import read_run

    (folder / FAILURE).unlink(missing_ok=True)
    try:
        train(
            folder,
            tasks.load(read_run(folder).task),
            say=lambda text: report({"event": "said", "text": text}),
            progress=lambda step, loss: report({"event": "progress", "step": step, "loss": loss}),
            log_with=log_with,
        )
    except Diverged as error:
        if is_first_process():
            Failure(text=str(error)).write(folder / FAILURE)
        report({"event": "diverged", "text": str(error)})
    else:
        report({"event": "done"})
