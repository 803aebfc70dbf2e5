"""Which runner a comparison or sweep uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from leanformer.architecture import Architecture
from leanformer.foundation import machine
from leanformer.models import FAMILIES
from leanformer.runners.base import Runner
from leanformer.runners.here import ThisProcess
from leanformer.runners.processes import WorkerProcesses
from leanformer.runners.where import LOCAL, Where
from leanformer.tasks import TASKS
from leanformer.tasks.base import Task


def choose(where: Where = Where(), threads: int = 1, log_with: str = "") -> Runner:  # noqa: B008  it cannot be changed
    """A Ray cluster if that was asked for; else worker processes for several runs at a time, or this process.

    Args:
        where: what was asked for.
        threads: CPU threads of one run.
        log_with: tensorboard, trackio or wandb.
    """
    if where.on != LOCAL:
        if machine.process_count() > 1:
            raise ValueError(f'on="{where.on}" places whole runs itself: start it as one process, not with torchrun')
        from leanformer.runners.on_ray import OnRay

        return OnRay(where, threads, log_with)
    jobs = default_jobs(threads) if where.jobs is None else where.jobs
    if machine.process_count() > 1 or jobs == 1:
        return ThisProcess(log_with)
    return WorkerProcesses(jobs, threads, log_with, where.retries)


def findable(where: Where, task: Task, architectures: Iterable[Architecture], say: Callable[[str], None]) -> Where:
    """One run at a time, in this process, if workers could not find the code of a task or a family."""
    kind = task.to_dict()["kind"]
    here = [f"the task {kind}"] if TASKS.only_here(kind) else []
    here += [f"the family {key}" for key in sorted({a.family for a in architectures}) if FAMILIES.only_here(key)]
    if not here or machine.process_count() > 1:
        return where
    what = (
        f"{here[0]} exists in this process only, since it was defined in a notebook, inside a function, or in a script "
        'without if __name__ == "__main__"'
    )
    how = "defined at the top level of a module or file, worker processes and resumed runs find it"
    if where.on != LOCAL:
        raise ValueError(f'on="{where.on}": {what}; {how}')
    if where.jobs is not None and where.jobs > 1:
        raise ValueError(f"jobs={where.jobs}: {what}, and is trained one run at a time; {how}")
    say(f"{what}: its runs are trained here, one at a time; {how}")
    return replace(where, jobs=1)


def default_jobs(threads: int) -> int:
    """How many runs this machine takes at a time: one per GPU, or as many as its cores have threads for."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, machine.cores() // threads)
