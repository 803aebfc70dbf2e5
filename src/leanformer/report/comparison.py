"""A comparison as a table and in words, from its record alone; `page` writes it as HTML and Markdown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from rich.table import Table

from leanformer.experiments.arms import LEAN
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.foundation import formats
from leanformer.report import cells, tables

Cell = Callable[[ArmResult], str]

SHOWN_SIZES = ("depth", "heads", "head_dim", "mlp_dim")
"""Sizes of a user's own model that have a column in every table."""


COSTS = ("memory", "step", "steps")
"""Columns that a terminal leaves out where there are others."""


def headings(record: Comparison) -> list[str]:
    return list(_columns(record))


def rows(record: Comparison) -> list[list[str]]:
    """One row of text per arm, in the order of `headings`."""
    columns = _columns(record)
    return [[cell(arm) for cell in columns.values()] for arm in record.arms.values()]


def _columns(record: Comparison) -> dict[str, Cell]:
    """What each column shows of an arm. Columns of which nothing is known are left out."""
    score = cells.metric_with_unit(record.metric)
    columns: dict[str, Cell] = {
        "arm": lambda arm: arm.name,
        "layers": cells.layers,
        "heads": cells.heads,
        "MLP": cells.mlp,
        **_own_sizes(record),
        "params": lambda arm: formats.parameters(arm.params),
        "memory": lambda arm: formats.size(arm.memory_bytes),
        "step": lambda arm: formats.milliseconds(arm.step_seconds),
        "steps": lambda arm: formats.whole(arm.steps),
        "run": lambda arm: formats.duration(arm.run_seconds),
        score: lambda arm: cells.score(arm.score, record.metric.unit),
        "κ": lambda arm: formats.significant(arm.kappa),
        **_tuned(record),
    }
    arms = record.arms.values()
    return {
        name: cell
        for name, cell in columns.items()
        if name == score or any(cell(arm) != formats.NOTHING for arm in arms)
    }


def _tuned(record: Comparison) -> dict[str, Cell]:
    """Columns with the best settings of every arm and its score at them."""
    tuning, tuned, unit = record.tuning, record.tuned, record.metric.unit
    columns: dict[str, Cell] = {}
    for setting in tuning.plan.settings if tuning is not None else ():
        columns[f"best {setting.name}"] = functools.partial(_best, tuning.best if tuning else {}, setting.name)
    if tuned is not None:
        columns[f"{record.metric.name} at best"] = lambda arm: cells.score(
            tuned.arms[arm.name].score if arm.name in tuned.arms else None, unit
        )
    return columns


def _best(best: Mapping[str, Mapping[str, float]], name: str, arm: ArmResult) -> str:
    return f"{best[arm.name][name]:g}" if arm.name in best else formats.NOTHING


def _own_sizes(record: Comparison) -> dict[str, Cell]:
    """A column for every other size that a user's own model was given."""
    names = dict.fromkeys(name for arm in record.arms.values() for name in arm.sizes if name not in SHOWN_SIZES)
    return {name: functools.partial(_own_size, name) for name in names}


def _own_size(name: str, arm: ArmResult) -> str:
    return str(arm.sizes.get(name, formats.NOTHING))


def table(record: Comparison) -> Table:
    title = f"{record.name}: {record.metric.name} ± 95 % interval over seeds"
    columns = _columns(record)
    if record.tuning is not None:  # whose columns matter more, and a terminal is narrow
        columns = {name: cell for name, cell in columns.items() if name not in COSTS}
    shown = [[cell(arm) for cell in columns.values()] for arm in record.arms.values()]
    return tables.terminal(title, list(columns), shown, bold=LEAN, wrap=False)


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
    if record.training is None or record.budget is None:
        return _note_on_own_loop(headings(record))
    at_once = record.training.batch // record.training.accumulate
    return (
        f"Equal {record.budget.kind} for every arm. The score is that of the last step, on held-out samples; "
        f"± is the 95 % interval over seeds, for these held-out samples. Memory is counted, not measured: parameters, "
        f"AdamW's states, and the larger of gradients and activations, for {at_once} samples at a time. "
        f"Time per step is the median on the machine named below. κ is the median over layers, samples and seeds at "
        f"the end."
    )


def _note_on_own_loop(shown: Sequence[str]) -> str:
    said = {
        "memory": "Memory is counted, not measured: parameters, AdamW's states, and the larger of gradients and "
        "activations.",
        "run": "The time of a run is the median over seeds, on the machine named below.",
        "κ": "κ is the median over layers, samples and seeds after training.",
    }
    return " ".join(
        [
            "Every arm was trained by the same function or command of the user's, which decides what is held equal.",
            "± is the 95 % interval over seeds.",
            *(text for column, text in said.items() if column in shown),
        ]
    )


def machine(record: Comparison) -> str:
    commit = f" at commit {record.commit}" if record.commit else ""
    return (
        f"leanformer {record.versions['leanformer']}{commit}, torch {record.versions['torch']}, "
        f"timm {record.versions['timm']}, {record.machine.system}, {record.machine.processor}."
    )
