"""Which dimensions of a layer's tensors are made of heads, and which of MLP neurons.

No family states it. A few models with other sizes are built on the meta device, and their shapes are compared: a
dimension that doubles with the number of heads is made of heads. So one piece of code covers every family, those of
other packages too.

Inside a dimension, units are laid out as all families have it: first the copies (query, key and value in one tensor),
then the heads, then the columns of a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from torch import nn

from leanformer.architecture import Architecture
from leanformer.models import families

Unit = Literal["head", "key head", "column", "neuron"]
"""What a dimension is made of: heads (of queries), heads of keys and values that several queries share, the columns of
one head, or neurons of the MLP."""
FACTORS = (Fraction(2), Fraction(3), Fraction(1, 2), Fraction(1, 3), Fraction(4), Fraction(5))
"""By what a size is multiplied, the first that the family can build."""


@dataclass(frozen=True)
class Axis:
    """A dimension of a tensor that is made of units."""

    dim: int
    unit: Unit
    copies: int
    """Blocks of all units, one after the other: 3 for queries, keys and values in one tensor."""
    inner: int | None
    """Entries of one unit; None for head_dim."""
    shared: int = 1
    """For key heads: how many heads share one."""
    reads: bool = False
    """Whether the tensor takes the units as its input, so that what it reads of a new unit can be zero."""


Axes = Mapping[str, Axis]
"""By a tensor's place: its name inside its layer behind the stage's number, or its name in the model."""


def place_of(name: str, layers: Sequence[str], stages: Sequence[int]) -> str:
    """Where a tensor stands: `0:attn.qkv.weight` in a layer of stage 0, or its own name if it is outside all layers."""
    for path, stage in zip(layers, stages, strict=True):
        if name.startswith(f"{path}."):
            return f"{stage}:{name.removeprefix(path)[1:]}"
    return name


def stages_of(model: nn.Module) -> list[int]:
    """For each layer, the stage that it belongs to by construction; 0 where stages are a schedule."""
    family = families.of(model)
    found = {part.layer: part.stage for part in family.parts(model) if part.kind != "class"}
    return [stage for _, stage in sorted(found.items())]


def axes_of(architecture: Architecture, like: nn.Module) -> Axes:
    """The dimensions that are made of units, in models of this architecture and of the kind of `like`."""
    return _Comparison(architecture, like).axes()


class _Comparison:
    """A model of one layer per stage, beside others with more heads, larger heads and more neurons."""

    def __init__(self, architecture: Architecture, like: nn.Module) -> None:
        self.family, self.like = families.family(architecture.family), like
        stages = architecture.stages if self.family.stage_count is not None else architecture.stages[:1]
        self.reference = replace(architecture, stages=tuple(replace(stage, depth=1) for stage in stages))
        self.model = self._build(self.reference)
        self.names = {place: name for name, place in self._places(self.model).items()}
        self.shapes = self._shapes(self.model)
        self.changed = {size: self._changed(size) for size in ("heads", "head_dim", "mlp_dim")}

    def _build(self, architecture: Architecture) -> nn.Module:
        return self.family.build(architecture, "meta", self.like)

    def _places(self, model: nn.Module) -> dict[str, str]:
        layers, stages = self.family.layer_paths(model), stages_of(model)
        return {name: place_of(name, layers, stages) for name in model.state_dict()}

    def _shapes(self, model: nn.Module) -> dict[str, tuple[int, ...]]:
        places = self._places(model)
        return {places[name]: tuple(tensor.shape) for name, tensor in model.state_dict().items()}

    def _changed(self, size: str) -> dict[str, list[int]]:
        """For each tensor, the dimensions that grow with a size."""
        factor, others = self._with_other(size)
        found: dict[str, list[int]] = {}
        for place, shape in self.shapes.items():
            other = others[place]
            found[place] = [dim for dim in range(len(shape)) if shape[dim] != other[dim]]
            if wrong := [dim for dim in found[place] if other[dim] != factor * shape[dim]]:
                raise ValueError(
                    f"{place} of {self.reference.name} is not divided into units of {size}: its dimension {wrong[0]} "
                    f"is {shape[wrong[0]]}, and {other[wrong[0]]} in a model with {factor} times as many"
                )
        return found

    def _with_other(self, size: str) -> tuple[Fraction, dict[str, tuple[int, ...]]]:
        problem = ValueError("no factor divides it")
        for factor in FACTORS:
            sizes = [getattr(stage, size) * factor for stage in self.reference.stages]
            if any(value.denominator > 1 for value in sizes):
                continue
            try:
                other = self.reference.resized(**{size: [int(value) for value in sizes]})  # type: ignore[arg-type]
                return factor, self._shapes(self._build(other))
            except ValueError as error:
                problem = error
        raise ValueError(f"{self.reference.name} cannot be built with another {size}: {problem}") from problem

    # Axes

    def axes(self) -> dict[str, Axis]:
        found = {}
        for place, shape in self.shapes.items():
            for dim, length in enumerate(shape):
                grows = [size for size, changed in self.changed.items() if dim in changed[place]]
                if grows:
                    found[place] = self._axis(place, dim, length, grows)
        return found

    def _axis(self, place: str, dim: int, length: int, grows: Sequence[str]) -> Axis:
        number, colon, _ = place.partition(":")
        stage = self.reference.stages[int(number) if colon else -1]
        axis = partial(Axis, dim=dim, reads=self._reads(place, dim))
        if grows == ["mlp_dim"]:
            return axis(unit="neuron", copies=length // self._neurons(place), inner=1)
        if grows == ["heads"]:
            return axis(unit="head", copies=1, inner=length // stage.heads)
        if grows == ["head_dim"]:
            return axis(unit="column", copies=length // stage.head_dim, inner=1)
        copies = Fraction(length, stage.inner_width)
        if grows == ["heads", "head_dim"] and copies.denominator == 1:
            return axis(unit="head", copies=int(copies), inner=None)
        if grows == ["heads", "head_dim"] and copies.numerator == 1:
            return axis(unit="key head", copies=1, inner=None, shared=copies.denominator)
        raise ValueError(
            f"{self.names[place]} of {self.reference.name} joins parts of different sizes in one dimension of "
            f"{length}, which cannot be divided into heads"
        )

    def _reads(self, place: str, dim: int) -> bool:
        """Whether a dimension is the input of a linear map. That of GPT-2 has its weights transposed."""
        owner, _, kind = self.names[place].rpartition(".")
        module = self.model.get_submodule(owner)
        inputs = {"Linear": 1, "Conv1D": 0}
        return kind == "weight" and any(inputs.get(cls.__name__) == dim for cls in type(module).__mro__)

    def _neurons(self, place: str) -> int:
        """How many neurons the MLP has that a tensor belongs to: as many as its last layer reads."""
        readers = {
            other: dims[0] for other, dims in self.changed["mlp_dim"].items() if dims and self._reads(other, dims[0])
        }
        reader = nearest(place, readers)
        return self.shapes[reader][readers[reader]]


def nearest(place: str, others: Mapping[str, Any]) -> str:
    """Of several tensors, the one whose name shares the most with this place, in the same layer."""

    def shared(other: str) -> int:
        parts = zip(place.replace(":", ".").split("."), other.replace(":", ".").split("."), strict=False)
        return next((number for number, (one, two) in enumerate(parts) if one != two), 99)

    return max(others, key=shared)
