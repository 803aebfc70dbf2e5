"""Runs of a user's own training loop on a Ray cluster: one Ray task for each, which starts the run's own process.

All nodes must see the folder of the comparison, and have the user's code and its packages at the same places.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leanformer.foundation.formats import counted
from leanformer.foundation.stopping import Stopped, stop_requests
from leanformer.runners.children import PATIENCE, Child, Children, Ending
from leanformer.runners.on_ray import (
    LOOK_SECONDS,
    check_room,
    connected,
    how_it_ended,
    other_versions,
    versions_here,
)
from leanformer.runners.where import Needs, Where

LOST = -9
"""The exit code of a process that was killed, for one whose node is gone."""


@dataclass(frozen=True)
class ChildrenOnRay:
    """A cluster on which runs of a user's own loop run, for the time of these runs."""

    where: Where
    time_limit: float | None = None
    """Seconds that a run may take."""
    what: str = "train"
    """How errors call the function."""

    def run(
        self, children: Sequence[Child], begun: Callable[[Child], None], ended: Callable[[Child, Ending], None]
    ) -> None:
        """Run them all. `begun` is called before each is handed to Ray, `ended` after each."""
        with connected(self.where.on) as ray:
            needs = self._needs(ray)
            check_room(ray, [needs])
            submit = self._submitter(ray, needs)
            waiting, pending = list(reversed(children)), dict[Any, Child]()
            attempts: dict[Path, int] = {}
            try:
                with stop_requests() as stop:
                    while waiting or pending:
                        if stop.signal_name:
                            raise Stopped(f"stopped by {stop.signal_name}; repeat the command to resume")
                        while waiting and len(pending) < (self.where.jobs or len(children)):
                            child = waiting.pop()
                            begun(child)
                            pending[submit(child)] = child
                        for reference in ray.wait(list(pending), num_returns=1, timeout=LOOK_SECONDS)[0]:
                            child = pending.pop(reference)
                            attempts[child.folder] = attempts.get(child.folder, 0) + 1
                            ending = self._ending(ray, reference, attempts[child.folder])
                            if ending is None:
                                waiting.insert(0, child)
                            else:
                                ended(child, ending)
            finally:
                _cancel(ray, list(pending))

    def _needs(self, ray: Any) -> Needs:
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        gpus = float(has_gpus) if self.where.gpus is None else self.where.gpus
        return Needs(1 if self.where.cpus is None else self.where.cpus, gpus, self.where.memory or 0)

    def _submitter(self, ray: Any, needs: Needs) -> Callable[[Child], Any]:
        options: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": 0}
        options |= {"memory": needs.memory} if needs.memory else {}
        runner = Children(1, max(1, int(needs.cpus)), self.time_limit, self.what)
        task = ray.remote(run_here).options(**options)

        def submit(child: Child) -> Any:
            child.folder.mkdir(parents=True, exist_ok=True)
            words = None if child.command is None else tuple(child.command())  # it may need what only this process has
            carried = replace(
                child, folder=child.folder.absolute(), command=None if words is None else partial(tuple, words)
            )
            return task.remote(runner, carried, os.getcwd(), versions_here())

        return submit

    def _ending(self, ray: Any, reference: Any, attempt: int) -> Ending | None:
        """How a run ended; None if it is to be tried again, because its worker or its node died."""
        try:
            found: Ending | str = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise ValueError(f"a node could not start a run: {type(error.cause).__name__}: {error.cause}") from error
        except ray.exceptions.RayError as error:
            if attempt <= self.where.retries:
                return None
            how = f"{how_it_ended(error)}, in {counted(attempt, 'attempt')}"
            return Ending(LOST, 0.0, how=how)
        if isinstance(found, str):
            raise ValueError(found)
        return found


def run_here(runner: Children, child: Child, cwd: str, versions: dict[str, str]) -> Ending | str:
    """Run a child in this Ray worker; returns how it ended, or what a person must mend first."""
    node = socket.gethostname()
    if wrong := other_versions(versions):
        return f"the node {node} {wrong}"
    if not child.folder.is_dir():
        return f"the node {node} does not see {child.folder}: choose a folder that all nodes see"
    with contextlib.suppress(OSError):
        os.chdir(cwd)
    found: list[Ending] = []
    try:
        runner.run([child], lambda begun: None, lambda ended, ending: found.append(ending))
    except ValueError as error:
        return str(error)
    return found[0]


def _cancel(ray: Any, references: Sequence[Any]) -> None:
    """Have runs end, with everything that they started; those that take too long are ended with their workers."""
    for force in (False, True):
        for reference in references:
            with contextlib.suppress(ray.exceptions.RayError, ValueError):
                ray.cancel(reference, force=force)
        if references:
            _, references = ray.wait(references, num_returns=len(references), timeout=PATIENCE)
