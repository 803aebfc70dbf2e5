"""This machine, and the processes that run one program together: who is first, and how many cores there are.

PyTorch and Accelerate are imported by the functions that need them.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
LAUNCHED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that a launcher sets beside WORLD_SIZE."""


# Processes, as torchrun starts them


def process_count() -> int:
    return _from_environment("WORLD_SIZE", default=1, least=1)


def check_processes() -> None:
    """Refuse an environment that no launcher sets: processes would wait for others that do not exist, or say nothing.

    torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """
    count, rank = process_count(), _from_environment("RANK", default=0, least=0)
    if rank >= count:
        raise ValueError(
            f"the environment variable RANK is {rank}, and WORLD_SIZE is {count}: ranks go from 0 to {count - 1}. "
            "Start several processes with torchrun, or unset RANK and WORLD_SIZE"
        )
    if count > 1 and (missing := [name for name in LAUNCHED if not os.environ.get(name)]):
        raise ValueError(
            f"the environment variable WORLD_SIZE is {count}, but {', '.join(missing)} is not set: start several "
            "processes with torchrun, or unset WORLD_SIZE"
        )


def is_first_process() -> bool:
    """Whether this is the process that writes, prints and measures for all of them."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return bool(torch.distributed.get_rank() == 0)
    return _from_environment("RANK", default=0, least=0) == 0


def _from_environment(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and int(text) >= least):
        raise ValueError(f"the environment variable {name} must be a whole number from {least} on, got {text!r:.40}")
    return int(text)


def from_first_process(make: Callable[[], Result]) -> Result:
    """What the first process makes, on all of them. An error there is an error everywhere, so that none waits."""
    if process_count() == 1:
        return make()
    import torch
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    PartialState(cpu=not torch.accelerator.is_available())  # connects the processes, if they are not connected yet
    sent: list[Any] = [None, None]
    if is_first_process():
        try:
            sent = [make(), None]
        except (ValueError, OSError) as error:
            sent = [None, (isinstance(error, OSError), str(error))]
    broadcast_object_list(sent)
    if sent[1] is not None:
        raise (OSError if sent[1][0] else ValueError)(sent[1][1])
    return sent[0]


def disconnect() -> None:
    """Leave the process group, at the end of a program."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


# Cores


def cores() -> int:
    """CPU cores that this process may use: those of its affinity mask, and no more than its cgroup's quota."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, _quota()))


def one_gpu(index: int) -> dict[str, str]:
    """Environment variables that show one GPU to a process, in turns; none without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return {}
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    devices = given if given != [""] else [str(device) for device in range(torch.cuda.device_count())]
    return {"CUDA_VISIBLE_DEVICES": devices[index % len(devices)]}


def _quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Whole cores of the cgroup's quota; without a quota, more than any machine has."""
    try:
        limit, period = path.read_text(encoding="utf-8").split()
        return math.ceil(int(limit) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max"
        return 1 << 20


def cache_folder() -> Path:
    """Where this host keeps what can be made again: LEANFORMER_CACHE [default: ~/.cache/leanformer]."""
    return Path(os.environ.get("LEANFORMER_CACHE") or "~/.cache/leanformer").expanduser()


def processor() -> str:
    """The processor's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
