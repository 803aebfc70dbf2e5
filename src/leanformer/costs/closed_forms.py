"""What an architecture costs: parameters, multiplications, training memory, and a whole run, without a GPU.

Every count is a polynomial in a stage's heads h, head_dim d and mlp_dim m: attention costs a sum of 1, h, d, h·d and
h·d², an MLP a sum of 1 and m, everything else of a layer depends on its width alone. `Formula` finds the coefficients
by building five small reference models on the meta device and counting them part by part; after that a design costs
microseconds. The polynomial is exact, and `tests/test_cost.py` holds it to built models. `traced` runs the real thing
on meta for the designs that matter. May import architecture, families and tracing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from leanformer.architecture import Architecture, Stage
from leanformer.costs.tracing import Precision, Trace, trace
from leanformer.models import registry as families
from leanformer.models.base import Attention

Optimizer = Literal["adamw", "sgd", "none"]
STATE_BYTES: dict[str, int] = {"adamw": 8, "sgd": 4, "none": 0}
"""Bytes of optimizer state per parameter, in float32; `sgd` has momentum."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the model is trained, as far as memory depends on it."""

    batch: int = 64
    """Samples per device."""
    tokens: int | None = None
    """Length of a text; 128 by default, or what the model takes. Images have the size that the architecture says."""
    precision: Precision = "float32"
    attention: Attention = "fused"
    checkpointing: bool = False
    optimizer: Optimizer = "adamw"

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")
        if self.optimizer not in STATE_BYTES:
            raise ValueError(f"optimizer must be one of {', '.join(STATE_BYTES)}, got {self.optimizer!r}")


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Where a model's parameters are."""

    attention: int
    mlp: int
    layers_other: int
    """Norms, convolutions and class attention of the layers."""
    embedding: int
    head: int
    by_stage: tuple[int, ...]

    @property
    def total(self) -> int:
        return self.attention + self.mlp + self.layers_other + self.embedding + self.head


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one architecture costs in one setting."""

    params: Parameters
    forward_macs: int
    """Of the whole batch."""
    saved_bytes: int
    """Activations alive between forward and backward, for the whole batch."""
    memory_bytes: int
    """The sweep's estimate of the peak: parameters, optimizer states, and the more of activations and gradients."""


# The closed form

DESIGNS = ((2, 4, 8), (4, 4, 16), (2, 8, 8), (4, 8, 8), (2, 16, 8))
"""Heads, head_dim and mlp_dim of the reference models; heads count in the family's smallest unit."""


BATCHES = (2, 3)
"""Batches at which the references are counted; a batch of 1 lets some copies be views."""
LARGE_BATCHES = (64, 128)
"""Batches at which a reference's peak is found: in small ones gradients outweigh activations."""


def _attention_terms(heads: int, head_dim: int) -> tuple[int, ...]:
    return 1, heads, head_dim, heads * head_dim, heads * head_dim**2


_SOLVE = np.linalg.inv(np.array([_attention_terms(h, d) for h, d, _ in DESIGNS], dtype=float))


