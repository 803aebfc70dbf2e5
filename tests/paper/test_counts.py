"""The linear model of token counts beside Table 3."""

from dataclasses import replace
from pathlib import Path

import pytest

from leanformer import tasks
from leanformer.experiments import recipes
from leanformer.paper.counts import TASKS, USUAL, TokenCounts, counts
from leanformer.tasks import counted_tokens


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> tasks.ListOps:
    """ListOps of a few tokens in place of the paper's."""
    task = tasks.ListOps(min_length=5, max_length=20, train=400, validation=50, test=60)
    recipe = replace(recipes.recipe("listops-paper"), task=task)
    monkeypatch.setattr(recipes, "recipe", lambda name: recipe)
    return task


def test_a_row_is_the_score_with_its_interval_beside_what_is_printed(short: tasks.ListOps, tmp_path: Path) -> None:
    steps: list[str] = []
    record = counts("listops", progress=steps.append)
    (row,) = record.rows
    data = short.load()
    assert row.linear == data.baselines[counted_tokens.ALONE]
    assert (row.train, row.held_out, row.length) == (400, 60, 20)
    assert row.usual < row.linear < 100
    assert 0 < row.low < row.linear < row.high < 100
    assert row.high - row.low == pytest.approx(
        2 * 196 * (row.linear / 100 * (1 - row.linear / 100) / 60) ** 0.5, rel=0.1
    )
    assert row.printed == {"original": 36.79, "lean": 37.13}
    assert row.above == [variant for variant, value in row.printed.items() if value > row.high]
    assert steps == ["counting tokens of listops"]
    assert "a linear model of token counts scores" in record.sentences()[0]
    record.write(tmp_path / "counts.json")
    assert TokenCounts.read(tmp_path / "counts.json") == record
    assert record.plot() is not None
    assert record.to_frame()["lean"].tolist() == [37.13]


def test_every_task_of_table_3_is_known() -> None:
    assert set(USUAL) < set(TASKS)
    for name in TASKS:
        assert recipes.recipe(f"{name}-paper").name == f"{name}-paper"
    with pytest.raises(ValueError, match="the tasks of Table 3 are listops, text, retrieval, image, pathfinder, got x"):
        counts("listops,x")
