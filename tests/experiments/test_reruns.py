"""Committed comparisons can be run again: a run with the recorded settings begins with the recorded losses."""

from dataclasses import replace
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments.comparison_records import Comparison
from leanformer.training import loop
from leanformer.training.run import Run, write_run
from support.amount import some

RESULTS = Path(__file__).parents[2] / "results"
COMPARISONS = [
    path.parent.name
    for path in sorted(RESULTS.glob("*/comparison.json"))
    if "--pretrained" not in Comparison.read(path).command  # whose trained model is not committed
]
INTERVALS = 2
"""Of the log, which records the mean loss of some steps."""


@pytest.mark.parametrize("name", some(COMPARISONS, 5))
def test_a_run_begins_as_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Comparison.read(RESULTS / name / "comparison.json")
    assert record.training is not None
    arm = record.arms["lean"]
    training = replace(record.training, steps=arm.steps)
    seed = record.seeds[0]
    run = Run(name="lean", architecture=arm.architecture, task=record.task, training=training, seed=seed)
    write_run(run, tmp_path)
    recorded = dict(record.runs["lean"][str(seed)].losses[:INTERVALS])
    seen: dict[int, float] = {}

    def stop_after(step: int, loss: float) -> None:
        seen[step] = loss
        if step >= max(recorded):
            raise InterruptedError

    monkeypatch.setattr(loop.Evaluator, "evaluate", lambda self, step: None)
    try:
        with pytest.raises(InterruptedError):
            lf.train(tmp_path, progress=stop_after)
    except ValueError as error:  # without the data, that is said in one line
        assert "LEANFORMER_DATA" in str(error)
        assert len(str(error).splitlines()) == 1
        return
    first = 0
    for step, loss in recorded.items():
        span = [seen[at] for at in seen if first < at <= step]
        thinned = (seen[step], sum(span) / len(span))  # long curves keep some points, or means
        assert min(abs(loss - value) for value in thinned) < 1e-3 * loss
        first = step
