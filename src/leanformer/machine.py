"""The processes that run one program together, as torchrun starts them. Accelerate and torch only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


def from_first(make: Callable[[], Result]) -> Result:
    """What the first process makes, on all of them; an error there is an error everywhere, so that none waits on."""
    if count() == 1:
        return make()
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    PartialState(cpu=not torch.accelerator.is_available())  # connects the processes, if they are not yet
    sent: list[Any] = [None, None]
    if is_first():
        try:
            sent = [make(), None]
        except (ValueError, OSError) as error:
            sent = [None, (isinstance(error, OSError), str(error))]
    broadcast_object_list(sent)
    if sent[1] is not None:
        raise (OSError if sent[1][0] else ValueError)(sent[1][1])
    return sent[0]


def disconnect() -> None:
    """At the end of a program."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
