"""κ of the parts of a layer: one head alone, all heads side by side, and the weights of the MLP.

The paper says that a head alone may be badly conditioned while the concatenation is not, and that MLPs are likely to be
well conditioned already (Sections 3.2 and 3.3). Both can be measured at initialisation.
"""

from __future__ import annotations

from statistics import median
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from leanformer.conditioning.inputs import choose_inputs
from leanformer.conditioning.measurement import load
from leanformer.conditioning.spectra import condition_number
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models import families


class LayerParts(RecordPart):
    """One layer; medians over samples, and for heads over heads too."""

    layer: int
    block: float
    """κ of all heads side by side."""
    head: float
    """κ of one head alone."""
    mlp: tuple[float, ...]
    """κ of each weight matrix of the MLP."""


class BlockParts(DatedRecord):
    """What `leanformer paper parts` writes."""

    kind: ClassVar[str] = "parts"
    version: ClassVar[int] = 2

    model: str
    weights: str
    inputs: str
    heads: int
    head_dim: int
    tokens: int
    layers: tuple[LayerParts, ...]

    @property
    def block(self) -> float:
        return median(layer.block for layer in self.layers)

    @property
    def head(self) -> float:
        return median(layer.head for layer in self.layers)

    @property
    def mlp(self) -> float:
        return median(value for layer in self.layers for value in layer.mlp)

    def glance(self) -> str:
        return f"{self.model!r}: κ {self.block:.3g} of blocks, {self.head:.3g} of heads, {self.mlp:.3g} of MLP weights"


def parts(model: str = "vit_base_patch16_224", batch: int = 2, seed: int = 0) -> BlockParts:
    """Measure a model of one stage at initialisation, on random inputs.

    Args:
        model: a name that `lf.create` knows.
        batch: samples.
        seed: of weights and inputs.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    built = load(model, seed=seed).eval()
    family = families.family(families.describe(built).family)
    found = [part for part in family.parts(built) if part.kind == "self"]
    stage = family.shape(found[0])
    if len({(family.shape(part).heads, family.shape(part).head_dim) for part in found}) > 1:
        raise ValueError(f"{model} has layers of several shapes; needed is a model whose layers are alike")
    inputs = choose_inputs(built, model, batch=batch, seed=seed)
    seen: dict[int, Tensor] = {}
    hooks = [
        built.get_submodule(family.projection(part)).register_forward_pre_hook(_keep(seen, number))
        for number, part in enumerate(found)
    ]
    try:
        with torch.no_grad():
            built(**inputs.batch) if isinstance(inputs.batch, dict) else built(inputs.batch)
    finally:
        for hook in hooks:
            hook.remove()
    layers = tuple(
        LayerParts(
            layer=number,
            block=float(condition_number(seen[number]).median()),
            head=float(condition_number(_heads(seen[number], stage.heads)).median()),
            mlp=tuple(float(condition_number(weight)) for weight in _matrices(part.mlp)),
        )
        for number, part in enumerate(found)
    )
    return BlockParts(
        model=model,
        weights=f"initial, seed {seed}",
        inputs=inputs.source,
        heads=stage.heads,
        head_dim=stage.head_dim,
        tokens=seen[0].shape[-2],
        layers=layers,
        **fields_of(circumstances()),
    )


def _keep(seen: dict[int, Tensor], number: int) -> Any:
    def keep(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen[number] = given[0].detach()

    return keep


def _heads(block: Tensor, heads: int) -> Tensor:
    """(batch, tokens, heads · head_dim) as (batch, heads, tokens, head_dim)."""
    return block.unflatten(-1, (heads, -1)).transpose(1, 2)


def _matrices(mlp: nn.Module | None) -> list[Tensor]:
    return [] if mlp is None else [m.weight.detach() for m in mlp.modules() if isinstance(m, nn.Linear)]
