"""What every runner does: train the runs that folders describe, and report on them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from leanformer import tasks
from leanformer.foundation.leases import leased
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.base import Record
from leanformer.foundation.storage import mirror_of

FAILURE = "diverged.json"

Event = Mapping[str, Any]
"""What happened to a run: {"event": "progress", "step", "loss"}, {"event": "said", "text"}, {"event": "done"},
{"event": "diverged", "text"} or {"event": "crashed", "text"}."""
Listener = Callable[[Path, Event], None]
"""Receives a run's folder and an event."""


class Runner(Protocol):
    """A place where runs run."""

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        """Train every run. One that diverges is reported and the others continue, and so is one whose process ends
        unexpectedly, after further attempts; an error in what was asked for stops all.
        """


class Failure(Record):
    """Why a run ended without a result."""

    kind: ClassVar[str] = "failure"

    text: str
    crashed: bool = False
    """Whether its process ended unexpectedly, which says nothing of the model; otherwise it diverged."""


def read_failure(folder: Path) -> str | None:
    """Why the run in a folder failed; None if it did not."""
    return Failure.read(folder / FAILURE).text if (folder / FAILURE).is_file() else None


def has_crashed(folder: Path) -> bool:
    return (folder / FAILURE).is_file() and Failure.read(folder / FAILURE).crashed


def note_failure(folder: Path, text: str, crashed: bool = False) -> None:
    Failure(text=text, crashed=crashed).write(folder / FAILURE)


def execute(folder: Path, report: Callable[[Event], None], log_with: str = "") -> None:
    """Train one run in this process, reporting its events."""
    from leanformer.training.loop import train
    from leanformer.training.monitoring import Diverged
    from leanformer.training.run import read_run

    with in_storage(folder) as saved:
        (folder / FAILURE).unlink(missing_ok=True)
        try:
            train(
                folder,
                tasks.load(read_run(folder).task),
                say=lambda text: report({"event": "said", "text": text}),
                progress=lambda step, loss: report({"event": "progress", "step": step, "loss": loss}),
                log_with=log_with,
                saved=saved,
            )
            ending: Event = {"event": "done"}
        except Diverged as error:
            if is_first_process():
                note_failure(folder, str(error))
            ending = {"event": "diverged", "text": str(error)}
    report(ending)


@contextlib.contextmanager
def in_storage(folder: Path) -> Iterator[Callable[[], None]]:
    """Inside, the folder is this process's own, and up to date with the storage that it mirrors, if it mirrors one.

    Gives what is to be called after every checkpoint.
    """
    mirror = mirror_of(folder)
    if mirror is None or not is_first_process():
        yield lambda: None
        return
    with leased(mirror.storage, ".lease", mirror.storage.url) as lease:
        mirror.clear_checkpoints()
        mirror.fetch(checkpoints=True)

        def saved() -> None:
            lease.look()  # what another process has taken over is no longer written to
            mirror.send(checkpoints=True)

        mirror.forget(FAILURE)
        try:
            yield saved
        finally:
            with contextlib.suppress(OSError) if lease.is_lost else contextlib.nullcontext():
                lease.look()
                mirror.send(checkpoints=True)
