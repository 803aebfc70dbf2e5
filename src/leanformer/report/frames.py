"""The numbers of records as plain rows, of which `to_frame` makes data frames, named as the records' fields are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leanformer.architecture import Architecture
from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.measurement import Measurement, Ranks
from leanformer.conditioning.theory import Theory
from leanformer.designing.record import CandidateRecord, DesignRecord
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.experiments.glue import Glue
from leanformer.experiments.judging.estimates import Estimate
from leanformer.experiments.sweep_records import Sweep
from leanformer.paper.record import Scorecard
from leanformer.training.result import Result

Row = dict[str, Any]
SIZES = ("heads", "head_dim", "width", "mlp_dim")


def comparison(record: Comparison) -> list[Row]:
    """An arm per row, with every seed's score."""
    return [{"arm": name, **_arm(arm)} for name, arm in record.arms.items()]


def sweep(record: Sweep) -> list[Row]:
    """A cell per row, with its difference to the original's heads."""
    return [
        {**cell.values, **_arm(cell, without=cell.values), **_estimate("difference", cell.difference)}
        for cell in record.cells
    ]


def glue(record: Glue) -> list[Row]:
    """An arm on a task per row."""
    return [
        {"task": name, "metric": task.metric, "arm": arm, **_estimate("score", row.score), **_seeds(row.scores)}
        for name, task in record.tasks.items()
        for arm, row in task.arms.items()
    ]


def result(record: Result) -> list[Row]:
    """An evaluation per row."""
    return [
        {"step": point.step, **point.scores, "kappa": point.kappa.median_over_layers if point.kappa else None}
        for point in record.evaluations
    ]


def measurement(record: Measurement) -> list[Row]:
    """A layer per row; κ over samples by its quantiles."""
    found = []
    for layer in record.layers:
        plain = {name: getattr(layer, name) for name in type(layer).model_fields if name != "kappa"}
        kappa = {f"kappa_{name}": getattr(layer.kappa, name) for name in type(layer.kappa).model_fields}
        found.append({**plain, **kappa})
    return found


def heads(record: HeadsMeasurement) -> list[Row]:
    """A number of heads in a regime per row."""
    return [row.model_dump() for row in record.rows]


def ranks(record: Ranks) -> list[Row]:
    """A head per row."""
    return [
        {
            "layer": layer.name,
            "head": head,
            "head_dim": layer.head_dim,
            "width": layer.width,
            "effective_rank": layer.effective_rank[head],
            "stable_rank": layer.stable_rank[head],
        }
        for layer in record.layers
        for head in range(layer.heads)
    ]


def theory(record: Theory) -> list[Row]:
    """A number of heads per row."""
    found = []
    for row in record.rows:
        plain = row.model_dump(exclude={"simulated_interval", "quartiles"})
        low, high = row.simulated_interval
        lower, upper = row.quartiles
        found.append(
            {**plain, "simulated_low": low, "simulated_high": high, "lower_quartile": lower, "upper_quartile": upper}
        )
    return found


def design(record: DesignRecord) -> list[Row]:
    """The original, the recommendation and every design of the front, a design per row."""
    rest = [row for row in record.front if row.architecture != record.recommended.architecture]
    named = [("original", record.original), ("recommended", record.recommended), *(("front", row) for row in rest)]
    return [{"design": name, **_candidate(row, record.setting.batch)} for name, row in named]


def scorecard(record: Scorecard) -> list[Row]:
    """A row of the paper's tables per row."""
    return [
        {
            **{name: getattr(row, name) for name in ("table", "model", "variant", "base")},
            **sizes(row.architecture),
            "printed_params": row.printed.params,
            "params": row.params,
            "reading": row.reading,
            "status": row.status,
            "printed_gb": row.memory.printed_gb if row.memory else None,
            "counted_gb": row.memory.counted_gb if row.memory else None,
        }
        for row in record.rows
    ]


# Parts


def sizes(architecture: Architecture) -> Row:
    """Depth, and every size: one number where all stages agree, else one per stage."""
    found: Row = {"depth": architecture.depth}
    for name in SIZES:
        values = tuple(getattr(stage, name) for stage in architecture.stages)
        found[name] = values[0] if len(set(values)) == 1 else values
    return found


def _arm(arm: ArmResult, without: Mapping[str, Any] | None = None) -> Row:
    of_model = dict(arm.sizes) if arm.architecture is None else sizes(arm.architecture)
    costs = ("params", "forward_macs", "memory_bytes", "step_seconds", "steps", "kappa")
    return {
        **{name: value for name, value in of_model.items() if name not in (without or {})},
        **{name: getattr(arm, name) for name in costs},
        **_estimate("score", arm.score),
        **_seeds(arm.scores),
    }


def _candidate(row: CandidateRecord, batch: int) -> Row:
    return {
        "regime": row.regime,
        **sizes(row.architecture),
        "params": row.params,
        "macs": row.forward_macs / batch,
        "memory_bytes": row.memory_bytes,
        "gaussian_kappa": row.gaussian_kappa,
        "guards": ", ".join(guard.name for guard in row.guards),
    }


def _estimate(name: str, estimate: Estimate | None) -> Row:
    interval = estimate.t if estimate is not None else None
    return {
        name: estimate.mean if estimate is not None else None,
        f"{name}_low": interval.low if interval is not None else None,
        f"{name}_high": interval.high if interval is not None else None,
    }


def _seeds(scores: Mapping[str, float]) -> Row:
    return {f"seed_{seed}": score for seed, score in scores.items()}
