"""The cost of a design in closed form: parameters, multiply-accumulates (MACs) and training memory, without a GPU.

Every count is a polynomial in a stage's heads h, head_dim d and mlp_dim m. Attention costs a sum of 1, h, d, h·d and
h·d²; an MLP costs a sum of 1 and m; the rest of a layer depends on its width alone. `formula` finds the coefficients
from five small reference models, which `references` counts part by part. After that a design costs microseconds. The
polynomials have whole-number coefficients and are exact; the tests compare them with built models.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leanformer.architecture import Architecture, Stage
from leanformer.costs.held import Held, held
from leanformer.costs.references import (
    BATCHES,
    DESIGNS,
    LARGE_BATCHES,
    ReferenceCounts,
    References,
    Tally,
    count_references,
    resized,
)
from leanformer.costs.setting import Setting
from leanformer.models import families

__all__ = ["Cost", "Formula", "Parameters", "Setting", "formula"]


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
    """Multiply-accumulates of a forward pass of the whole batch."""
    saved_bytes: int
    """Activations alive between forward and backward, for the whole batch."""
    held: Held
    """What one device holds, part by part."""

    @property
    def memory_bytes(self) -> int:
        """An estimate of the peak: parameters, optimizer state, and the larger of activations and gradients."""
        return self.held.peak


# The polynomials. Coefficients are whole numbers: `Count.scale` times the true ones, which may be fractions.


@dataclass(frozen=True)
class Polynomial:
    """A layer's count: attention in (1, h, d, h·d, h·d²), MLP in (1, m), and the rest."""

    attention: tuple[int, int, int, int, int]
    mlp: tuple[int, int]
    other: int

    def attention_of(self, heads: int, head_dim: int) -> int:
        one, h, d, hd, hdd = self.attention
        return one + d * head_dim + heads * (h + head_dim * (hd + hdd * head_dim))

    def mlp_of(self, mlp_dim: int) -> int:
        return self.mlp[0] + self.mlp[1] * mlp_dim

    def coefficients(self) -> tuple[int, ...]:
        return *self.attention, *self.mlp, self.other

    def over(self, divisor: int) -> Polynomial:
        one, h, d, hd, hdd, constant, slope, other = (value // divisor for value in self.coefficients())
        return Polynomial((one, h, d, hd, hdd), (constant, slope), other)


@dataclass(frozen=True)
class Count:
    """One kind of count as a closed form: a polynomial per stage, the class attention's, and what is outside layers."""

    scale: int
    """What every coefficient below is multiplied by, so that all are whole numbers."""
    stages: tuple[Polynomial, ...]
    tail: Polynomial
    """Class attention: its MLP follows the last stage's."""
    outside: int
    outside_per_head_dim: int = 0
    """Tables of rotary positions are as wide as a head."""

    def total(self, stages: Sequence[Stage], unit: int) -> int:
        outside = self.outside + self.outside_per_head_dim * stages[0].head_dim
        return self.whole(self._layers(stages, unit) + self.tail_of(stages[-1]) + outside)

    def in_layers(self, stages: Sequence[Stage], unit: int) -> int:
        """Of the total, what belongs to the layers of the stages."""
        return self.whole(self._layers(stages, unit))

    def _layers(self, stages: Sequence[Stage], unit: int) -> int:
        return sum(
            stage.depth
            * (kind.attention_of(stage.heads // unit, stage.head_dim) + kind.mlp_of(stage.mlp_dim) + kind.other)
            for stage, kind in zip(stages, self.kinds(len(stages)), strict=True)
        )

    def kinds(self, stages: int) -> tuple[Polynomial, ...]:
        """A polynomial for each stage; a schedule's stages are all of one kind."""
        return self.stages if len(self.stages) > 1 else self.stages * stages

    def tail_of(self, last: Stage) -> int:
        return self.tail.attention[0] + self.tail.mlp_of(last.mlp_dim) + self.tail.other

    def whole(self, scaled: int) -> int:
        return scaled if self.scale == 1 else (2 * scaled + self.scale) // (2 * self.scale)

    def reduced(self) -> Count:
        """The same in lowest terms."""
        kinds = (*self.stages, self.tail)
        numbers = [number for kind in kinds for number in kind.coefficients()]
        divisor = math.gcd(self.scale, self.outside, self.outside_per_head_dim, *numbers)
        *stages, tail = (kind.over(divisor) for kind in kinds)
        return Count(
            scale=self.scale // divisor,
            stages=tuple(stages),
            tail=tail,
            outside=self.outside // divisor,
            outside_per_head_dim=self.outside_per_head_dim // divisor,
        )


@dataclass(frozen=True)
class Formula:
    """The closed form of a model's costs in one setting, for every depth, heads, head_dim and mlp_dim.

    It holds for one name with its options, at one width (or one per stage). It refuses other architectures.
    """

    reference: Architecture
    """The smallest of the models that it was fitted to: it shows the widths and options."""
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

    @property
    def widths(self) -> tuple[int, ...]:
        """The width that it holds for, or one for each stage."""
        return tuple(stage.width for stage in self.reference.stages)

    def parameters(self, architecture: Architecture) -> Parameters:
        """Exact counts of parameters, or a `ValueError` if the formula is not for this architecture."""
        self._check(architecture)
        stages, count, unit = architecture.stages, self.params, self.unit
        attention, mlp, other = [], [], []
        for stage, kind in zip(stages, count.kinds(len(stages)), strict=True):
            attention.append(count.whole(stage.depth * kind.attention_of(stage.heads // unit, stage.head_dim)))
            mlp.append(count.whole(stage.depth * kind.mlp_of(stage.mlp_dim)))
            other.append(count.whole(stage.depth * kind.other))
        return Parameters(
            attention=sum(attention),
            mlp=sum(mlp),
            layers_other=sum(other) + count.whole(count.tail_of(stages[-1])),
            embedding=self.embedding,
            head=count.whole(count.outside) - self.embedding,
            by_stage=tuple(map(sum, zip(attention, mlp, other, strict=True))),
        )

    def cost(self, architecture: Architecture, setting: Setting) -> Cost:
        """Everything; of the setting, batch, optimizer, shard and devices are used, the rest is the formula's own."""
        params, stages = self.parameters(architecture), architecture.stages
        saved = self._at(setting.batch, self.saved, architecture)
        fewer, more = self.transient
        slope = (more - fewer) / (LARGE_BATCHES[1] - LARGE_BATCHES[0])
        transient = max(0, round(fewer + (setting.batch - LARGE_BATCHES[0]) * slope))
        if setting.checkpointing and setting.parts > 1:  # a trace says it where the whole model is on one device
            transient = max(transient, _recomputed(architecture, setting))
        return Cost(
            params=params,
            forward_macs=self._at(setting.batch, self.forward_macs, architecture),
            saved_bytes=saved,
            held=held(
                setting,
                params=params.total,
                outside=params.total - sum(params.by_stage),
                layer=max(-(-size // stage.depth) for size, stage in zip(params.by_stage, stages, strict=True)),
                activations=saved + transient,
                casts=self._casts(architecture) if setting.precision == "bfloat16" else 0,
            ),
        )

    def _casts(self, architecture: Architecture) -> int:
        """What layers keep whatever the batch: in mixed precision, copies of their weights."""
        fewer, more = (count.in_layers(architecture.stages, self.unit) for count in self.saved)
        return max(0, fewer - BATCHES[0] * (more - fewer) // (BATCHES[1] - BATCHES[0]))

    def _at(self, batch: int, counts: tuple[Count, Count], architecture: Architecture) -> int:
        fewer, more = (count.total(architecture.stages, self.unit) for count in counts)
        return fewer + (batch - BATCHES[0]) * (more - fewer) // (BATCHES[1] - BATCHES[0])

    def _check(self, architecture: Architecture) -> None:
        mine = self.reference
        widths = [stage.width for stage in architecture.stages]
        if len(mine.stages) == 1:
            fits = all(width == mine.stages[0].width for width in widths)
        else:
            fits = widths == [stage.width for stage in mine.stages]
        if not fits:
            needed = " and ".join(map(str, dict.fromkeys(self.widths)))
            raise ValueError(
                f"this formula is for {mine.name} of width {needed}, got widths {widths}: "
                "use formula(architecture, setting) of that design"
            )
        if (architecture.name, architecture.family) != (mine.name, mine.family) or architecture.options != mine.options:
            raise ValueError(
                f"this formula is for {mine.name} with options {dict(mine.options)}, got {architecture.name} with "
                f"options {dict(architecture.options)}: use formula(architecture, setting) of that design"
            )


def formula(architecture: Architecture, setting: Setting | None = None) -> Formula:
    """The closed form that holds for every depth, heads, head_dim and MLP at this architecture's widths and options."""
    stages, family = architecture.stages, families.family(architecture.family)
    if family.stage_count is None:
        stages = stages[:1]
    reference = resized(replace(architecture, stages=stages), DESIGNS[0], unit=family.head_unit(architecture))
    plain = replace(setting or Setting(), batch=1, optimizer="none", shard="none", devices=1)
    return _formula(reference, plain)


def _recomputed(architecture: Architecture, setting: Setting) -> int:
    """The activations of one layer, which are there at once in the backward pass, although none is kept before it."""
    kept = formula(architecture, replace(setting, checkpointing=False))
    fewer, more = (count.in_layers(architecture.stages, kept.unit) for count in kept.saved)
    layers = fewer + (setting.batch - BATCHES[0]) * (more - fewer) // (BATCHES[1] - BATCHES[0])
    return layers // architecture.depth


# Fitting


@functools.lru_cache(maxsize=256)
def _formula(reference: Architecture, setting: Setting) -> Formula:
    counted, stages = count_references(reference, setting), len(reference.stages)
    first = counted.designs[0][0]
    fewer, more = counted.larger
    return Formula(
        reference=reference,
        unit=counted.unit,
        tokens=first.tokens,
        params=_both(counted, stages, lambda counts: counts.params, by_deeper=True)[0],
        embedding=first.params.outside - first.head_params,
        forward_macs=_both(counted, stages, lambda counts: counts.macs, by_deeper=False),
        saved=_both(counted, stages, lambda counts: counts.saved, by_deeper=True),
        transient=(fewer.peak - fewer.saved.total, more.peak - more.saved.total),
    )


def _inverse(matrix: Sequence[Sequence[int]]) -> tuple[list[list[int]], int]:
    """The inverse of a small matrix of whole numbers, exactly: a matrix of whole numbers and their divisor."""
    determinant = round(np.linalg.det(np.array(matrix, float)))
    adjugate = np.rint(np.linalg.inv(np.array(matrix, float)) * determinant).astype(int)
    assert (adjugate @ np.array(matrix) == determinant * np.eye(len(matrix), dtype=int)).all()
    sign = 1 if determinant > 0 else -1
    return (sign * adjugate).tolist(), sign * determinant


_INVERSE, _DIVISOR = _inverse([(1, h, d, h * d, h * d * d) for h, d, _ in DESIGNS])
_MLP_STEP = DESIGNS[1][2] - DESIGNS[0][2]
_HEAD_DIM_STEP = DESIGNS[2][1] - DESIGNS[0][1]
SCALE = math.lcm(_DIVISOR, _MLP_STEP, _HEAD_DIM_STEP)
"""With this factor every coefficient is a whole number."""


def _fit(tallies: Sequence[Tally], stages: int) -> Count:
    """From counts of the five reference designs; the first two differ in m, the first and third in d."""

    def polynomial(stage: int) -> Polynomial:
        attention, mlp = ([tally.parts.get((stage, word), 0) for tally in tallies] for word in ("attention", "mlp"))
        one, h, d, hd, hdd = (
            SCALE // _DIVISOR * sum(a * b for a, b in zip(row, attention, strict=True)) for row in _INVERSE
        )
        slope = SCALE // _MLP_STEP * (mlp[1] - mlp[0])
        other = SCALE * tallies[0].parts.get((stage, "other"), 0)
        return Polynomial((one, h, d, hd, hdd), (SCALE * mlp[0] - slope * DESIGNS[0][2], slope), other)

    slope = SCALE // _HEAD_DIM_STEP * (tallies[2].outside - tallies[0].outside)
    return Count(
        scale=SCALE,
        stages=tuple(map(polynomial, range(stages))),
        tail=polynomial(-1),
        outside=SCALE * tallies[0].outside - slope * DESIGNS[0][1],
        outside_per_head_dim=slope,
    )


def _both(
    counted: References, stages: int, kind: Callable[[ReferenceCounts], Tally], by_deeper: bool
) -> tuple[Count, Count]:
    """The closed form for each of the two batches.

    A first or last layer may keep more or less than one in between, and ModernBERT's first has a norm less. With
    `by_deeper`, the first design with two layers per stage shows what a further layer adds; the difference belongs
    outside the layers.
    """

    def fit(batch: int) -> Count:
        count = _fit([kind(pair[batch]) for pair in counted.designs], stages)
        if not by_deeper:
            return count.reduced()
        once, twice = kind(counted.designs[0][batch]), kind(counted.deeper[batch])
        extra = [SCALE * (twice.of_stage(stage) - 2 * once.of_stage(stage)) for stage in range(stages)]
        if stages == 1:
            extra = [SCALE * (twice.total - once.total - once.of_stage(0))]
        polynomials = [replace(one, other=one.other + more) for one, more in zip(count.stages, extra, strict=True)]
        return replace(count, stages=tuple(polynomials), outside=count.outside - sum(extra)).reduced()

    return fit(0), fit(1)