@dataclass(frozen=True)
class Polynomial:
    """A layer's count: attention in (1, h, d, h·d, h·d²), MLP in (1, m), and the rest."""

    attention: tuple[float, ...]
    mlp: tuple[float, float]
    other: float

    @classmethod
    def fit(cls, attention: Sequence[float], mlp: Sequence[float], other: float) -> Polynomial:
        """From counts of the five reference designs; the first two differ in m."""
        slope = (mlp[1] - mlp[0]) / (DESIGNS[1][2] - DESIGNS[0][2])
        return cls(tuple(_SOLVE @ np.asarray(attention, float)), (mlp[0] - slope * DESIGNS[0][2], slope), other)

    def attention_of(self, stage: Stage, unit: int) -> float:
        terms = _attention_terms(stage.heads // unit, stage.head_dim)
        return sum(c * t for c, t in zip(self.attention, terms, strict=True))

    def mlp_of(self, mlp_dim: int) -> float:
        return self.mlp[0] + self.mlp[1] * mlp_dim


@dataclass(frozen=True)
class Count:
    """One kind of count as a closed form: a polynomial per stage, the class attention's, and what is outside layers."""

    stages: tuple[Polynomial, ...]
    tail: Polynomial
    """Class attention: its MLP follows the last stage's."""
    outside: float
    outside_per_head_dim: float = 0.0
    """Tables of rotary positions are as wide as a head."""

    def total(self, architecture: Architecture, unit: int) -> int:
        kinds = self.stages if len(self.stages) > 1 else self.stages * len(architecture.stages)
        layers = sum(
            stage.depth * (kind.attention_of(stage, unit) + kind.mlp_of(stage.mlp_dim) + kind.other)
            for stage, kind in zip(architecture.stages, kinds, strict=True)
        )
        tail = self.tail.attention[0] + self.tail.mlp_of(architecture.stages[-1].mlp_dim) + self.tail.other
        return round(layers + tail + self.outside + self.outside_per_head_dim * architecture.stages[0].head_dim)


@dataclass(frozen=True)
class Formula:
    """The closed form of a family's costs at given widths and options, in one setting."""

    unit: int
    """Heads come in multiples of this (grouped-query attention)."""
    tokens: tuple[int, ...]
    """Rows of each stage's attention block."""
    params: Count
    embedding: int
    forward_macs: tuple[Count, Count]
    """For the two `BATCHES`: a constant plus a slope times the batch, since some parts run once for all samples."""
    saved: tuple[Count, Count]
    """Likewise."""
    transient: tuple[int, int]
    """What a reference's peak has beyond its saved bytes, mostly the head's, for the two `LARGE_BATCHES`."""

    def parameters(self, architecture: Architecture) -> Parameters:
        kinds = self.params.stages if len(self.params.stages) > 1 else self.params.stages * len(architecture.stages)
        pairs = list(zip(architecture.stages, kinds, strict=True))
        attention = [round(stage.depth * kind.attention_of(stage, self.unit)) for stage, kind in pairs]
        mlp = [round(stage.depth * kind.mlp_of(stage.mlp_dim)) for stage, kind in pairs]
        other = [round(stage.depth * kind.other) for stage, kind in pairs]
        tail = self.params.tail
        return Parameters(
            attention=sum(attention),
            mlp=sum(mlp),
            layers_other=sum(other)
            + round(tail.attention[0] + tail.mlp_of(architecture.stages[-1].mlp_dim) + tail.other),
            embedding=self.embedding,
            head=round(self.params.outside) - self.embedding,
            by_stage=tuple(map(sum, zip(attention, mlp, other, strict=True))),
        )

    def cost(self, architecture: Architecture, setting: Setting) -> Cost:
        params, saved = self.parameters(architecture), self._at(setting.batch, self.saved, architecture)
        states = params.total * (4 + STATE_BYTES[setting.optimizer])
        fewer, more = self.transient
        slope = (more - fewer) / (LARGE_BATCHES[1] - LARGE_BATCHES[0])
        transient = max(0, round(fewer + (setting.batch - LARGE_BATCHES[0]) * slope))
        return Cost(
            params=params,
            forward_macs=self._at(setting.batch, self.forward_macs, architecture),
            saved_bytes=saved,
            memory_bytes=states + max(saved + transient, 4 * params.total),
        )

    def _at(self, batch: int, counts: tuple[Count, Count], architecture: Architecture) -> int:
        fewer, more = (count.total(architecture, self.unit) for count in counts)
        return fewer + (batch - BATCHES[0]) * (more - fewer) // (BATCHES[1] - BATCHES[0])


def formula(architecture: Architecture, setting: Setting | None = None) -> Formula:
    """The closed form that holds for every depth, heads, head_dim and MLP at this architecture's widths and options."""
    reference = replace(architecture, stages=tuple(replace(stage, depth=1) for stage in architecture.stages))
    if families.family(architecture.family).stage_count is None:
        reference = replace(reference, stages=reference.stages[:1])
    return _formula(_with(reference, DESIGNS[0], 1), replace(setting or Setting(), batch=1, optimizer="none"))


def _with(architecture: Architecture, design: tuple[int, int, int], unit: int) -> Architecture:
    heads, head_dim, mlp_dim = design
    stages = [replace(s, heads=heads * unit, head_dim=head_dim, mlp_dim=mlp_dim) for s in architecture.stages]
    return replace(architecture, stages=tuple(stages))


@functools.lru_cache(maxsize=256)
def _formula(reference: Architecture, setting: Setting) -> Formula:
    family, stages = families.family(reference.family), len(reference.stages)
    unit = family.head_unit(reference)

    def counted(architecture: Architecture, batches: tuple[int, int] = BATCHES) -> list[_Sample]:
        model = family.build(architecture, device="meta").train()
        with family.configure(model, setting.attention, setting.checkpointing):
            return [_sample(reference, model, setting, batch, batches is LARGE_BATCHES) for batch in batches]

    samples = [counted(_with(reference, design, unit)) for design in DESIGNS]
    twice = replace(reference, stages=tuple(replace(stage, depth=2) for stage in reference.stages))
    deeper = counted(_with(twice, DESIGNS[0], unit))
    larger = counted(_with(twice, DESIGNS[0], unit), LARGE_BATCHES)
    first = samples[0][0]
    outside = sum(first.params_outside.values())
    return Formula(
        unit=unit,
        tokens=first.tokens,
        params=_fit([sample[0].params for sample in samples], stages, outside),
        embedding=outside - sum(n for name, n in first.params_outside.items() if _in_head(name)),
        forward_macs=_both([[(s.macs, s.macs_total) for s in pair] for pair in samples], stages),
        saved=_both(
            [[(s.saved, s.saved_total) for s in pair] for pair in samples],
            stages,
            [(s.saved, s.saved_total) for s in deeper],
        ),
        transient=(larger[0].peak - larger[0].saved_total, larger[1].peak - larger[1].saved_total),
    )


Key = tuple[int, str]
"""Stage (−1 for class attention) and which part of a layer: attention, mlp or other."""
Counts = tuple[dict[Key, float], int]
"""What each part of a model counts, and the model in all."""


def _both(
    samples: Sequence[Sequence[Counts]], stages: int, deeper: Sequence[Counts] | None = None
) -> tuple[Count, Count]:
    """The closed form for each of the two batches.

    A first or last layer may keep more or less than one in between. `deeper`, the first design with two layers a stage,
    tells what a further layer adds; the difference belongs outside the layers.
    """

    def fit(batch: int) -> Count:
        parts, total = samples[0][batch]
        outside = [pair[batch][1] - sum(pair[batch][0].values()) for pair in samples]
        slope = (outside[2] - outside[0]) / (DESIGNS[2][1] - DESIGNS[0][1])
        count = _fit([pair[batch][0] for pair in samples], stages, outside[0] - slope * DESIGNS[0][1])
        count = replace(count, outside_per_head_dim=slope)
        if deeper is None:
            return count
        further, _ = deeper[batch]
        extra = [_of_stage(further, stage) - 2 * _of_stage(parts, stage) for stage in range(stages)]
        if stages == 1:
            extra[0] = deeper[batch][1] - total - _of_stage(parts, 0)
        kinds = [replace(kind, other=kind.other + more) for kind, more in zip(count.stages, extra, strict=True)]
        return replace(count, stages=tuple(kinds), outside=count.outside - sum(extra))

    return fit(0), fit(1)


def _of_stage(parts: dict[Key, float], stage: int) -> float:
    return sum(count for (where, _), count in parts.items() if where == stage)


HEADS = {
    "head",
    "head_dist",
    "aux_head",
    "lm_head",
    "classifier",
    "decoder",
    "cls",
    "pooler",
    "norm",
    "fc_norm",
    "ln_f",
}


def _in_head(name: str) -> bool:
    """Whether a parameter outside the layers is part of the head; the final norm is."""
    return not HEADS.isdisjoint(name.split("."))


@dataclass
class _Sample:
    tokens: tuple[int, ...]
    params: dict[Key, float]
    params_outside: dict[str, int]
    macs: dict[Key, float]
    macs_total: int
    saved: dict[Key, float]
    saved_total: int
    peak: int


def _fit(samples: Sequence[dict[Key, float]], stages: int, outside: float) -> Count:
    def polynomial(stage: int) -> Polynomial:
        attention, mlp = ([sample.get((stage, word), 0.0) for sample in samples] for word in ("attention", "mlp"))
        return Polynomial.fit(attention, mlp, samples[0].get((stage, "other"), 0.0))

    return Count(tuple(map(polynomial, range(stages))), polynomial(-1), outside)


def _sample(reference: Architecture, model: nn.Module, setting: Setting, batch: int, backward: bool) -> _Sample:
    """Count a reference model part by part."""
    family = families.family(reference.family)
    inputs = {name: t.to("meta") for name, t in family.example_inputs(reference, batch, setting.tokens).items()}
    modules: dict[str, nn.Module] = {}
    keys: dict[str, Key] = {}
    tokens: dict[int, int] = {}
    handles = []
    for part in family.parts(model):
        if part.kind == "inner":
            continue
        stage = -1 if part.kind == "class" else part.stage
        container = part.path.rpartition(".")[0]
        named = {container: ("other", model.get_submodule(container)), part.path: ("attention", part.attention)}
        named |= {f"{container}/mlp{i}": ("mlp", module) for i, module in enumerate(family.mlp_modules(part))}
        for name, (word, module) in named.items():
            modules[name], keys[name] = module, (stage, word)
        handles.append(_note_tokens(model, family.projection(part), tokens, stage))
    traced = trace(model, inputs, precision=setting.precision, parts=modules, backward=backward)
    for handle in handles:
        handle.remove()

    def by_key(counts: dict[str, int]) -> dict[Key, float]:
        summed: dict[Key, float] = {}
        for name, count in counts.items():
            summed[keys[name]] = summed.get(keys[name], 0) + count
        return summed

    inside = {name: sum(p.numel() for p in module.parameters()) for name, module in modules.items()}
    for name, (_, word) in keys.items():  # a container's own parameters are those that its parts do not hold
        if word == "other":
            inside[name] -= sum(
                inside[other] for other in modules if other != name and other.startswith((f"{name}.", f"{name}/"))
            )
    containers = tuple(f"{name}." for name, (_, word) in keys.items() if word == "other")
    outside = {name: p.numel() for name, p in model.named_parameters() if not name.startswith(containers)}
    return _Sample(
        tokens=tuple(tokens[stage] for stage in range(len(reference.stages))),
        params=by_key(inside),
        params_outside=outside,
        macs=by_key(traced.forward_macs_by_part),
        macs_total=traced.forward_macs,
        saved=by_key(traced.saved_by_part),
        saved_total=traced.saved_bytes,
        peak=traced.peak_bytes,
    )


def _note_tokens(
    model: nn.Module, projection: str, tokens: dict[int, int], stage: int
) -> torch.utils.hooks.RemovableHandle:
    def hook(_: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        shape = args[0].shape
        tokens.setdefault(stage, shape[1] * shape[2] if len(shape) == 4 else shape[-2])

    return model.get_submodule(projection).register_forward_pre_hook(hook)


# The real thing, on meta


@functools.lru_cache(maxsize=256)
def traced(architecture: Architecture, setting: Setting) -> Trace:
    """One training step of the real design on the meta device: seconds, and exact."""
    family = families.family(architecture.family)
    model = family.build(architecture, device="meta").train()
    inputs = family.example_inputs(architecture, setting.batch, setting.tokens)
    inputs = {name: tensor.to("meta") for name, tensor in inputs.items()}
    with family.configure(model, setting.attention, setting.checkpointing):
        return trace(model, inputs, precision=setting.precision)


def peak_memory(architecture: Architecture, setting: Setting) -> int:
    """Bytes at the worst moment of training: parameters, optimizer states, and the traced peak of everything else."""
    params = formula(architecture, setting).parameters(architecture).total
    return params * (4 + STATE_BYTES[setting.optimizer]) + max(traced(architecture, setting).peak_bytes, 4 * params)
