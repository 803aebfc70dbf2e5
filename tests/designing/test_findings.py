"""Findings: they are what the committed sweeps measured, and the levels follow from them."""

import math
from pathlib import Path

import pytest

from leanformer.designing import findings
from leanformer.designing.findings import FINDINGS, SAFE, Finding, evidence, level
from leanformer.experiments import recipes
from leanformer.experiments import sweep as sweeping
from leanformer.experiments.sweep_records import Sweep

RESULTS = Path(__file__).parents[2] / "results"


def records() -> dict[str, Sweep]:
    return {name: sweeping.read_record(RESULTS / name) for name in {finding.record for finding in FINDINGS}}


def test_findings_are_what_the_committed_sweeps_measured() -> None:
    """Every split head smaller than the recipe's, to the digits shown; nothing left out and nothing rounded away."""
    measured = set()
    for name, record in records().items():
        usual, width = record.original.stages[0].head_dim, record.original.stages[0].width
        places = 2 if record.metric.unit == "%" else 3
        for cell in record.cells:
            (stage,) = cell.architecture.stages
            if cell.values["regime"] == "split" and stage.head_dim < usual:
                assert cell.difference is not None
                assert cell.difference.t is not None
                figures = (cell.difference.mean, cell.difference.t.low, cell.difference.t.high)
                measured.add((name, width, usual, stage.head_dim, *(round(figure, places) for figure in figures)))
        assert recipes.recipe(record.name).margin == next(f.margin for f in FINDINGS if f.record == name)
        assert len(record.seeds) >= 3
    listed = {(f.record, f.width, f.usual, f.head_dim, f.difference, f.low, f.high) for f in FINDINGS}
    assert listed == measured


def test_heads_of_the_safe_size_and_above_lost_in_no_sweep() -> None:
    for record in records().values():
        for cell in record.cells:
            if cell.values["regime"] == "split" and cell.architecture.stages[0].head_dim >= SAFE:
                assert cell.difference is None or cell.values["heads"] < 4 or not cell.difference.told


@pytest.mark.parametrize(
    ("head_dim", "expected"),
    [
        *((size, "refuse") for size in (1, 2, 3, 4, 6, 8)),  # TinyStories lost more than its margin with heads of 8
        *((size, "warn") for size in (9, 12, 16)),  # it lost with heads of 16, by less than the margin
        *((size, "note") for size in (17, 24, 31, 64)),  # no task lost
    ],
)
def test_levels_follow_from_the_findings(head_dim: int, expected: str) -> None:
    assert level(head_dim) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-2.0, -0.6, "refuse"), (-2.0, -0.5, "warn"), (-2.0, -0.1, "warn"), (-2.0, 0.1, "note"), (0.1, 2.0, "note")],
)
def test_an_interval_decides_the_level(low: float, high: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Finding("a task", "nowhere", 64, 64, 32, (low + high) / 2, low, high, "points", 0.5)
    monkeypatch.setattr(findings, "FINDINGS", (lost,))
    assert [level(size) for size in (16, 32, 33)] == [expected, expected, "note"]


def test_the_evidence_is_of_every_task_at_the_nearest_size() -> None:
    tasks = {finding.task for finding in FINDINGS}
    for head_dim in (1, 2, 3, 4, 6, 8, 12, 16, 24, 31):
        sizes = {task: [f.head_dim for f in FINDINGS if f.task == task] for task in tasks}
        for task, found in sizes.items():
            nearest = min(found, key=lambda size: abs(math.log2(size / head_dim)))
            (said,) = [part for part in evidence(head_dim).split("; ") if part.startswith(task)]
            assert f"heads of {nearest} instead of" in said
    assert "TinyStories, width 128: -0.037 [-0.039, -0.034] nats with heads of 8 instead of 32" in evidence(7)


def test_smaller_heads_are_never_judged_more_mildly() -> None:
    order = ["note", "warn", "refuse"]
    levels = [order.index(level(head_dim)) for head_dim in range(1, SAFE)]
    assert levels == sorted(levels, reverse=True)
