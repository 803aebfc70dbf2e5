"""κ against the number of heads at initialisation, in both regimes: the form of the paper's Fig. 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from leanformer.architecture import Architecture, Regime
from leanformer.conditioning.gaussian import expected_log_kappa
from leanformer.conditioning.inputs import Inputs, choose_inputs
from leanformer.conditioning.probing import measure
from leanformer.conditioning.summaries import Kappa, LayerSummary
from leanformer.foundation.formats import counted, significant
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.foundation.records.quantiles import quantiles
from leanformer.models import families
from leanformer.models.names import architecture_of


class HeadsRow(RecordPart):
    """One number of heads in one regime."""

    regime: Regime
    heads: int
    head_dim: int | None
    tokens: int
    columns: int
    kappa: Kappa
    """Median over layers of the median over samples."""
    lowest_layer: Kappa
    highest_layer: Kappa
    mean_over_layers: Kappa
    gaussian: Kappa


class HeadsMeasurement(DatedRecord):
    """κ at initialisation for several numbers of heads, as `leanformer measure` writes it."""

    kind: ClassVar[str] = "heads"
    version: ClassVar[int] = 2

    model: str
    depth: int
    weights: str
    inputs: str
    rows: tuple[HeadsRow, ...]

    def glance(self) -> str:
        kappas, heads = [row.kappa for row in self.rows], [row.heads for row in self.rows]
        shown = f"κ {significant(min(kappas))} to {significant(max(kappas))} with {min(heads)} to {max(heads)} heads"
        return f"{self.model!r}, {counted(self.depth, 'layer')}, {self.weights}, on {self.inputs}: {shown}"


def measure_heads(
    model: str | Architecture,
    heads: Sequence[int],
    *,
    regimes: Sequence[Regime] = ("fixed", "split"),
    depth: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
    **choice: Any,
) -> HeadsMeasurement:
    """κ at initialisation for each number of heads; in the regime `split` only those that divide the width.

    Args:
        model: one of one stage, by name or as an architecture.
        heads: numbers of heads.
        regimes: "fixed" (keep head_dim), "split" (keep the width), or both.
        depth: layers to build; by default all.
        seed: of weights and random inputs.
        progress: is called with what is being measured.
        choice: as for `choose_inputs`.
    """
    base = model if isinstance(model, Architecture) else architecture_of(model)
    name = base.name if isinstance(model, Architecture) else model
    if len(base.stages) > 1:
        raise ValueError(f"heads can be measured for models of one stage; {name} has {len(base.stages)}")
    base = base.resized(depth=depth)
    rows: list[HeadsRow] = []
    inputs: Inputs | None = None
    for regime in regimes:
        for count in heads:
            if regime == "split" and base.stages[0].width % count:
                continue
            progress(f"{regime}, {count} heads")
            built = initialised(base.resized(heads=count, keep=regime), seed)
            inputs = inputs or choose_inputs(built, name, seed=seed, **choice)
            rows.append(_row(regime, count, measure(built, inputs.batch).summaries()))
    if inputs is None:
        raise ValueError(f"none of {list(heads)} heads divides the width {base.stages[0].width} of {name}")
    return HeadsMeasurement(
        model=name,
        depth=base.depth,
        weights=f"initial, seed {seed}",
        inputs=inputs.source,
        rows=tuple(rows),
        **fields_of(circumstances()),
    )


def initialised(architecture: Architecture, seed: int) -> torch.nn.Module:
    with torch.random.fork_rng(()):
        torch.manual_seed(seed)
        return families.build(architecture)


def _row(regime: Regime, heads: int, layers: Sequence[LayerSummary]) -> HeadsRow:
    medians, first = [layer.kappa.median for layer in layers], layers[0]
    return HeadsRow(
        regime=regime,
        heads=heads,
        head_dim=first.head_dim,
        tokens=first.tokens,
        columns=first.columns,
        kappa=quantiles(medians, [0.5])[0],
        lowest_layer=min(medians),
        highest_layer=max(medians),
        mean_over_layers=sum(layer.kappa.mean for layer in layers) / len(layers),
        gaussian=math.exp(expected_log_kappa(first.tokens, first.columns)),
    )
