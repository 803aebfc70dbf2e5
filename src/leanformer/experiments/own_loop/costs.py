"""What each arm costs: closed forms where all arms are designs of known families, else a traced step of each model.

A trace needs an example of what the model takes. Without one, parameters are counted and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from leanformer.architecture import Architecture
from leanformer.conditioning.probing import Call, undisturbed
from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.costs.tracing import Trace, trace
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.records import PlannedArm
from leanformer.foundation.formats import counted
from leanformer.models import families
from leanformer.training.randomness import process_state_kept

Costed = tuple[dict[str, PlannedArm], list[str]]
"""The arms with their costs, and what there is to say about these."""

UNKNOWN = "parameters, MACs and memory are not known: the command makes the models"
NO_EXAMPLE = "only parameters are counted; MACs and memory need an example of what the models take"


def costed(arms: Mapping[str, OwnArm], example: Any = None) -> Costed:
    """Build every arm's model once and count. A model that cannot be made, or cannot take the example, is an error."""
    if any(arm.make is None for arm in arms.values()):
        return {name: PlannedArm(sizes=dict(arm.sizes)) for name, arm in arms.items()}, [UNKNOWN]
    call = None if example is None else Call.of(example)
    with process_state_kept():
        counted_arms = {name: _counted(arm, call) for name, arm in arms.items()}
        designs = {name: arm.architecture for name, arm in counted_arms.items() if arm.architecture is not None}
        if len(designs) == len(arms):
            return _by_closed_forms(counted_arms, designs, call)
        if call is None:
            return counted_arms, [NO_EXAMPLE]
        return _by_traces(counted_arms, arms, call)


def _counted(arm: OwnArm, call: Call | None) -> PlannedArm:
    model = built(arm)
    if call is not None:
        _check_example(arm.name, model, call)
    params = sum(parameter.numel() for parameter in model.parameters())
    return PlannedArm(
        architecture=arm.architecture or _described(model, params),
        sizes=dict(arm.sizes),
        params=params,
        shapes=_shapes(model),
    )


def built(arm: OwnArm) -> nn.Module:
    """The arm's model; what the user's function raises becomes a `ValueError` that names the arm."""
    try:
        return arm.build(0)
    except Exception as error:  # the user's own code
        reason = " ".join(str(error).split())
        if reason.startswith(f"{arm.name}: "):
            raise
        raise ValueError(f"{arm.name}: the model cannot be made: {type(error).__name__}: {reason}") from error


def _check_example(name: str, model: nn.Module, call: Call) -> None:
    try:
        with undisturbed(model), torch.no_grad():
            model(*call.args, **call.kwargs)
    except Exception as error:  # the user's own code
        raise ValueError(
            f"{name}: the model does not take the example: {type(error).__name__}: {' '.join(str(error).split())}; "
            "an example is what the model is called with: a tensor, a tuple of arguments, or a mapping of keywords"
        ) from error


def _described(model: nn.Module, params: int) -> Architecture | None:
    """The design of a model of a known family that the user's function made, with nothing added to it."""
    try:
        design = families.describe(model)
        return design if formula(design).parameters(design).total == params else None
    except ValueError:
        return None


def _shapes(model: nn.Module) -> str:
    """A checksum of the names and shapes of a model's tensors, by which a resumed comparison knows the model again."""
    listed = "".join(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n" for name, tensor in model.state_dict().items())
    return hashlib.sha256(listed.encode()).hexdigest()


# Closed forms


def _by_closed_forms(arms: dict[str, PlannedArm], designs: Mapping[str, Architecture], call: Call | None) -> Costed:
    setting = Setting()
    if call is not None and (batch := _batch(call)) is not None:
        setting = replace(setting, batch=batch, tokens=_tokens(call))
    found = {}
    for name, design in designs.items():
        try:
            cost = formula(design, setting).cost(design, setting)
        except ValueError as error:
            return arms, [f"only parameters are counted: {error}"]
        macs, memory = cost.forward_macs / setting.batch, float(cost.memory_bytes)
        found[name] = arms[name].model_copy(update={"forward_macs": macs, "memory_bytes": memory})
    return found, [f"memory is that of {counted(setting.batch, 'sample')} at a time, by closed forms"]


def _batch(call: Call) -> int | None:
    """Samples of an example: the common first size of its tensors."""
    sizes = {tensor.shape[0] for tensor in _tensors(call) if tensor.ndim}
    return sizes.pop() if len(sizes) == 1 else None


def _tokens(call: Call) -> int | None:
    """The length of texts; None for images."""
    lengths = {tensor.shape[1] for tensor in _tensors(call) if tensor.ndim == 2 and not tensor.is_floating_point()}
    return lengths.pop() if len(lengths) == 1 else None


def _tensors(call: Call) -> list[Tensor]:
    return [leaf for leaf in tree_leaves((list(call.args), dict(call.kwargs))) if isinstance(leaf, Tensor)]


# Traces


def _by_traces(planned: dict[str, PlannedArm], arms: Mapping[str, OwnArm], call: Call) -> Costed:
    batch, found = _batch(call) or 1, dict[str, PlannedArm]()
    for name, arm in planned.items():
        try:
            seen = _traced(arms[name], call)
        except Exception as error:  # the user's own code may do what a trace cannot follow
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            return planned, [f"only parameters are counted: a step of {name} cannot be traced ({why})"]
        params = arm.params or 0
        memory = float(Setting().state_bytes(params) + max(seen.saved_bytes, 4 * params))
        found[name] = arm.model_copy(update={"forward_macs": seen.forward_macs / batch, "memory_bytes": memory})
    return found, [f"memory is that of {counted(batch, 'sample')} at a time, by tracing a step on the example"]


def _traced(arm: OwnArm, call: Call) -> Trace:
    """One step on the meta device; on the CPU if the model makes tensors of its own, which would stay there."""
    try:
        return _step(built(arm).to("meta"), _on_meta(call))
    except Exception:
        return _step(built(arm), call)


def _on_meta(call: Call) -> Call:
    moved = tree_map(lambda leaf: leaf.to("meta") if isinstance(leaf, Tensor) else leaf, (call.args, dict(call.kwargs)))
    return Call(*moved)


def _step(model: nn.Module, call: Call) -> Trace:
    return trace(model.train(), {}, _loss_of(call))


def _loss_of(call: Call) -> Callable[[nn.Module, Any], Tensor]:
    """The loss that the model computes itself, or the mean of its first output."""

    def loss(model: nn.Module, _: Any) -> Tensor:
        output = model(*call.args, **call.kwargs)
        own = getattr(output, "loss", None)
        if isinstance(own, Tensor):
            return own
        leaves = tree_leaves(output.to_tuple() if hasattr(output, "to_tuple") else output)
        outputs = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        if not outputs:
            raise ValueError("no output of the model can be trained")
        return outputs[0].float().mean()

    return loss
