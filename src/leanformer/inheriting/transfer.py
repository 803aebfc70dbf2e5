"""Put the weights of a trained model into one with fewer layers, more heads and other MLPs.

In the regime `fixed` a new head changes nothing at first: either its weights are fresh and what is read of it is zero,
or it is a copy, and the output weights of all copies add up to those that were there. In `split`, a head's columns are
divided between several heads. Their scores are then sums over fewer columns, so the function changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from leanformer.architecture import Architecture, Stage
from leanformer.inheriting.places import NEW, HeadPlaces, NewHeads, neuron_places
from leanformer.inheriting.units import Axis, axes_of, nearest, place_of, stages_of
from leanformer.models import families

SPREAD = 0.5
"""How far the output weights of copies are moved apart, in root mean squares of these weights. Copies with the same
output weights would get the same gradients, and never differ."""


@dataclass(frozen=True)
class Transfer:
    """What becomes of a trained model's weights."""

    layers: Sequence[int]
    """For each layer of the new model, the trained one that it begins with."""
    new_heads: NewHeads = "fresh"
    neurons: Mapping[str, Int[Tensor, " kept"]] | None = None
    """The neurons that stay where MLPs become narrower, by the name of the trained tensor that reads them."""
    seed: int = 0
    """Of fresh weights."""


@torch.no_grad()
def inherited(trained: nn.Module, architecture: Architecture, transfer: Transfer) -> nn.Module:
    """A model of this architecture, and of the trained one's kind, that begins with the trained one's weights."""
    with torch.random.fork_rng(()):
        torch.manual_seed(transfer.seed)
        model = families.of(trained).build(architecture, like=trained)
        model.load_state_dict(_Weights(trained, model, transfer).state())
    if hasattr(model, "tie_weights"):
        cast(Any, model).tie_weights()
    _like(trained, model)
    return model.train(trained.training)


def _like(trained: nn.Module, model: nn.Module) -> None:
    """On the trained model's device, and in its precision; buffers that are not saved stay as upstream made them."""
    first = next(trained.parameters())
    model.to(first.device)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(first.dtype)
    saved = trained.state_dict().keys()
    dtypes = {name: buffer.dtype for name, buffer in trained.named_buffers() if name in saved}
    for name, buffer in model.named_buffers():
        buffer.data = buffer.data.to(dtypes.get(name, buffer.dtype))


class _Weights:
    """The tensors of a new model, made of a trained one's."""

    def __init__(self, trained: nn.Module, model: nn.Module, transfer: Transfer) -> None:
        self.transfer, self.family = transfer, families.of(trained)
        self.old: dict[str, Tensor] = {name: tensor.detach().cpu() for name, tensor in trained.state_dict().items()}
        self.fresh: dict[str, Tensor] = dict(model.state_dict())
        self.old_paths, self.paths = self.family.layer_paths(trained), self.family.layer_paths(model)
        self.stages = stages_of(model)
        self.before, self.after = (families.describe(module).layers for module in (trained, model))
        self.axes = axes_of(families.describe(model), trained)
        self.queries = max((axis.shared for axis in self.axes.values()), default=1)

    def state(self) -> dict[str, Tensor]:
        return {name: self._tensor(name, fresh) for name, fresh in self.fresh.items()}

    def _tensor(self, name: str, fresh: Tensor) -> Tensor:
        layer = next((number for number, path in enumerate(self.paths) if name.startswith(f"{path}.")), None)
        source = self._source(name, layer)
        if source not in self.old:
            raise ValueError(f"the trained model has no {source}, with which {name} should begin")
        old, axis = self.old[source].to(fresh.dtype), self.axes.get(place_of(name, self.paths, self.stages))
        if axis is not None:
            return self._in_units(axis, old, fresh, self._sizes(layer), source)
        if old.shape != fresh.shape:
            raise ValueError(
                f"{name} does not fit: {tuple(old.shape)} in the trained model, {tuple(fresh.shape)} in the new one"
            )
        return old

    def _source(self, name: str, layer: int | None) -> str:
        """The trained tensor that a tensor begins with."""
        if layer is None:
            return name
        return self.old_paths[self.transfer.layers[layer]] + name.removeprefix(self.paths[layer])

    def _sizes(self, layer: int | None) -> tuple[Stage, Stage]:
        """Of a layer, before and after; what is outside all layers follows the last one."""
        if layer is None:
            return self.before[-1], self.after[-1]
        return self.before[self.transfer.layers[layer]], self.after[layer]

    def _in_units(self, axis: Axis, old: Tensor, fresh: Tensor, sizes: tuple[Stage, Stage], source: str) -> Tensor:
        if axis.unit == "neuron":
            return _filled(axis, old, fresh, self._neurons(axis, old, fresh, source))
        heads = HeadPlaces(*sizes, self.queries, self.transfer.new_heads)
        if axis.unit == "column":  # a norm that the parts of a head share
            return old.unflatten(axis.dim, (heads.parts, -1)).mean(axis.dim)
        places, gains = heads.places(axis), [self.family.attention_gain(size) for size in sizes]
        filled = _filled(axis, old, fresh, places)
        return filled * (gains[0] / gains[1]) if axis.reads else filled

    def _neurons(self, axis: Axis, old: Tensor, fresh: Tensor, source: str) -> Int[Tensor, " length"]:
        before, after = (tensor.shape[axis.dim] // axis.copies for tensor in (old, fresh))
        kept = None
        if after < before:
            neurons = self.transfer.neurons or {}
            kept = neurons[nearest(source, neurons)]
        return neuron_places(axis, before, after, kept)


def _filled(axis: Axis, old: Tensor, fresh: Tensor, places: Int[Tensor, " length"]) -> Tensor:
    """The old entries at their new places. Others stay fresh; where they are read, they are zero."""
    taken = old.index_select(axis.dim, places.clamp(min=0))
    along = [-1 if dim == axis.dim else 1 for dim in range(fresh.ndim)]
    if not axis.reads:
        return torch.where((places == NEW).view(along), fresh, taken)
    taken = taken / torch.bincount(places[places != NEW])[places.clamp(min=0)].view(along)
    return torch.where((places == NEW).view(along), 0.0, taken + _apart(axis, old, places))


def _apart(axis: Axis, old: Tensor, places: Int[Tensor, " length"]) -> Tensor:
    """What is added to the output weights of copies: random, and zero in sum over all copies of an entry."""
    counts = torch.bincount(places.clamp(min=0), minlength=old.shape[axis.dim])
    if counts.max() <= 1 or (places == NEW).any():
        return torch.zeros(())
    shape = [len(places) if dim == axis.dim else size for dim, size in enumerate(old.shape)]
    drawn = SPREAD * old.square().mean().sqrt() * torch.randn(shape, dtype=old.dtype)
    along = [-1 if dim == axis.dim else 1 for dim in range(old.ndim)]
    means = torch.zeros_like(old).index_add(axis.dim, places, drawn) / counts.view(along)
    copied = (counts > 1)[places].view(along)
    return torch.where(copied, drawn - means.index_select(axis.dim, places), 0.0)
