"""What counts of tokens alone give on the tasks of Table 3, beside what the paper prints.

Training and held-out samples are those of the paper's tasks, at the paper's lengths. The linear model sees how often
each token occurs and which one is first, and nothing else: it has no attention, no layers and no positions. A printed
accuracy that is not above it says little about heads and layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leanformer.experiments import recipes
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models.published import LONG_RANGE_ARENA

TASKS = {"listops": "ListOps", "text": "text", "retrieval": "retrieval", "image": "image", "pathfinder": "Pathfinder"}
"""Recipes of Table 3 without their ending, and what its rows are called."""
USUAL = ("listops", "text", "image", "pathfinder")
"""Those whose data are drawn here or can be downloaded; retrieval's cannot."""


class CountsRow(RecordPart):
    """One task."""

    task: str
    """As Table 3 names it."""
    source: str
    length: int
    """The longest sequence."""
    train: int
    """Samples of the task; the linear model takes at most 20,000 of them."""
    held_out: int
    usual: float
    """Accuracy of the most frequent class, in percent."""
    linear: float
    """Accuracy of the linear model, in percent."""
    low: float
    high: float
    """Wilson's 95 % interval of it, for these held-out samples."""
    printed: dict[str, float]
    """The paper's accuracies: original and lean."""

    @property
    def above(self) -> list[str]:
        """Which printed accuracies are above the interval."""
        return [variant for variant, value in self.printed.items() if value > self.high]


class TokenCounts(DatedRecord):
    """What `leanformer paper counts` writes."""

    kind: ClassVar[str] = "token-counts"
    version: ClassVar[int] = 1

    rows: tuple[CountsRow, ...]

    def glance(self) -> str:
        shown = ", ".join(f"{row.linear:.1f} % on {row.task}" for row in self.rows)
        return f"a linear model of token counts scores {shown}"

    def sentences(self) -> list[str]:
        return [words(row) for row in self.rows]

    def of(self, task: str) -> CountsRow | None:
        return next((row for row in self.rows if row.task == task), None)


def words(row: CountsRow) -> str:
    """A row as a sentence."""
    printed = " and ".join(f"{value} % ({variant})" for variant, value in row.printed.items())
    scored = f"{row.linear:.1f} % [{row.low:.1f}, {row.high:.1f}]"
    return f"{row.task}: a linear model of token counts scores {scored}; printed are {printed}"


def counts(
    tasks: str | Sequence[str] = USUAL,
    data: str | Path | None = None,
    progress: Callable[[str], Any] = lambda step: None,
) -> TokenCounts:
    """The accuracy of a linear model of token counts on tasks of Table 3, at the paper's lengths.

    Args:
        tasks: of listops, text, retrieval, image and pathfinder; retrieval needs `data`.
        data: the folder that holds the data sets [default: LEANFORMER_DATA].
        progress: is called with the task that is about to be counted.
    """
    asked = tasks.split(",") if isinstance(tasks, str) else list(tasks)
    if unknown := [task for task in asked if task not in TASKS]:
        raise ValueError(f"the tasks of Table 3 are {', '.join(TASKS)}, got {', '.join(unknown)}")
    rows = []
    for task in asked:
        progress(f"counting tokens of {task}")
        rows.append(_row(task, data))
    return TokenCounts(rows=tuple(rows), **fields_of(circumstances()))


def _row(name: str, data: str | Path | None) -> CountsRow:
    from scipy.stats import binomtest

    from leanformer.tasks.counted_tokens import ALONE
    from leanformer.tasks.sequence_classes import SequenceData

    task = recipes.recipe(f"{name}-paper").task
    loaded = (task if data is None else task.with_data(data)).load()
    assert isinstance(loaded, SequenceData)
    assert loaded.test is not None
    held_out, linear = len(loaded.test), loaded.baselines[ALONE]
    interval = binomtest(round(held_out * linear / 100), held_out).proportion_ci(method="wilson")
    printed = [row for row in LONG_RANGE_ARENA if row.model == f"Nyströmformer, {TASKS[name]}" and row.results]
    return CountsRow(
        task=TASKS[name],
        source=loaded.source,
        length=loaded.length,
        train=loaded.size or 0,
        held_out=held_out,
        usual=loaded.baselines["the most frequent class"],
        linear=linear,
        low=100 * interval.low,
        high=100 * interval.high,
        printed={row.variant: row.results["accuracy"] for row in printed},
    )
