"""A comparison as a table and in words, from its record alone; `page` writes it as HTML and Markdown."""

from __future__ import annotations

from rich.table import Table

from leanformer.experiments.arms import LEAN
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.foundation import formats
from leanformer.report import cells, tables


def headings(record: Comparison) -> list[str]:
    score = cells.metric_with_unit(record.metric)
    return ["arm", "layers", "heads", "MLP", "params", "memory", "step", "steps", score, "κ"]


def rows(record: Comparison) -> list[list[str]]:
    """One row of text per arm, in the order of `headings`."""
    return [_row(arm, record.metric.unit) for arm in record.arms.values()]


def _row(arm: ArmResult, unit: str) -> list[str]:
    return [
        arm.name,
        cells.layers(arm.architecture),
        cells.heads(arm.architecture),
        cells.sizes(arm.architecture, "mlp_dim"),
        formats.parameters(arm.params),
        formats.size(arm.memory_bytes),
        formats.milliseconds(arm.step_seconds),
        f"{arm.steps:,}",
        cells.score(arm.score, unit),
        formats.significant(arm.kappa),
    ]


def table(record: Comparison) -> Table:
    title = f"{record.name}: {record.metric.name} ± 95 % interval over seeds"
    return tables.terminal(title, headings(record), rows(record), bold=LEAN, wrap=False)


def seed_rows(record: Comparison) -> list[list[str]]:
    """Every run's score: one row per arm, one column per seed."""
    unit = record.metric.unit
    return [
        [arm.name, *(cells.run_score(arm.scores.get(str(seed)), unit) for seed in record.seeds)]
        for arm in record.arms.values()
    ]


def seed_headings(record: Comparison) -> list[str]:
    return ["arm", *(f"seed {seed}" for seed in record.seeds)]


def note(record: Comparison) -> str:
    """How the table is to be read."""
    at_once = record.training.batch // record.training.accumulate
    return (
        f"Equal {record.budget.kind} for every arm. The score is that of the last step, on held-out samples; "
        f"± is the 95 % interval over seeds, for these held-out samples. Memory is counted, not measured: parameters, "
        f"AdamW's states, and the larger of gradients and activations, for {at_once} samples at a time. "
        f"Time per step is the median on the machine named below. κ is the median over layers, samples and seeds at "
        f"the end."
    )


def machine(record: Comparison) -> str:
    commit = f" at commit {record.commit}" if record.commit else ""
    return (
        f"leanformer {record.versions['leanformer']}{commit}, torch {record.versions['torch']}, "
        f"timm {record.versions['timm']}, {record.machine.system}, {record.machine.processor}."
    )
