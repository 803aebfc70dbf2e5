"""What tables show of scores, differences and sizes; `leanformer.foundation.formats` decides the digits."""

from __future__ import annotations

from leanformer.architecture import Architecture
from leanformer.experiments.comparison_records import ArmResult
from leanformer.experiments.judging.estimates import Estimate
from leanformer.experiments.sentences import signed_without_unit
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


def heads(arm: ArmResult) -> str:
    """Heads and their size; of a user's own model, what it was given."""
    if arm.architecture is None:
        given = [str(arm.sizes[word]) for word in ("heads", "head_dim") if word in arm.sizes]
        return " × ".join(given) if "heads" in arm.sizes else NOTHING
    return f"{sizes(arm.architecture, 'heads')} × {sizes(arm.architecture, 'head_dim')}"


def layers(arm: ArmResult) -> str:
    """Layers, stage by stage."""
    if arm.architecture is None:
        return str(arm.sizes.get("depth", NOTHING))
    return " ".join(str(stage.depth) for stage in arm.architecture.stages)


def mlp(arm: ArmResult) -> str:
    return str(arm.sizes.get("mlp_dim", NOTHING)) if arm.architecture is None else sizes(arm.architecture, "mlp_dim")
