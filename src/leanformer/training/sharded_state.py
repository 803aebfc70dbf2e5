"""Checkpoints of a model that is divided among processes. Every process calls these functions, and writes its piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from leanformer.foundation.machine import from_first_process
from leanformer.foundation.records.files import write_text
from leanformer.foundation.records.sums import SUMS, sha256
from leanformer.training.checkpoints import STATE, Checkpoint, Checkpoints, Say, unshared, write_state
from leanformer.training.sharding import local


def save(
    checkpoints: Checkpoints,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    best: int | None,
    accelerator: Accelerator,
) -> None:
    """As `Checkpoints.save`: aside, checksummed, moved into place when all pieces are on the disk."""
    own: dict[str, Tensor] = {}
    aliases: dict[str, dict[str, str]] = {}
    groups: dict[str, list[str]] = {}
    for group, named in tensors.items():
        mine, aliases[group] = unshared(named, place=id)  # some processes hold nothing of a small tensor: no address
        if both := sorted(own.keys() & mine.keys()):
            raise ValueError(f"a checkpoint in pieces cannot hold two tensors named {both[0]}: set shard=none")
        groups[group] = list(mine)
        own |= mine
    sizes: list[int] = gather_object([sum(local(tensor).nbytes for tensor in own.values())])

    def complete() -> None:
        with checkpoints.saving(step):
            write_state(aside, {"aliases": aliases, "groups": groups, **state})
            sums = {STATE: sha256(aside / STATE), **{name: digest for piece in found for name, digest in piece.items()}}
            write_text(aside / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
            checkpoints.complete(step)
        checkpoints.prune(step, best)

    def begin() -> Any:
        with checkpoints.saving(step):
            return checkpoints.begin(step, sum(sizes))

    from leanformer.training import pieces  # PyTorch's modules for it take a second to import

    aside = from_first_process(begin)
    with checkpoints.saving(step):
        pieces.write(aside, own)
        found = _agreed(lambda: pieces.sums_of(aside, accelerator.process_index))
    from_first_process(complete)


def _agreed(make: Callable[[], dict[str, str]]) -> list[dict[str, str]]:
    """What every process makes; or an error on all of them if one cannot."""
    try:
        made, failed = make(), ""
    except OSError as error:
        made, failed = {}, str(error)
    found = gather_object([(made, failed)])
    if failures := [failed for _, failed in found if failed]:
        raise OSError(failures[0])
    return [made for made, _ in found]


def load(checkpoint: Checkpoint, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Fill what each process holds of these tensors from a checkpoint, whatever number of processes wrote it."""
    from leanformer.training import pieces

    pieces.load(
        checkpoint.folder,
        {
            name: tensor
            for group, found in tensors.items()
            for name, tensor in found.items()
            if name not in checkpoint.aliases[group]
        },
    )


def latest(checkpoints: Checkpoints, say: Say, check: Callable[[Checkpoint], None]) -> Checkpoint | None:
    """The newest good checkpoint, as the first process finds it, which alone computes checksums. Without tensors."""

    def found() -> int | None:
        newest = checkpoints.latest(say, check, whole=False)
        return None if newest is None else newest.step

    step = from_first_process(found)
    return None if step is None else checkpoints.opened(step, whole=False)


def optimizer_places(checkpoint: Checkpoint, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Empty tensors for the optimizer's state in a checkpoint, divided as its parameters are."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    places = {}
    for name, shape in checkpoint.shapes.get("optimizer", {}).items():
        parameter = parameters[int(name.partition(".")[0])]
        places[name] = torch.zeros_like(parameter) if shape == parameter.shape and shape else torch.zeros(shape)
    return places
