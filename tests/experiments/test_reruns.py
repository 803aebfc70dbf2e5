"""Committed experiments can be run again.

A run of a comparison begins with the recorded losses; a whole run of a sweep ends with the recorded score.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import leanformer as lf
from leanformer import tasks
from leanformer.data.hub import NotAvailable
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.training import loop
from leanformer.training.run import Run, write_run
from support.amount import COMPLETE, some

RESULTS = Path(__file__).parents[2] / "results"
COMPARISONS = [
    str(path.parent.relative_to(RESULTS))
    for path in sorted(RESULTS.rglob("comparison.json"))
    if "--pretrained" not in Comparison.read(path).command  # whose trained model is not committed
]
INTERVALS = 2
"""Of the log, which records the mean loss of some steps."""


def said_in_one_line(error: NotAvailable) -> None:
    """Without the data, which, and where they can come from."""
    assert len(str(error).splitlines()) == 1
    assert re.search("LEANFORMER_DATA|Needed is", str(error))


@pytest.mark.parametrize("name", some(COMPARISONS, 5))
def test_a_run_begins_as_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Comparison.read(RESULTS / name / "comparison.json")
    assert record.training is not None
    name = "lean" if "lean" in record.arms else next(iter(record.arms))  # sweeps name their designs
    arm = record.arms[name]
    training = replace(record.training, steps=arm.steps)
    seed = record.seeds[0]
    run = Run(name=name, architecture=arm.architecture, task=record.task, training=training, seed=seed)
    write_run(run, tmp_path)
    recorded = dict(record.runs[name][str(seed)].losses[:INTERVALS])
    seen: dict[int, float] = {}

    def stop_after(step: int, loss: float) -> None:
        seen[step] = loss
        if step >= max(recorded):
            raise InterruptedError

    monkeypatch.setattr(loop.Evaluator, "evaluate", lambda self, step: None)
    try:
        with pytest.raises(InterruptedError):
            lf.train(tmp_path, progress=stop_after)
    except NotAvailable as error:
        said_in_one_line(error)
        return
    first = 0
    for step, loss in recorded.items():
        span = [seen[at] for at in seen if first < at <= step]
        thinned = (seen[step], sum(span) / len(span))  # long curves keep some points, or means
        assert min(abs(loss - value) for value in thinned) < 1e-3 * loss
        first = step


def cheapest(record: Sweep) -> SweepCell:
    return min(record.cells, key=lambda cell: (cell.steps or 0) * (cell.step_seconds or 0))


def seconds(path: Path) -> float:
    cell = cheapest(Sweep.read(path))
    return (cell.steps or 0) * (cell.step_seconds or 0)


SWEEPS = sorted(RESULTS.rglob("sweep.json"), key=seconds)


@pytest.mark.parametrize("path", SWEEPS if COMPLETE else SWEEPS[:1], ids=lambda path: path.parent.name)
def test_a_run_of_a_sweep_ends_as_recorded(path: Path, tmp_path: Path) -> None:
    """The cheapest design with the first seed, within the spread of the seeds or 1 %, since CPUs round differently."""
    record = Sweep.read(path)
    assert record.original is not None
    assert record.task is not None
    assert record.training is not None
    cell, seed = cheapest(record), record.seeds[0]
    recipe = Recipe(
        name=record.name,
        task=tasks.read(record.task),
        original=record.original,
        lean=record.original,
        training=record.training,
        margin=0.0,
    )
    vary = {name: [value] for name, value in cell.values.items()}
    try:
        again = lf.sweep(
            recipe, vary=vary, equal_params=record.equal_params, seeds=[seed], jobs=1, out=tmp_path, report=False
        )
    except NotAvailable as error:
        said_in_one_line(error)
        return
    assert cell.score is not None
    recorded = cell.scores[str(seed)]
    assert abs(again.cells[0].scores[str(seed)] - recorded) <= max(2 * (cell.score.deviation or 0), 0.01 * recorded)
