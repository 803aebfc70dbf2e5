"""What is recorded of a measured model: κ by layer beside the Gaussian prediction, or the ranks of its heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import computed_field
from torch import nn
from torch.utils._pytree import tree_map

from leanformer.conditioning import gaussian
from leanformer.conditioning.inputs import Inputs
from leanformer.conditioning.probing import Probe, measure
from leanformer.conditioning.query_key import LayerRanks, query_key_ranks
from leanformer.conditioning.summaries import Kappa, LayerSummary
from leanformer.conditioning.watching import Rule
from leanformer.foundation.formats import counted, percent, significant
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models import families, names
from leanformer.models.weights import from_pretrained, is_saved, load_weights

Precision = Literal["float32", "float64"]


class MeasuredLayer(LayerSummary):
    """The numbers of one attention block beside theory."""

    gaussian: Kappa
    """κ of a Gaussian matrix of this size."""


class Measurement(DatedRecord):
    """What `leanformer measure` writes: κ layer by layer."""

    kind: ClassVar[str] = "measurement"
    version: ClassVar[int] = 2

    model: str
    weights: str
    """Where the weights came from."""
    inputs: str
    """Where the inputs came from."""
    layers: tuple[MeasuredLayer, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def warnings(self) -> list[str]:
        """What a reader of these numbers should know."""
        return warnings(self.layers)

    def glance(self) -> str:
        medians = [layer.kappa.median for layer in self.layers]
        shown = f"κ {significant(min(medians))} to {significant(max(medians))} over {counted(len(medians), 'layer')}"
        return f"{self.model!r}, {self.weights}, on {self.inputs}: {shown}"


class Ranks(DatedRecord):
    """The rank of W_Q W_Kᵀ, head by head, as `leanformer measure` writes it."""

    kind: ClassVar[str] = "ranks"
    version: ClassVar[int] = 2

    model: str
    weights: str
    layers: tuple[LayerRanks, ...]

    def glance(self) -> str:
        used = [rank / layer.head_dim for layer in self.layers for rank in layer.effective_rank]
        shown = f"{percent(min(used))} to {percent(max(used))} of head_dim over {counted(len(self.layers), 'layer')}"
        return f"{self.model!r}, {self.weights}: effective ranks of {shown}"


def load(name: str, checkpoint: Path | None = None, seed: int = 0) -> nn.Module:
    """A model by name, freshly initialised or from a checkpoint, or by path, with the weights in it."""
    with torch.random.fork_rng(()):
        torch.manual_seed(seed)
        if is_saved(name):
            model = from_pretrained(name)
        else:
            model = families.create_upstream(name) if families.only_upstream_knows(name) else names.create(name)
    if checkpoint is not None:
        load_weights(model, checkpoint)
    return model


def measure_module(
    model: nn.Module,
    inputs: Inputs,
    name: str,
    weights: str,
    projections: Rule | None = None,
    dtype: Precision | None = None,
) -> Measurement:
    """κ of a module, layer by layer, with the Gaussian prediction beside it.

    Args:
        model: any module that `lf.probe` understands.
        inputs: what to measure it on.
        name, weights: what the record calls it, and where its weights came from.
        projections: as for `lf.probe`.
        dtype: the precision to convert the module to; by default that of the weights. "float64" shows a κ that
            rounding hides.
    """
    batch = inputs.batch
    if dtype is not None:
        model, batch = model.to(getattr(torch, dtype)), _in_precision(batch, dtype)
        weights = f"{weights}, in {dtype}"
    return measurement_of(measure(model, batch, projections=projections), name, weights, inputs.source)


def measurement_of(seen: Probe, name: str, weights: str, inputs: str) -> Measurement:
    """What a probe has seen, as a record, with the Gaussian prediction."""
    return Measurement(
        model=name,
        weights=weights,
        inputs=inputs,
        layers=tuple(
            MeasuredLayer(**dict(layer), gaussian=math.exp(gaussian.expected_log_kappa(layer.tokens, layer.columns)))
            for layer in seen.summaries()
        ),
        **fields_of(circumstances()),
    )


def ranks_of_module(model: nn.Module, name: str, weights: str) -> Ranks:
    """The rank of W_Q W_Kᵀ, head by head, from the weights alone."""
    layers = query_key_ranks(model)
    if not layers:
        raise ValueError(f"{name} has no attention whose query and key weights are known by name")
    return Ranks(model=name, weights=weights, layers=tuple(layers), **fields_of(circumstances()))


def _in_precision(batch: Any, dtype: Precision) -> Any:
    """The batch with its floating-point numbers in another precision; token ids and masks stay."""

    def convert(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(getattr(torch, dtype)) if floating else value

    return tree_map(convert, batch)


def origin(name: str, checkpoint: Path | None, seed: int) -> str:
    """In words, where the weights that `load` gives come from."""
    return str(checkpoint) if checkpoint else "as saved" if is_saved(name) else f"initial, seed {seed}"


def warnings(layers: Sequence[LayerSummary]) -> list[str]:
    """What a reader of these numbers should know."""
    found = []
    near = {
        (layer.tokens, layer.columns, layer.head_dim)
        for layer in layers
        if gaussian.near_cliff(layer.tokens, layer.columns)
    }
    for tokens, columns, head_dim in sorted(near, key=str):
        clear = (
            ""
            if head_dim is None
            else f"; {gaussian.safe_heads(tokens, head_dim)} or more heads of {head_dim} are clear"
        )
        found.append(
            f"{columns} columns and {tokens} tokens are near the square, where any block is worst conditioned{clear}"
        )
    if limited := sum(layer.limited_by_dtype for layer in layers):
        found.append(
            f"{_counted(limited, 'value')} as large as rounding allows: the true κ may be larger; "
            "measure again with dtype float64"
        )
    if deficient := sum(layer.rank_deficient for layer in layers):
        found.append(f"{_counted(deficient, 'block')} without full rank: κ is infinite there")
    return found


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
