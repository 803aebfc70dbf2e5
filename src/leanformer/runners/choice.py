"""Which runner a comparison or sweep uses."""

from __future__ import annotations

from leanformer.foundation import machine
from leanformer.runners.base import Runner
from leanformer.runners.here import ThisProcess
from leanformer.runners.processes import WorkerProcesses


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


def default_jobs(threads: int) -> int:
    """How many runs this machine takes at a time: one per GPU, or as many as its cores have threads for."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, machine.cores() // threads)
