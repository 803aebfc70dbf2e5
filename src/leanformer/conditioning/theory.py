"""Theorem 3.2 against exact sampling, as heads of one size are added."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, PlainSerializer

from leanformer.conditioning import gaussian
from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.summaries import Kappa
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of


class TheoryRow(RecordPart):
    """One number of heads: formulas and samples."""

    heads: int
    columns: int
    edge: Kappa
    """Theorem 3.2's formula."""
    finite: float
    expected: float
    """exp of E log κ in closed form."""
    simulated: float
    """exp of the mean of log κ over the samples."""
    simulated_interval: tuple[float, float]
    """Its 95 % interval."""
    median: float
    quartiles: tuple[float, float]
    smallest_sigma: float


class TheoryCurve(RecordPart):
    """The formulas at many numbers of columns, to draw."""

    columns: tuple[int, ...]
    edge: tuple[Kappa, ...]
    expected: tuple[float, ...]


def _whole_record(value: Any) -> Any:
    return HeadsMeasurement.parse(value, "real") if isinstance(value, dict) else value


class Theory(DatedRecord):
    """What `leanformer theory` writes."""

    kind: ClassVar[str] = "theory"
    version: ClassVar[int] = 2

    tokens: int
    head_dim: int
    samples: int
    seed: int
    rows: tuple[TheoryRow, ...]
    curve: TheoryCurve
    real: (
        Annotated[
            HeadsMeasurement,
            BeforeValidator(_whole_record),
            PlainSerializer(HeadsMeasurement.to_dict, when_used="json"),
        ]
        | None
    ) = None
    """A real model's attention at initialisation."""

    def glance(self) -> str:
        heads = [row.heads for row in self.rows]
        sizes = f"{self.tokens} tokens, {min(heads)} to {max(heads)} heads of {self.head_dim}"
        return f"{sizes}, {self.samples} samples{f', beside {self.real.model!r}' if self.real else ''}"


def sampled_theory(
    tokens: int,
    head_dim: int,
    heads: Sequence[int],
    samples: int = 1000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
    real: HeadsMeasurement | None = None,
) -> Theory:
    """Formula and exact sampling for each number of heads, and a measured model beside them if one is given."""
    rows = []
    for count in heads:
        progress(f"{count} heads")
        rows.append(_row(tokens, count, count * head_dim, samples, seed))
    spaced = (round(head_dim * (max(heads) ** (i / 300))) for i in range(301))
    columns = sorted({*spaced, tokens, *(row.columns for row in rows)})
    return Theory(
        tokens=tokens,
        head_dim=head_dim,
        samples=samples,
        seed=seed,
        rows=tuple(rows),
        curve=TheoryCurve(
            columns=tuple(columns),
            edge=tuple(gaussian.edge_kappa(tokens, count) for count in columns),
            expected=tuple(math.exp(gaussian.expected_log_kappa(tokens, count)) for count in columns),
        ),
        real=real,
        **fields_of(circumstances()),
    )


def _row(tokens: int, heads: int, columns: int, samples: int, seed: int) -> TheoryRow:
    simulated = gaussian.sample(tokens, columns, samples, seed)
    low, high = (math.exp(simulated.mean_log + sign * 1.96 * simulated.mean_log_error) for sign in (-1, 1))
    return TheoryRow(
        heads=heads,
        columns=columns,
        edge=gaussian.edge_kappa(tokens, columns),
        finite=gaussian.finite_kappa(tokens, columns),
        expected=math.exp(gaussian.expected_log_kappa(tokens, columns)),
        simulated=math.exp(simulated.mean_log),
        simulated_interval=(low, high),
        median=simulated.median,
        quartiles=(simulated.lower_quartile, simulated.upper_quartile),
        smallest_sigma=simulated.smallest_sigma,
    )
