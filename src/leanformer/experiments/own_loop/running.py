"""Where the runs of a user's loop run: functions in this process, or functions and commands in processes of their own,
here or on a Ray cluster.

A run that fails does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leanformer.experiments.own_loop.command import CommandRuns
from leanformer.experiments.own_loop.function import FunctionRuns, failed, forget_failure, interruptible
from leanformer.experiments.own_loop.result import is_finished
from leanformer.foundation import machine
from leanformer.foundation.formats import duration
from leanformer.runners.base import Event, read_failure
from leanformer.runners.children import STDERR, Child, Children, Ending, carried
from leanformer.runners.where import LOCAL, Where

if TYPE_CHECKING:
    from leanformer.runners.children_on_ray import ChildrenOnRay

Open = Mapping[Path, tuple[str, int]]
"""Runs without a result: their folders, each with its arm and seed."""
Hear = Callable[[Path, Event], None]


@dataclass(frozen=True)
class Places:
    """How runs are run."""

    where: Where
    """On this machine, one at a time unless it says otherwise."""
    time_limit: float | None = None
    """Seconds of a run."""

    @property
    def jobs(self) -> int:
        """At a time, on this machine."""
        return self.where.jobs or 1

    def run(self, runs: FunctionRuns | CommandRuns, open_runs: Open, hear: Hear) -> None:
        """Run them all, one after the other or several at a time. A run that fails does not stop the others."""
        if isinstance(runs, FunctionRuns) and self.in_this_process:
            for folder, (arm, seed) in open_runs.items():
                with interruptible():
                    event = runs.run(arm, seed, folder)
                hear(folder, event)
        elif open_runs:
            self._in_processes(runs, open_runs, hear)

    @property
    def in_this_process(self) -> bool:
        return self.where.on == LOCAL and self.jobs == 1 and self.time_limit is None

    def _in_processes(self, runs: FunctionRuns | CommandRuns, open_runs: Open, hear: Hear) -> None:
        function = carried(runs.run, "train") if isinstance(runs, FunctionRuns) else b""

        def child(folder: Path, arm: str, seed: int) -> Child:
            if isinstance(runs, FunctionRuns):
                return Child(folder, function=function, arguments=(arm, seed, str(folder.resolve())))
            return Child(folder, lambda: runs.prepare(arm, seed, folder))

        def ended(ended_child: Child, ending: Ending) -> None:
            folder, (arm, seed) = ended_child.folder, open_runs[ended_child.folder]
            if isinstance(runs, FunctionRuns):
                event = self._of_function(folder, arm, seed, ending)
            else:
                event = runs.finish(arm, seed, folder, ending)
            hear(folder, event)

        children = [child(folder, arm, seed) for folder, (arm, seed) in open_runs.items()]
        self._runner().run(children, lambda begun: forget_failure(begun.folder), ended)

    def _runner(self) -> Children | ChildrenOnRay:
        if self.where.on == LOCAL:
            return Children(self.jobs, max(1, machine.cores() // self.jobs), self.time_limit)
        from leanformer.runners.children_on_ray import ChildrenOnRay

        return ChildrenOnRay(self.where, self.time_limit)

    def _of_function(self, folder: Path, arm: str, seed: int, ending: Ending) -> Event:
        """How a function's process left its run: with a result, with its own failure, or with neither."""
        if is_finished(folder):
            return {"event": "done"}
        if ending.timed_out:
            return failed(folder, arm, seed, f"took longer than {duration(self.time_limit)}")
        if (text := read_failure(folder)) is not None:
            return {"event": "diverged", "text": text}
        return failed(folder, arm, seed, f"its process ended: {ending} ({folder.parent.name}/{folder.name}/{STDERR})")
