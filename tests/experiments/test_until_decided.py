"""Comparisons that run until they are decided: planned looks, stops and resumes between them, and changed plans."""

from functools import partial
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments import comparison
from leanformer.experiments.plan import read_plan
from support.command import call
from support.tiny_run import recipe

compare = partial(lf.compare, recipe(), arms=["original", "lean"], report=False, jobs=1, steps=2)


class Stop(Exception):  # noqa: N818
    pass


def test_seeds_are_added_at_looks_until_the_verdict_is_decided(tmp_path: Path) -> None:
    said: list[str] = []
    record = compare(out=tmp_path / "clear", until="decided", max_seeds=6, margin=90.0, say=said.append)
    assert record.verdict.outcome == "holds"
    assert record.seeds == [0, 1, 2, 3], "nothing is trained after the first look that decides"
    assert "look 1 of 2" in record.verdict.words
    undecided = compare(out=tmp_path / "close", until="decided", max_seeds=6, margin=0.0, say=said.append)
    assert undecided.seeds == [0, 1, 2, 3, 4, 5]
    assert "next look: 6 seeds" in "\n".join(said)
    assert read_plan(tmp_path / "close").rule.looks == [4, 6]
    assert not undecided.amendments


def test_a_stop_between_looks_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare(out=tmp_path / "whole", until="decided", max_seeds=5, margin=0.0)

    def stop(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(comparison, "to_next_look", stop)
        with pytest.raises(Stop):
            compare(out=tmp_path / "stopped", until="decided", max_seeds=5, margin=0.0)
    assert read_plan(tmp_path / "stopped").seeds == [0, 1, 2, 3]
    resumed = compare(out=tmp_path / "stopped")  # the folder's plan says how long
    assert resumed.verdict == whole.verdict
    assert resumed.seeds == whole.seeds == [0, 1, 2, 3, 4]
    assert {arm: row.scores for arm, row in resumed.arms.items()} == {a: row.scores for a, row in whole.arms.items()}
    assert not resumed.amendments


def test_what_is_changed_after_results_is_marked_or_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare(out=out, seeds=3, margin=50.0)
    with pytest.raises(ValueError, match="when to stop must be planned before the first result"):
        compare(out=out, until="decided", margin=50.0)
    more = compare(out=out, seeds=4, margin=40.0)
    assert [change.what for change in more.amendments] == ["margin", "number of seeds"]
    assert "seeds were added without a plan" in more.verdict.words
    assert any("changed after 6 results: the margin, from 50.0 to 40.0" in line for line in more.sentences())
    again = compare(out=out)
    assert again.amendments == more.amendments, "nothing new was changed"
    assert again.margin == 40.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"until": "bored"}, "until must be 'decided', got 'bored'"),
        ({"until": "decided", "seeds": 3}, "until='decided' chooses the number of seeds: give max_seeds, not seeds"),
        ({"max_seeds": 9}, "max_seeds=9 needs until='decided'"),
        ({"until": "decided", "max_seeds": 3}, "needs a limit of at least 4 seeds, got 3"),
    ],
)
def test_plans_that_make_no_sense_are_refused(given: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        compare(out=tmp_path, **given)


def test_the_command_takes_them_too(tmp_path: Path) -> None:
    found = call("compare", "digits", "--until", "bored", "--out", str(tmp_path / "out"))
    assert found.returncode == 2
    assert "until must be 'decided', got 'bored'" in found.stderr


def test_a_recipe_may_run_until_it_is_decided_unless_a_number_of_seeds_is_asked_for(tmp_path: Path) -> None:
    chosen = recipe(max_seeds=5, margin=0.0)
    compare_it = partial(lf.compare, chosen, arms=["original", "lean"], report=False, jobs=1, steps=1)
    assert compare_it(out=tmp_path / "usual").seeds == [0, 1, 2, 3, 4]
    assert read_plan(tmp_path / "usual").rule.looks == [4, 5]
    assert compare_it(out=tmp_path / "asked", seeds=2).seeds == [0, 1]
    assert compare_it(out=tmp_path / "asked").seeds == [0, 1], "the folder's plan stands"
    swept = lf.sweep(chosen, heads=[2, 4], report=False, jobs=1, steps=1, out=tmp_path / "swept")
    assert swept.seeds == [0, 1, 2], "a sweep has no single verdict to decide"


def test_a_comparison_is_repeated_with_other_seeds(tmp_path: Path) -> None:
    record = compare(out=tmp_path / "looks", until="decided", max_seeds=5, margin=0.0, first_seed=20)
    assert record.seeds == [20, 21, 22, 23, 24]
    assert compare(out=tmp_path / "fixed", seeds=2, first_seed=7).seeds == [7, 8]
    with pytest.raises(ValueError, match="first_seed goes with a number of seeds; here the seeds are listed"):
        compare(out=tmp_path / "listed", seeds=[1, 2], first_seed=7)
    with pytest.raises(ValueError, match="first_seed must be a whole number of at least 0, got -1"):
        compare(out=tmp_path / "negative", seeds=2, first_seed=-1)
