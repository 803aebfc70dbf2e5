"""What tables show of scores, differences and sizes; `leanformer.foundation.formats` decides the digits."""

from __future__ import annotations

from leanformer.architecture import Architecture
from leanformer.experiments.sentences import signed_without_unit
from leanformer.experiments.verdicts import Estimate
from leanformer.foundation.formats import NOTHING, decimals, joined
from leanformer.tasks.base import Metric


def run_score(value: float | None, unit: str) -> str:
    """One run's score."""
    return NOTHING if value is None else f"{value:.{decimals(unit)}f}"


def score(estimate: Estimate | None, unit: str) -> str:
    """A mean over seeds with half of its interval."""
    if estimate is None:
        return NOTHING
    if estimate.t is None:
        return f"{run_score(estimate.mean, unit)} (1 seed)"
    return f"{run_score(estimate.mean, unit)} ± {run_score(estimate.t.half, unit)}"


def difference(estimate: Estimate | None, unit: str) -> str:
    return "" if estimate is None else signed_without_unit(estimate, unit)


def metric_with_unit(metric: Metric) -> str:
    return f"{metric.name}, {metric.unit}" if metric.unit else metric.name


def sizes(architecture: Architecture, word: str) -> str:
    """A size of all stages: one number where they agree."""
    return joined([getattr(stage, word) for stage in architecture.stages])


def heads(architecture: Architecture) -> str:
    return f"{sizes(architecture, 'heads')} × {sizes(architecture, 'head_dim')}"


def layers(architecture: Architecture) -> str:
    """Layers, stage by stage."""
    return " ".join(str(stage.depth) for stage in architecture.stages)
