"""See every attention block of any model while it runs: the concatenated heads before the output projection.

`probe` is a context manager: hooks live inside it only. Each block is reduced to its numbers as it passes, so nothing
larger than one layer's block is held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from leanformer.conditioning.spectra import Conditioning, conditioning
from leanformer.conditioning.summaries import KappaSummary, LayerSummary
from leanformer.conditioning.watching import Rule, Target, check_rule, watch
from leanformer.foundation.formats import counted, significant
from leanformer.foundation.records.base import Record
from leanformer.foundation.records.quantiles import quantiles
from leanformer.foundation.records.views import Shown

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

__all__ = [
    "FORWARD_ROUNDING",
    "Call",
    "Layer",
    "Probe",
    "Rule",
    "Target",
    "measure",
    "probe",
    "sharded_parts",
    "undisturbed",
    "unwrap",
]

FORWARD_ROUNDING = 20.0
"""How many times as large as the rounding of the stored numbers the error of a computed block is.

It was found by computing the attention of 13 families in float32 and, from the same inputs, in float64: 2 to 15 times,
21 times in the Nyströmformer.
"""
NARROW_ROUNDING = 3.0
"""The same for 16-bit types, whose products are summed in float32: 0.7 to 3.1 times."""


@dataclass
class Layer:
    """What was seen of one attention block, over all forward passes inside the probe."""

    target: Target
    tokens: int
    columns: int
    dtype: torch.dtype
    parts: list[Conditioning] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def values(self) -> Conditioning:
        """The numbers of every matrix seen: one per sample, or per window where attention is windowed."""
        return _concatenated(self.parts)

    def summary(self) -> LayerSummary:
        """Plain numbers over all matrices seen."""
        values = self.values
        kappa = values.kappa
        low, median, high = quantiles(kappa, [0.25, 0.5, 0.75])
        return LayerSummary(
            name=self.name,
            kind=self.target.kind,
            heads=self.target.heads,
            head_dim=self.target.head_dim,
            tokens=self.tokens,
            columns=self.columns,
            matrices=len(values),
            kappa=KappaSummary(
                median=median,
                lower_quartile=low,
                upper_quartile=high,
                mean=kappa.mean().item(),
                max=kappa.max().item(),
            ),
            rank_deficient=int(kappa.isinf().sum()),
            limited_by_dtype=int(values.limited_by_dtype.sum()),
            effective_rank=values.effective_rank.median().item(),
            stable_rank=values.stable_rank.median().item(),
        )


def _concatenated(parts: Sequence[Conditioning], order: Int64[Tensor, " matrices"] | None = None) -> Conditioning:
    joined = (torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Conditioning))
    return Conditioning(*(values if order is None else values[order] for values in joined))


class Probe(Shown):
    """What the probe has seen so far; see `probe`."""

    def __init__(self, mask: Shaped[Tensor, "batch tokens"] | None = None) -> None:
        self._mask = None if mask is None else mask.bool()
        self.mask_fits = mask is None
        self._layers: dict[str, Layer] = {}

    @property
    def layers(self) -> list[Layer]:
        """The attention blocks in the order in which they ran, class attention left out."""
        return list(self._layers.values())

    def summaries(self) -> list[LayerSummary]:
        return [layer.summary() for layer in self.layers]

    def as_record(self) -> Record:
        """What it shows in a notebook, in a figure and as a data frame."""
        from leanformer.conditioning.measurement import measurement_of

        return measurement_of(self, "the model", "as given", "a batch of your own")

    def __repr__(self) -> str:
        medians = [layer.summary().kappa.median for layer in self.layers]
        if not medians:
            return "Probe(nothing seen yet)"
        return f"Probe({counted(len(medians), 'layer')}: κ {significant(min(medians))} to {significant(max(medians))})"

    def see(self, target: Target, block: Float[Tensor, "*batch tokens columns"]) -> None:
        """Take in one block. Of an image (batch, rows, columns, channels), rows and columns are tokens."""
        if target.kind == "class":
            return
        block = block.detach()
        if block.ndim == 2:
            block = block[None]
        elif block.ndim == 4:  # an image
            block = block.flatten(1, 2)
        if block.shape[-2] == 1:  # one row, as in pooling or step-by-step generation: κ is 1 whatever it holds
            return
        layer = self._layers.get(target.name)
        if layer is None:
            layer = Layer(target, tokens=block.shape[-2], columns=block.shape[-1], dtype=block.dtype)
            self._layers[target.name] = layer
        layer.parts.append(self._without_padding(block, target.name))

    def _without_padding(self, block: Float[Tensor, "batch tokens columns"], name: str) -> Conditioning:
        """The block's numbers, sample by sample, rows of padding left out."""
        mask = self._mask
        if mask is None or mask.shape != block.shape[:2]:
            return conditioning(block, name, _rounding(block.dtype)).flatten()
        self.mask_fits = True
        mask = mask.to(block.device)
        lengths = mask.sum(dim=1)
        places, parts = [], []
        for length in [length for length in lengths.unique().tolist() if length > 1]:
            chosen = lengths == length
            places.append(chosen.nonzero().flatten())
            rows = block[chosen][mask[chosen]].reshape(-1, length, block.shape[-1])
            parts.append(conditioning(rows, name, _rounding(block.dtype)))
        if not parts:
            raise ValueError(f"{name}: the mask leaves no sample with more than one token")
        order = torch.cat(places).argsort().cpu()
        return _concatenated(parts, order)


