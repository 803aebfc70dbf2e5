"""The same comparison at several lengths: runs of their own, paired differences between lengths, and what is said."""

from functools import partial
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments.lengths import shares_of, trends
from leanformer.training.run import read_run
from support.command import call
from support.tiny_run import recipe

compare = partial(lf.compare, recipe(), arms=["original", "lean"], jobs=1, seeds=3, budgets="1/3,2/3,1", report=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lengths") / "out"
    compare(out=out)
    return out


def test_every_length_is_a_comparison_of_its_own(folder: Path) -> None:
    record = lf.Comparison.read(folder / "comparison.json")
    assert list(record.lengths) == ["0.333333", "0.666667"]
    assert [record.lengths[share].arms["lean"].steps for share in record.lengths] == [2, 4]
    assert record.arms["lean"].steps == 6
    short = read_run(folder / "lengths" / "0.333333" / "lean" / "seed-1")
    assert (short.training.steps, short.seed, short.task) == (2, 1, recipe().task)
    assert short.training.lr_at(1) < short.training.lr_at(0), "its schedule ends with it"
    said = "\n".join(record.sentences())
    assert "at 1/3 of the steps, " in said
    assert "at 2/3 of the steps, " in said
    assert "from 2/3 to all of the steps" in said


def test_trends_are_paired_by_seed(folder: Path) -> None:
    record = lf.Comparison.read(folder / "comparison.json")
    assert [(round(trend.before, 2), round(trend.after, 2)) for trend in record.trends] == [(0.33, 0.67), (0.67, 1.0)]
    late, last = record.lengths["0.666667"].arms, record.arms
    changes = [
        (last["lean"].scores[seed] - last["original"].scores[seed])
        - (late["lean"].scores[seed] - late["original"].scores[seed])
        for seed in ("0", "1", "2")
    ]
    assert record.trends[-1].change.mean == pytest.approx(sum(changes) / 3)


def test_repeated_it_trains_nothing_and_more_seeds_reach_every_length(folder: Path) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}
    again = compare(out=folder, budgets=None)
    assert again.lengths == lf.Comparison.read(folder / "comparison.json").lengths
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")} == stamps
    more = compare(out=folder, budgets=None, seeds=4)
    assert all(set(variant.arms["lean"].scores) == set("0123") for variant in more.lengths.values())


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ([2.0, 2.1, 1.9], "is still changing"),
        ([0.4, -0.5, 0.1], "no change"),
    ],
)
def test_a_change_is_clear_or_not(differences: list[float], words: str) -> None:
    from leanformer.experiments.sentences import trend

    scores = {
        0.5: {"lean": {str(seed): 80.0 for seed in range(3)}, "original": {str(seed): 80.0 for seed in range(3)}},
        1.0: {
            "lean": {str(seed): 90.0 + change for seed, change in enumerate(differences)},
            "original": {str(seed): 90.0 for seed in range(3)},
        },
    }
    (found,) = trends(scores, 1.0, 0.01)
    assert words in trend(found, "%")
    (lower,) = trends(scores, -1.0, 0.01)
    assert lower.change.mean == pytest.approx(-found.change.mean)


def test_shares_are_fractions_or_decimals() -> None:
    assert shares_of("1/4, 1/2,1") == [0.25, 0.5]
    assert shares_of([0.1, 1]) == [0.1]


@pytest.mark.parametrize("budgets", ["0", "5/4", "a", "1/0", "-1/2", ""])
def test_other_budgets_are_refused(budgets: str, tmp_path: Path) -> None:
    refused = call("compare", "--budgets", budgets, "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "budgets are shares of the steps above 0 and up to 1, as in 1/4,1/2,1; got" in refused.stderr


def test_the_report_draws_differences_by_length(folder: Path) -> None:
    shown = call("report", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert (folder / "figures" / "lengths.png").stat().st_size > 5000
