"""How numbers are written for people: the one place that decides digits and units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from leanformer.architecture import Architecture
from leanformer.experiments.sentences import decimals, signed_without_unit
from leanformer.experiments.verdicts import Estimate
from leanformer.tasks.base import Metric

NOTHING = "–"
"""Shown in a table where a value is missing."""


def significant(value: float | None) -> str:
    """Three significant digits, as a person writes them."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "∞"
    if value >= 1e5:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def parameters(params: int) -> str:
    return f"{params / 1e6:.1f} M" if params >= 1e7 else f"{params:,}"


def size(number_of_bytes: float) -> str:
    return f"{number_of_bytes / 1e9:.1f} GB" if number_of_bytes >= 1e9 else f"{number_of_bytes / 1e6:.1f} MB"


def milliseconds(seconds: float | None) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds else NOTHING


def plain_score(value: float | None, unit: str) -> str:
    """One run's score."""
    return NOTHING if value is None else f"{value:.{decimals(unit)}f}"


def score(estimate: Estimate | None, unit: str) -> str:
    """A mean over seeds with half of its interval."""
    if estimate is None:
        return NOTHING
    places = decimals(unit)
    if estimate.t is None:
        return f"{estimate.mean:.{places}f} (1 seed)"
    return f"{estimate.mean:.{places}f} ± {estimate.t.half:.{places}f}"


def difference(estimate: Estimate | None, unit: str) -> str:
    return "" if estimate is None else signed_without_unit(estimate, unit)


def metric_with_unit(metric: Metric) -> str:
    return f"{metric.name}, {metric.unit}" if metric.unit else metric.name


def counted(number: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def counted_range(numbers: Sequence[int], word: str) -> str:
    """3 seeds, or 2 to 3 seeds."""
    least, most = min(numbers), max(numbers)
    return counted(most, word) if least == most else f"{least} to {most} {word}s"


def sizes(architecture: Architecture, word: str) -> str:
    """A size of all stages: one number where they agree."""
    return _joined([getattr(stage, word) for stage in architecture.stages])


def heads(architecture: Architecture) -> str:
    return f"{sizes(architecture, 'heads')} × {sizes(architecture, 'head_dim')}"


def layers(architecture: Architecture) -> str:
    """Layers, stage by stage."""
    return " ".join(str(stage.depth) for stage in architecture.stages)


def _joined(values: Sequence[Any]) -> str:
    return str(values[0]) if len(set(values)) == 1 else " ".join(map(str, values))
