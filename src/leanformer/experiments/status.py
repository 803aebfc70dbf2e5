"""What became of a study's runs so far: which wait, train, have stopped, have failed or are done."""

from __future__ import annotations

import functools
import os
import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal, get_args

from leanformer.experiments.own_loop.records import PLAN as OWN_PLAN
from leanformer.experiments.own_loop.records import OwnPlan
from leanformer.experiments.own_loop.result import is_finished as is_own_finished
from leanformer.experiments.plan import folder_of
from leanformer.foundation import storage
from leanformer.foundation.formats import counted, duration
from leanformer.foundation.records.base import Record, RecordPart
from leanformer.foundation.records.files import read_json, worker_in
from leanformer.runners.base import read_failure
from leanformer.training.monitoring import step_seconds, steps_done
from leanformer.training.result import is_finished
from leanformer.training.run import RESULT, RUN

State = Literal["running", "queued", "stopped", "failed", "done"]
"""Of a run: a process trains it; nothing has been done; it was begun and no process trains it; it diverged; it has a
result."""
RECENT = 20
"""Stretches of steps by which the speed of a run is judged."""


class RunStatus(RecordPart):
    """One run."""

    place: str
    """Its folder, from the study's on."""
    name: str
    seed: int
    state: State
    step: int
    steps: int
    where: str = ""
    """Host and process that train it."""
    step_seconds: float | None = None
    seconds_left: float | None = None
    reason: str = ""
    """Why it failed, or what is wrong with its folder."""

    @property
    def words(self) -> str:
        """Its state: "running on host 123, step 40 of 100, 2.5 min left"."""
        if self.state != "running":
            return self.state + (f" at step {self.step:,} of {self.steps:,}" if self.state == "stopped" else "")
        left = "" if self.seconds_left is None else f", {duration(self.seconds_left)} left"
        return f"running on {self.where}, step {self.step:,} of {self.steps:,}{left}"


class Status(Record):
    """All runs of a study."""

    kind: ClassVar[str] = "status"
    version: ClassVar[int] = 2

    study: str
    runs: list[RunStatus]
    worker: str = ""
    """Host and process that work on the study as a whole, and may describe further runs."""

    def of(self, *states: State) -> list[RunStatus]:
        return [run for run in self.runs if run.state in states]

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return not self.worker and not self.of("running", "queued", "stopped")

    def sentences(self) -> list[str]:
        counts = [f"{len(found)} {state}" for state in get_args(State) if (found := self.of(state))]
        said = [f"{counted(len(self.runs), 'run')}: {', '.join(counts)}"]
        known = [run.seconds_left for run in self.of("running") if run.seconds_left is not None]
        if known:
            said.append(f"the runs that train now take {duration(max(known))} more at their present speed")
        return said + [f"{run.place} failed: {run.reason}" for run in self.of("failed")]

    def glance(self) -> str:
        return f"{self.study!r}, {self.sentences()[0]}"


def status(study: str | Path) -> Status:
    """The runs in the folder of a comparison, a sweep or GLUE, in any folder that holds some, or at a URL.

    >>> lf.status("runs/compare-digits").is_over
    """
    folder = storage.local(study)
    if not folder.is_dir():
        raise ValueError(f"{study} is not a folder")
    runs = [*_trained_here(folder), *_of_own_loops(folder)]
    if not runs:
        raise ValueError(f"{study} holds no runs: it has neither a {RUN} nor an {OWN_PLAN}")
    return Status(study=str(study), runs=runs, worker=worker_in(folder))


def _trained_here(study: Path) -> Iterator[RunStatus]:
    for path in sorted(study.rglob(RUN)):
        folder, place = path.parent, str(path.parent.relative_to(study))
        try:  # as plain values: the code of a user's task need not be here
            written = read_json(path)
            name, seed, steps = str(written["name"]), int(written["seed"]), int(written["training"]["steps"])
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{path} is damaged: {error}"
            yield RunStatus(place=place, name="", seed=0, state="failed", step=0, steps=0, reason=reason)
            continue
        yield _judged(folder, place, name, seed, steps)


def judged(folder: Path) -> RunStatus:
    """What became of the one run that a folder describes."""
    return next(_trained_here(folder))


@functools.lru_cache(maxsize=4096)
def _finished(folder: Path, stamp: tuple[int, int], name: str, seed: int, steps: int) -> RunStatus | None:
    """A finished run, which stays as it is while its result does: whoever watches a study reads it once."""
    if not is_finished(folder):
        return None
    speeds = step_seconds(folder)[-RECENT:]
    speed = statistics.median(speeds) if speeds else None
    return RunStatus(place="", name=name, seed=seed, state="done", step=steps, steps=steps, step_seconds=speed)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _is_untouched(folder: Path) -> bool:
    """Whether a run was described and nothing else, which is most of a large study and quick to see."""
    try:
        return os.listdir(folder) == [RUN]
    except OSError:
        return False


def _judged(folder: Path, place: str, name: str, seed: int, steps: int) -> RunStatus:
    if _is_untouched(folder):
        return RunStatus(place=place, name=name, seed=seed, state="queued", step=0, steps=steps)
    if done := _finished(folder.absolute(), _stamp(folder / RESULT), name, seed, steps):
        return done.model_copy(update={"place": place, "reason": read_failure(folder) or ""})
    worker, step = worker_in(folder), steps_done(folder)
    speeds, reason = step_seconds(folder)[-RECENT:], read_failure(folder) or ""
    state: State
    if worker:
        state, reason = "running", ""
    elif reason:
        state = "failed"
    else:
        state = "stopped" if step or speeds or any(folder.glob("checkpoints/*")) else "queued"
    speed = statistics.median(speeds) if speeds else None
    return RunStatus(
        place=place,
        name=name,
        seed=seed,
        state=state,
        step=min(step, steps),
        steps=steps,
        where=worker if state == "running" else "",
        step_seconds=speed,
        seconds_left=(steps - step) * speed if speed is not None and state == "running" else None,
        reason=reason,
    )


def _of_own_loops(study: Path) -> Iterator[RunStatus]:
    """Runs of training loops of one's own, of which only the results are seen."""
    for path in sorted(study.rglob(OWN_PLAN)):
        for arm, seed in OwnPlan.read(path).runs():
            folder = folder_of(path.parent, arm, seed)
            done, reason = is_own_finished(folder), read_failure(folder) or ""
            state: State = "done" if done else "failed" if reason else "queued"
            place = str(folder.relative_to(study))
            yield RunStatus(
                place=place, name=arm, seed=seed, state=state, step=int(done), steps=1, reason="" if done else reason
            )


def open_commands(study: str | Path, program: Sequence[str] = ("leanformer",)) -> list[str]:
    """One command for each run that is open: queued or stopped. They are for any launcher.

    Each may be started on any host that sees the folder, in any order, and again after a stop: a run that is done or
    being trained elsewhere is left alone.
    """
    folder = storage.local(study)
    if own := next(iter(sorted(folder.rglob(OWN_PLAN))), None):
        raise ValueError(
            f"{own.parent} is the comparison of a training loop of one's own, whose runs have no commands: repeat the "
            "comparison's command"
        )
    waiting = status(study).of("queued", "stopped")
    whole = str(study).rstrip("/") if storage.is_url(study) else str(folder)
    return [shlex.join([*program, "train", f"{whole}/{run.place}" if run.place != "." else whole]) for run in waiting]
