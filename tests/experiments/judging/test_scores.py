"""Scores from files, folders and objects: every odd row is refused or stated, nothing is dropped in silence."""

import json
from pathlib import Path

import pandas as pd
import pytest

from leanformer.experiments.judging.sources import read_scores

GOOD = "arm,seed,score\noriginal,0,1.5\nlean,0,1.25\noriginal,1,2\nlean,1,3\n"
SCORES = {"original": {0: 1.5, 1: 2.0}, "lean": {0: 1.25, 1: 3.0}}


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_every_form_gives_the_same_scores(tmp_path: Path) -> None:
    rows = [{"arm": arm, "seed": seed, "score": score} for arm, runs in SCORES.items() for seed, score in runs.items()]
    forms = [
        written(tmp_path, "a.csv", GOOD),
        str(written(tmp_path, "b.tsv", GOOD.replace(",", "\t"))),
        written(tmp_path, "c.csv", "\ufeff" + GOOD.replace("arm,seed", " arm , seed")),
        written(tmp_path, "d.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n"),
        written(tmp_path, "e.json", json.dumps(rows)),
        written(tmp_path, "f.json", json.dumps(SCORES)),
        rows,
        pd.DataFrame(rows),
        SCORES,
        {"original": [1.5, 2.0], "lean": [1.25, 3.0]},
    ]
    assert [read_scores(form).scores for form in forms] == [SCORES] * len(forms)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the column arm, seed, score; needed are arm, seed, score"),
        ("arm,seed\nlean,0\n", "lacks the column score"),
        ("arm,seed,score\n", "has no rows"),
        (GOOD + "lean,1,3\n", "line 6: lean, seed 1 stands in .*line 5 already; keep one row for each"),
        (GOOD + "lean,2\n", "line 6: another number of columns than the first line's 3"),
        (GOOD + "lean,2,3,4\n", "line 6: another number of columns"),
        (GOOD + "lean,2,good\n", "line 6: a score is a number, got 'good'"),
        (GOOD + ",2,1\n", "line 6: an arm is a name of up to 100 printable characters, got ''"),
        (GOOD + "lean,,1\n", "line 6: a seed is a whole number or a short name, got ''"),
        (GOOD + "lean,nan,1\n", "line 6: a seed is a whole number or a short name"),
    ],
)
def test_bad_tables_are_refused_with_the_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_scores(written(tmp_path, "scores.csv", text))
    assert "scores.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_other_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file"):
        read_scores(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match=r"scores are read from \.csv"):
        read_scores(written(tmp_path, "scores.xlsx", "x"))
    with pytest.raises(ValueError, match="line 2 is not JSON"):
        read_scores(written(tmp_path, "s.jsonl", '{"arm": "a", "seed": 0, "score": 1}\n{oops\n'))
    with pytest.raises(ValueError, match="line 1 is not a JSON object"):
        read_scores(written(tmp_path, "s.jsonl", "3\n"))
    with pytest.raises(ValueError, match="scores are a file, a folder, a data frame, rows or a dictionary; got 3"):
        read_scores(3)
    with pytest.raises(ValueError, match="row 0 is not a dictionary"):
        read_scores([3])
    with pytest.raises(ValueError, match="lean needs its scores by seed, or as a list; got 3"):
        read_scores({"lean": 3})
    with pytest.raises(ValueError, match=r"has neither summary\.csv"):
        read_scores(tmp_path)
    with pytest.raises(ValueError, match="key='x' is for folders of runs"):
        read_scores(written(tmp_path, "scores.csv", GOOD), key="x")


def test_scores_that_are_not_finite_are_failed_runs(tmp_path: Path) -> None:
    found = read_scores(written(tmp_path, "s.csv", GOOD + "lean,2,nan\nlean,3,\nlean,4,inf\nlean,s5,1\n"))
    assert found.failed == [("lean", 2), ("lean", 3), ("lean", 4)]
    assert found.seeds == [0, 1, "s5"]


def test_rows_of_samples_are_averaged_and_kept(tmp_path: Path) -> None:
    lines = [
        f"{arm},{seed},{sample},{int(sample < right)}"
        for arm, right in (("a", 3), ("b", 2))
        for seed in (0, 1)
        for sample in range(4)
    ]
    found = read_scores(written(tmp_path, "s.csv", "arm,seed,sample,score\n" + "\n".join(lines)), unit="%")
    assert found.scores == {"a": {0: 75.0, 1: 75.0}, "b": {0: 50.0, 1: 50.0}}
    assert found.outcomes["b"][1].tolist() == [1, 1, 0, 0]
    uneven = read_scores(written(tmp_path, "s.csv", "arm,seed,sample,score\n" + "\n".join(lines[:-1])), unit="%")
    assert uneven.outcomes == {}
    assert "runs have different samples" in uneven.notes[0]


def test_folders_of_timm(tmp_path: Path) -> None:
    for place, (name, score) in enumerate({"lean/seed-0": 70, "lean/seed-1": 71, "base_s0": 72, "base_s1": 73}.items()):
        (tmp_path / name).mkdir(parents=True)
        text = f"epoch,train_loss,eval_top1\n0,2.3,{score - 10}\n1,2.0,{score}\n"
        written(tmp_path / name, "summary.csv", text)
        written(tmp_path / name, "args.yaml", f"seed: {place % 2}\nlr: 0.1\n")
    assert read_scores(tmp_path).scores == {"base": {0: 72.0, 1: 73.0}, "lean": {0: 70.0, 1: 71.0}}
    with pytest.raises(ValueError, match="has no column eval_top5; it has epoch, train_loss, eval_top1"):
        read_scores(tmp_path, key="eval_top5")
    (tmp_path / "noseed").mkdir()
    written(tmp_path / "noseed", "summary.csv", "epoch,eval_top1\n0,1\n")
    with pytest.raises(ValueError, match="the seed is not in its name; name the folder of a run like lean/seed-0"):
        read_scores(tmp_path)


def test_folders_of_transformers(tmp_path: Path) -> None:
    for arm in ("lean", "original"):
        for seed in (0, 1):
            run = tmp_path / arm / str(seed)
            (run / "checkpoint-20").mkdir(parents=True)
            history = [
                {"step": 10, "loss": 1.0},
                {"step": 10, "eval_accuracy": 0.5},
                {"step": 20, "eval_accuracy": 0.75},
            ]
            state = json.dumps({"log_history": history})
            written(run, "trainer_state.json", state)
            written(run / "checkpoint-20", "trainer_state.json", "{}")
    assert read_scores(tmp_path).scores == {arm: {0: 0.75, 1: 0.75} for arm in ("lean", "original")}
    with pytest.raises(ValueError, match="has no eval_f1 in its log_history; it has eval_accuracy"):
        read_scores(tmp_path, key="eval_f1")