def _rounding(dtype: torch.dtype) -> float:
    return FORWARD_ROUNDING if torch.finfo(dtype).bits >= 32 else NARROW_ROUNDING


@contextmanager
def probe(
    model: nn.Module, projections: Rule | None = None, mask: Shaped[Tensor, "batch tokens"] | None = None
) -> Iterator[Probe]:
    """Measure every attention block of the models that run inside.

    >>> with lf.probe(model) as p:
    ...     model(batch)
    >>> p.layers[0].values.kappa  # one κ per sample

    Finds the attention of leanformer's families, timm models, Hugging Face models, `nn.MultiheadAttention` and
    `nn.TransformerEncoder`, and in any other model what is computed by `scaled_dot_product_attention` or as
    softmax(q kᵀ) v. Fused attention stays on. PyTorch's encoder fast path is off inside, because it calls no module;
    without it, rows of padding are not set to zero. Compiled models run uncompiled. All hooks are removed afterwards,
    also after an exception.

    Args:
        model: any module, also wrapped by `torch.compile` or DDP.
        projections: for a model whose attention is not found, its output projections: name patterns, or a function of
            name and module. Their input is the block.
        mask: True or 1 on true tokens, (batch, tokens): rows of padding are left out.
    """
    check_rule(projections)
    model = unwrap(model)
    seen = Probe(mask)
    fastpath = torch.backends.mha.get_fastpath_enabled()
    with contextlib.ExitStack() as stack:
        watched = watch(stack, model, projections, seen.see)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fastpath)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(torch.compiler.set_stance("force_eager"))  # compiled code would not see the hooks
        yield seen
        if not seen.mask_fits:
            shape = tuple(cast(Tensor, mask).shape)
            raise ValueError(f"the mask of shape {shape} fits no block: it must be (batch, tokens)")
        if not seen.layers:
            raise watched.nothing_seen()


@torch.no_grad()
def measure(
    model: nn.Module,
    batch: Any,
    projections: Rule | None = None,
    mask: Shaped[Tensor, "batch tokens"] | None = None,
) -> Probe:
    """κ of every attention block of a model on one batch, in evaluation mode and without autocast.

    The model is left as it was: its modes, gradients and buffers, and the state of every random generator.

    Args:
        model: any module that `probe` understands.
        batch: what the model takes: a tensor, a tuple of arguments, a mapping of keyword arguments, or a `Call`.
        projections, mask: as for `probe`. A batch with an `attention_mask` or `lengths` needs no mask of its own.
    """
    model = unwrap(model)
    call = Call.of(batch)
    given = call.kwargs.get("attention_mask")
    if mask is None and isinstance(given, Tensor) and given.ndim == 2:
        mask = given
    lengths, ids = call.kwargs.get("lengths"), call.kwargs.get("input_ids")
    if mask is None and isinstance(lengths, Tensor) and isinstance(ids, Tensor):
        mask = (torch.arange(ids.shape[-1], device=ids.device) < lengths[..., None]).flatten(0, -2)
    with undisturbed(model), probe(model, projections, mask) as seen:
        model(*call.args, **call.kwargs)
    return seen


@dataclass(frozen=True)
class Call:
    """The arguments of one call of a model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Any) -> Call:
        if isinstance(batch, Call):
            return batch
        if isinstance(batch, Mapping):
            return cls(kwargs=batch)
        return cls(args=tuple(batch) if isinstance(batch, (tuple, list)) else (batch,))


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no autocast inside; every module's mode and random generator as before afterwards."""
    modes = {module: module.training for module in model.modules()}
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices), contextlib.ExitStack() as stack:
        for kind in {"cpu", *(parameter.device.type for parameter in model.parameters())} - {"meta"}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside `torch.compile`, DataParallel or DistributedDataParallel."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = cast(nn.Module, model._orig_mod)
        elif isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


def sharded_parts(model: nn.Module) -> list[FSDPModule]:
    """The modules that `fully_shard` divided among processes. All processes must run such a model together."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return []
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]
