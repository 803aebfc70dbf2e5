"""Small reference models on the meta device, counted part by part: the data that closed forms are fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.costs.setting import Setting
from leanformer.costs.tracing import trace
from leanformer.models import families

DESIGNS = ((2, 4, 8), (4, 4, 16), (2, 8, 8), (4, 8, 8), (2, 16, 8))
"""Heads, head_dim and mlp_dim of the reference models; heads count in the family's smallest unit."""
BATCHES = (2, 3)
"""Batches at which the references are counted. With a batch of 1, some copies would be views."""
LARGE_BATCHES = (64, 128)
"""Batches at which a reference's peak is found. In small batches, gradients outweigh activations."""

Key = tuple[int, str]
"""Stage (−1 for class attention) and part of a layer: attention, mlp or other."""


@dataclass(frozen=True)
class Tally:
    """One kind of count of one model: part by part, and in total."""

    parts: Mapping[Key, int]
    total: int

    @property
    def outside(self) -> int:
        """What is not in the layers."""
        return self.total - sum(self.parts.values())

    def of_stage(self, stage: int) -> int:
        return sum(count for (where, _), count in self.parts.items() if where == stage)


@dataclass(frozen=True)
class ReferenceCounts:
    """The counts of one reference model for one batch."""

    tokens: tuple[int, ...]
    """Rows of each stage's attention block."""
    params: Tally
    head_params: int
    """Parameters outside the layers that belong to the head."""
    macs: Tally
    saved: Tally
    peak: int


Pair = tuple[ReferenceCounts, ReferenceCounts]
"""Counts for two batches."""


@dataclass(frozen=True)
class References:
    """Everything that the closed forms of one family are fitted to."""

    unit: int
    """Heads come in multiples of this (grouped-query attention)."""
    designs: tuple[Pair, ...]
    """For each of `DESIGNS`, with one layer per stage, the counts for the two `BATCHES`."""
    deeper: Pair
    """The first design with two layers per stage."""
    larger: Pair
    """The same for the two `LARGE_BATCHES`, with its peak."""


def resized(architecture: Architecture, design: tuple[int, int, int], unit: int, depth: int = 1) -> Architecture:
    """The architecture with every stage of a reference design's size."""
    heads, head_dim, mlp_dim = design
    sizes = dict(depth=depth, heads=heads * unit, head_dim=head_dim, mlp_dim=mlp_dim)
    return replace(architecture, stages=tuple(replace(stage, **sizes) for stage in architecture.stages))


def count_references(reference: Architecture, setting: Setting) -> References:
    """Build the reference models of a family at the widths and options of `reference`, and count them."""
    family = families.family(reference.family)
    unit = family.head_unit(reference)

    def counted(design: tuple[int, int, int], depth: int, batches: tuple[int, int]) -> Pair:
        model = family.build(resized(reference, design, unit, depth), device="meta").train()
        with family.configure(model, setting.attention, setting.checkpointing):
            fewer, more = (_count(reference, model, setting, batch, batches is LARGE_BATCHES) for batch in batches)
        return fewer, more

    return References(
        unit=unit,
        designs=tuple(counted(design, 1, BATCHES) for design in DESIGNS),
        deeper=counted(DESIGNS[0], 2, BATCHES),
        larger=counted(DESIGNS[0], 2, LARGE_BATCHES),
    )


def _count(reference: Architecture, model: nn.Module, setting: Setting, batch: int, with_peak: bool) -> ReferenceCounts:
    family = families.family(reference.family)
    inputs = {name: t.to("meta") for name, t in family.example_inputs(reference, batch, setting.tokens).items()}
    parts = _Parts.of(reference, model)
    tokens: dict[int, int] = {}
    handles = [_note_tokens(model, projection, tokens, stage) for projection, stage in parts.projections]
    try:
        traced = trace(model, inputs, family.loss, precision=setting.precision, parts=parts.modules, backward=with_peak)
    finally:
        for handle in handles:
            handle.remove()
    return ReferenceCounts(
        tokens=tuple(tokens[stage] for stage in range(len(reference.stages))),
        params=Tally(parts.by_key(parts.parameters()), sum(p.numel() for p in model.parameters())),
        head_params=sum(p.numel() for name, p in parts.outside(model) if _in_head(name)),
        macs=Tally(parts.by_key(traced.forward_macs_by_part), traced.forward_macs),
        saved=Tally(parts.by_key(traced.saved_by_part), traced.saved_bytes),
        peak=traced.peak_bytes,
    )


@dataclass(frozen=True)
class _Parts:
    """The modules of a model that are counted apart."""

    modules: dict[str, nn.Module]
    keys: dict[str, Key]
    projections: list[tuple[str, int]]
    """Output projections and their stages: their inputs show the tokens."""

    @classmethod
    def of(cls, reference: Architecture, model: nn.Module) -> _Parts:
        family = families.family(reference.family)
        found = cls({}, {}, [])
        for part in family.parts(model):
            if part.kind == "inner":
                continue
            stage = -1 if part.kind == "class" else part.stage
            container = part.path.rpartition(".")[0]
            named = {container: ("other", model.get_submodule(container)), part.path: ("attention", part.attention)}
            named |= {f"{container}/mlp{i}": ("mlp", module) for i, module in enumerate(family.mlp_modules(part))}
            for name, (word, module) in named.items():
                found.modules[name], found.keys[name] = module, (stage, word)
            found.projections.append((family.projection(part), stage))
        return found

    def by_key(self, counts: Mapping[str, int]) -> dict[Key, int]:
        summed: dict[Key, int] = {}
        for name, count in counts.items():
            summed[self.keys[name]] = summed.get(self.keys[name], 0) + count
        return summed

    def parameters(self) -> dict[str, int]:
        """Parameters of each module; a container's own are those that its parts do not hold."""
        inside = {name: sum(p.numel() for p in module.parameters()) for name, module in self.modules.items()}
        for name in self._containers():
            parts = [other for other in self.modules if other.startswith((f"{name}.", f"{name}/"))]
            inside[name] -= sum(inside[other] for other in parts)
        return inside

    def outside(self, model: nn.Module) -> list[tuple[str, nn.Parameter]]:
        containers = tuple(f"{name}." for name in self._containers())
        return [(name, p) for name, p in model.named_parameters() if not name.startswith(containers)]

    def _containers(self) -> list[str]:
        return [name for name, (_, word) in self.keys.items() if word == "other"]


HEADS = {
    *("head", "head_dist", "aux_head", "lm_head", "classifier", "decoder", "cls", "pooler"),
    *("norm", "fc_norm", "ln_f", "layernorm", "final_norm"),
    *("vocab_transform", "vocab_layer_norm", "vocab_projector"),
}
"""Names of modules that belong to the head; the final norm does."""


def _in_head(name: str) -> bool:
    return not HEADS.isdisjoint(name.split("."))


def _note_tokens(
    model: nn.Module, projection: str, tokens: dict[int, int], stage: int
) -> torch.utils.hooks.RemovableHandle:
    def hook(_: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        shape = args[0].shape
        tokens.setdefault(stage, shape[1] * shape[2] if len(shape) == 4 else shape[-2])

    return model.get_submodule(projection).register_forward_pre_hook(hook)
