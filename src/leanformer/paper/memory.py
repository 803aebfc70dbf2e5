"""Which printed memory figures hold: training memory of every image model, counted without a GPU.

The paper prints gigabytes without saying of what. The reading that fits best: eight devices, float32, attention spelt
out, the batch of Table 6 divided by eight, saved activations plus 8 bytes a parameter, plus one constant for all rows,
which is the median of what is left and so is fitted, not counted. May import the scorecard and cost.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from leanformer.costs.closed_forms import Setting, formula
from leanformer.models.published import Row
from leanformer.paper.scorecard import Recount

DEVICES = 8
BATCH_PER_DEVICE = {"Tab. 4": 1024 // DEVICES, "Tab. 5": 512 // DEVICES}
TOLERANCE = 0.1

MemoryStatus = Literal["within 10 %", "resists"]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A printed figure beside the counted one."""

    row: Row
    printed_gb: float
    counted_gb: float
    """By the reading above, the fitted constant included."""
    constant_gb: float
    """That constant, for all devices together."""

    @property
    def ratio(self) -> float:
        return self.counted_gb / self.printed_gb

    @property
    def status(self) -> MemoryStatus:
        return "within 10 %" if abs(self.ratio - 1) <= TOLERANCE else "resists"

    def to_dict(self) -> dict[str, Any]:
        return {
            "printed_gb": self.printed_gb,
            "counted_gb": round(self.counted_gb, 1),
            "constant_gb": round(self.constant_gb, 1),
            "ratio": round(self.ratio, 3),
            "status": self.status,
        }


def memory(recounts: Iterable[Recount], progress: Callable[[Row], None] = lambda row: None) -> dict[Row, Memory]:
    """Count the memory of every row of Tables 4 and 5."""
    counted: dict[Row, float] = {}
    for recount in recounts:
        if recount.row.vision:
            progress(recount.row)
            counted[recount.row] = _activations_and_states(recount) * DEVICES / 1e9
    if not counted:
        return {}
    constant = median(row.results["memory_gb"] - value for row, value in counted.items())
    return {
        row: Memory(row=row, printed_gb=row.results["memory_gb"], counted_gb=value + constant, constant_gb=constant)
        for row, value in counted.items()
    }


def _activations_and_states(recount: Recount) -> int:
    setting = Setting(batch=BATCH_PER_DEVICE[recount.row.table], attention="explicit")
    cost = formula(recount.architecture, setting).cost(recount.architecture, setting)
    return cost.saved_bytes + 8 * cost.params.total


def lean_shares(found: dict[Row, Memory]) -> dict[str, tuple[float, float]]:
    """Lean over original, printed and counted, by model."""
    pairs: dict[str, dict[str, Memory]] = {}
    for row, value in found.items():
        pairs.setdefault(row.model, {})[row.variant] = value
    return {
        model: (
            pair["lean"].printed_gb / pair["original"].printed_gb,
            pair["lean"].counted_gb / pair["original"].counted_gb,
        )
        for model, pair in pairs.items()
        if pair.keys() >= {"lean", "original"}
    }
