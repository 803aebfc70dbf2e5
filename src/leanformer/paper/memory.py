"""Which printed memory figures hold: the training memory of every image model, counted without a GPU.

The paper prints gigabytes without saying what they cover. The reading that fits best is this: eight devices, float32,
explicit attention, the batch of Table 6 divided by eight, saved activations plus 8 bytes per parameter, plus one
constant for all rows. The constant is the median of what is left: it is fitted, not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from leanformer.costs.closed_forms import Setting, formula
from leanformer.models.published import TABLE_6
from leanformer.paper.record import Memory, ScorecardRow

DEVICES = 8
BATCH_PER_DEVICE = {table: batch // DEVICES for table, batch in TABLE_6.batch.items()}
"""By table of image models: only those print memory that can be counted."""
TOLERANCE = 0.1


def add_memory(rows: Sequence[ScorecardRow], progress: Callable[[str], Any] = lambda step: None) -> list[ScorecardRow]:
    """The rows, with the memory of those of Tables 4 and 5."""
    counted: dict[int, float] = {}
    for index, row in enumerate(rows):
        if row.table in BATCH_PER_DEVICE:
            progress(f"memory of {row.model}")
            counted[index] = _activations_and_states(row) * DEVICES / 1e9
    if not counted:
        return list(rows)
    constant = median(rows[index].printed.memory_gb - value for index, value in counted.items())
    return [
        row.model_copy(update={"memory": _memory(row.printed.memory_gb, counted[index] + constant, constant)})
        if index in counted
        else row
        for index, row in enumerate(rows)
    ]


def _activations_and_states(row: ScorecardRow) -> int:
    setting = Setting(batch=BATCH_PER_DEVICE[row.table], attention="explicit")
    cost = formula(row.architecture, setting).cost(row.architecture, setting)
    return cost.saved_bytes + 8 * cost.params.total


def _memory(printed: float, counted: float, constant: float) -> Memory:
    ratio = counted / printed
    return Memory(
        printed_gb=printed,
        counted_gb=counted,
        constant_gb=constant,
        ratio=ratio,
        status="within 10 %" if abs(ratio - 1) <= TOLERANCE else "more than 10 % off",
    )


def lean_shares(rows: Sequence[ScorecardRow]) -> Mapping[str, tuple[float, float]]:
    """Lean over original, printed and counted, by model."""
    pairs: dict[str, dict[str, Memory]] = {}
    for row in rows:
        if row.memory is not None:
            pairs.setdefault(row.model, {})[row.variant] = row.memory
    return {
        model: (
            pair["lean"].printed_gb / pair["original"].printed_gb,
            pair["lean"].counted_gb / pair["original"].counted_gb,
        )
        for model, pair in pairs.items()
        if pair.keys() >= {"lean", "original"}
    }
