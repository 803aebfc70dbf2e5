"""Which runner a comparison or sweep uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from leanformer.architecture import Architecture
from leanformer.foundation import machine
from leanformer.models import FAMILIES
from leanformer.runners.base import Runner
from leanformer.runners.here import ThisProcess
from leanformer.runners.processes import WorkerProcesses
from leanformer.tasks import TASKS
from leanformer.tasks.base import Task


def choose(jobs: int | None = None, threads: int = 1, log_with: str = "") -> Runner:
    """Worker processes for several runs at a time, else this process.

    Args:
        jobs: runs at a time; by default one per GPU, or as many as the cores have threads for.
        threads: CPU threads of one run.
        log_with: tensorboard, trackio or wandb.
    """
    jobs = default_jobs(threads) if jobs is None else jobs
    if machine.process_count() > 1 or jobs == 1:
        return ThisProcess(log_with)
    return WorkerProcesses(jobs, threads, log_with)


def findable_jobs(
    jobs: int | None, task: Task, architectures: Iterable[Architecture], say: Callable[[str], None]
) -> int | None:
    """Runs at a time: one, in this process, if workers could not find the code of a task or a family."""
    kind = task.to_dict()["kind"]
    here = [f"the task {kind}"] if TASKS.only_here(kind) else []
    here += [f"the family {key}" for key in sorted({a.family for a in architectures}) if FAMILIES.only_here(key)]
    if not here or machine.process_count() > 1:
        return jobs
    what = (
        f"{here[0]} exists in this process only, since it was defined in a notebook, inside a function, or in a script "
        'without if __name__ == "__main__"'
    )
    where = "defined at the top level of a module or file, worker processes and resumed runs find it"
    if jobs is not None and jobs > 1:
        raise ValueError(f"jobs={jobs}: {what}, and is trained one run at a time; {where}")
    say(f"{what}: its runs are trained here, one at a time; {where}")
    return 1


def default_jobs(threads: int) -> int:
    """How many runs this machine takes at a time: one per GPU, or as many as its cores have threads for."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, machine.cores() // threads)
