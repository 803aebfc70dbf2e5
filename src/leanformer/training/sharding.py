"""One model over several processes: each holds a part of the parameters, of the gradients and of the optimizer state.

This is PyTorch's FSDP2 (`fully_shard`), layer by layer: before a layer runs, the processes put its parameters together,
and afterwards each keeps its part only. So every process must run the same layers in the same order, also where the
processes have different numbers of held-out samples: see `in_step`.

PyTorch's modules for it take a second to import, so only functions that need them do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn

from leanformer.conditioning.probing import Call, sharded_parts
from leanformer.models import families
from leanformer.training.settings import Training

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


def is_divided(settings: Training, accelerator: Accelerator) -> bool:
    """Whether a model is divided: with one process there is nothing to divide it among."""
    return settings.shard == "full" and accelerator.num_processes > 1


def divide(model: nn.Module, settings: Training, accelerator: Accelerator) -> None:
    """Leave to every process its part of a model, in place. Layers are gathered one by one, the rest together.

    In mixed precision, layers are gathered in bfloat16: autocast would keep a bfloat16 copy of every weight for the
    backward pass. Norms and what is outside the layers stay in float32, and so does the residual stream.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    policy = MixedPrecisionPolicy()
    if settings.precision == "bfloat16":
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    layers = {path for path in families.of(model).layer_paths(model) if path}
    for path in sorted(layers, key=lambda path: -path.count(".")):  # inner ones first
        layer = model.get_submodule(path)
        norms: list[nn.Module] = [
            norm for norm in layer.modules() if isinstance(norm, NORMS) and next(norm.parameters(), None) is not None
        ]
        if settings.precision == "bfloat16" and norms:
            fully_shard(norms, mesh=mesh)
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh)


def keep_own_part(model: nn.Module) -> None:
    """After passes without a backward pass: leave to every process its part only, and the first one's buffers."""
    for part in sharded_parts(model):
        part.reshard()
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights, in the main memory of the first process; nothing on the others. All processes must take part."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    found = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    return cast(dict[str, Tensor], found)


def local(tensor: Tensor) -> Tensor:
    """Of a tensor, what this process holds. Only a divided one, a DTensor, can say so."""
    return cast(Tensor, tensor.to_local()) if hasattr(tensor, "to_local") else tensor


@contextmanager
def in_step(model: nn.Module, batch: Any, accelerator: Accelerator) -> Iterator[None]:
    """Let processes run a divided model different numbers of times: those that are ready help the others.

    Before every pass the processes say whether they have one. A process that has none runs the model on the inputs of
    its last pass, or on `batch` if it had none at all. Inside, there may be no other communication.
    """
    if not sharded_parts(model):
        yield
        return
    last = Call.of(batch)

    def anybody(running: bool) -> bool:
        count = torch.tensor(float(running), device=accelerator.device)
        return bool(cast(Tensor, accelerator.reduce(count, "sum")).item())

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal last
        last = Call(args, kwargs)
        anybody(True)

    hook = model.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
    with torch.no_grad():
        while anybody(False):
            model(*last.args, **last.kwargs)
    keep_own_part(model)
