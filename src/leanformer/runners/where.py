"""Where runs run and what each of them may take, as people say it: on="ray", cpus=2, memory="8GB", retries=3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from leanformer.foundation.arguments import ArgumentError, size

LOCAL, RAY = "local", "ray"
RETRIES = 2
LIBRARIES = 1_500_000_000
"""Bytes that a process takes before it holds a model."""


@dataclass(frozen=True)
class Where:
    """A choice of a runner."""

    on: str = LOCAL
    """local, ray (a cluster that runs, or else one of this machine), or ray://HOST:PORT."""
    jobs: int | None = None
    """Runs at a time; by default as many as there is room for."""
    retries: int = RETRIES
    """Further attempts at a run whose process ended unexpectedly."""
    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None
    """What one run takes; by default its threads, a GPU where there are some, and what the cost model says."""

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Where:
        """From the arguments of a public function, checked."""
        given = {name: arguments.get(name) for name in ("on", "jobs", "retries", "cpus", "gpus", "memory")}
        on = LOCAL if given["on"] is None else str(given["on"])
        if on not in (LOCAL, RAY) and not re.fullmatch(r"ray://[^\s/]+:\d+", on):
            raise ArgumentError('{on} must be "local", "ray" or "ray://HOST:10001", got {given!r}', given=given["on"])
        if on != LOCAL and find_spec("ray") is None:
            raise ArgumentError('{on}={given!r} needs Ray: pip install "leanformer[cluster]"', given=on)
        for name, least in (("jobs", 1), ("retries", 0)):
            value = given[name]
            if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < least):
                raise ArgumentError(f"{{{name}}} must be at least {least}, got {{given!r}}", given=value)
        for name in ("cpus", "gpus"):
            value = given[name]
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1e6
            ):
                raise ArgumentError(f"{{{name}}} must be a number of at least 0, got {{given!r}}", given=value)
        needs = [name for name in ("cpus", "gpus", "memory") if given[name] is not None]
        if needs and on == LOCAL:
            raise ArgumentError(f'{{{needs[0]}}} needs {{on}}="ray": on this machine, {{jobs}} says how many runs fit')
        memory = None if given["memory"] is None else size("memory", given["memory"], unit="B")
        retries = RETRIES if given["retries"] is None else int(given["retries"])
        return cls(on, given["jobs"], retries, given["cpus"], given["gpus"], memory)


@dataclass(frozen=True)
class Needs:
    """What one run takes of a machine."""

    cpus: float
    gpus: float
    memory: int
    """Bytes."""


def needs_of(folder: Path, where: Where, has_gpus: bool) -> Needs:
    """What the run in a folder takes: as was said, or else by its threads and the cost model."""
    from leanformer import tasks
    from leanformer.costs.closed_forms import formula
    from leanformer.training.run import Run

    run = Run.read(folder / "run.json")
    gpus = float(has_gpus) if where.gpus is None else where.gpus
    memory = where.memory
    if memory is None:
        memory = LIBRARIES
        if not gpus:
            setting = run.training.cost_setting(tasks.load(run.task).tokens)
            memory += formula(run.architecture, setting).cost(run.architecture, setting).memory_bytes
    return Needs(run.training.threads if where.cpus is None else where.cpus, gpus, memory)
