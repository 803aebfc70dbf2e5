"""Tuned comparisons: what the trials see, what they leave, stops and kills on the way, and what is then said."""

import json
import multiprocessing
import signal
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import pytest

import leanformer as lf
from leanformer.experiments.plan import read_plan
from leanformer.experiments.tuning.records import tuning_plan
from leanformer.training.run import read_run
from support.command import call
from support.kills import die_at_flush
from support.tiny_run import recipe, training

compare = partial(
    lf.compare, recipe(), arms=["original", "lean"], seeds=2, report=False, jobs=1, tune="lr", tune_seeds=1
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuned") / "out"
    compare(out=out)
    return out


def trial_folders(out: Path) -> list[Path]:
    return sorted(path.parent for path in (out / "tuning").rglob("run.json"))


def facts(record: Any) -> Any:
    """Of a record, what must not depend on stops."""
    arms = [{name: arm.scores for name, arm in part.arms.items()} for part in (record, record.tuned)]
    return record.tuning, record.verdict, record.tuned.verdict, arms


def test_trials_see_neither_the_seeds_nor_the_samples_of_the_verdict(folder: Path) -> None:
    runs = [read_run(path) for path in trial_folders(folder)]
    assert len(runs) >= 2 * (5 + 3)
    assert all(run.seed >= 1_000_000 for run in runs)
    assert {run.task.to_dict()["kind"] for run in runs} == {"tuning-part"}
    assert {run.training.steps for run in runs} == {2, 6}, "a quarter of the steps, and all of them"
    assert {arm: sum(run.name == arm for run in runs) for arm in ("original", "lean")} == dict.fromkeys(
        ("original", "lean"), len(runs) // 2
    ), "as many trials for each arm"


def test_the_best_settings_are_those_with_the_best_score(folder: Path) -> None:
    record = lf.Comparison.read(folder / "comparison.json")
    assert record.tuning is not None
    for arm, best in record.tuning.best.items():
        full = {
            trial.values["lr"]: trial.score for trial in record.tuning.trials if trial.arm == arm and trial.steps == 6
        }
        assert full[best["lr"]] == max(score for score in full.values() if score is not None)
        assert dict(record.tuning.curve(arm, "lr")) == full
        for seed in (0, 1):
            run = read_run(folder / "tuned" / arm / f"seed-{seed}")
            assert run.training.lr == best["lr"]
            assert run.task == recipe().task, "the verdict's runs are trained on all training samples"
    spent = sum(trial.steps for trial in record.tuning.trials if trial.arm == "lean")
    assert record.tuning.runs_worth == pytest.approx(spent / 6)


def test_both_verdicts_are_said_and_whether_they_agree(folder: Path) -> None:
    record = lf.Comparison.read(folder / "comparison.json")
    said = "\n".join(record.sentences())
    assert "tuned on a part of the training samples" in said
    assert "with each arm at its best settings, " in said
    assert record.robust is None, "two seeds decide nothing"
    assert "whether this verdict is robust cannot be told" in said


def test_equal_verdicts_are_robust_and_different_ones_are_not(tmp_path: Path) -> None:
    record = compare(out=tmp_path / "out", seeds=3, margin=99.0)
    assert record.robust is True
    assert "this verdict is robust: lean holds at the shared settings and at each arm's best" in record.sentences()
    assert record.tuned is not None
    lost = {"original": record.tuned.verdict.lean["original"].model_copy(update={"outcome_of_finished": "loses"})}
    verdict = record.tuned.verdict.model_copy(update={"lean": lost})
    other = record.model_copy(update={"tuned": record.tuned.model_copy(update={"verdict": verdict})})
    assert other.robust is False
    assert any(
        "this verdict is not robust: lean holds at the shared settings and loses at" in s for s in other.sentences()
    )


def test_optuna_has_every_trial(folder: Path) -> None:
    record = lf.Comparison.read(folder / "comparison.json")
    assert record.tuning is not None
    for arm in ("original", "lean"):
        study = optuna.load_study(
            study_name=f"small: {arm}", storage=f"sqlite:///{folder / 'tuning' / 'trials.sqlite'}"
        )
        assert study.best_params == record.tuning.best[arm] or study.best_value == max(
            trial.score or 0 for trial in record.tuning.trials if trial.arm == arm and trial.stage == "full"
        )
        wanted = {trial.values["lr"] for trial in record.tuning.trials if trial.arm == arm}
        assert {trial.params["lr"] for trial in study.trials} == wanted


def test_trials_leave_no_weights(folder: Path) -> None:
    assert not list((folder / "tuning").rglob("model*.safetensors"))
    assert list((folder / "lean").rglob("model*.safetensors"))


def test_stopped_during_tuning_it_ends_as_if_it_had_not_been(folder: Path, tmp_path: Path) -> None:
    whole, out = lf.Comparison.read(folder / "comparison.json"), tmp_path / "out"
    for after in (7, 9):
        done: list[str] = []

        def stop(arm: str, seed: int, event: Any, done: list[str] = done, after: int = after) -> None:
            done.extend([arm] if event["event"] == "done" else [])
            if len(done) == after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            compare(out=out, listen=stop)
    trained = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    record = compare(out=out)
    assert facts(record) == facts(whole)
    assert {path: path.stat().st_mtime_ns for path in trained} == trained, "finished trials are not repeated"


def _killed(out: Path, calls: int) -> None:
    die_at_flush(calls)
    compare(out=out)


def test_killed_during_tuning_it_ends_with_the_same_trials_and_verdicts(folder: Path, tmp_path: Path) -> None:
    whole, out = lf.Comparison.read(folder / "comparison.json"), tmp_path / "out"
    for calls in (150, 200):
        process = multiprocessing.get_context("fork").Process(target=_killed, args=(out, calls))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert (out / "tuning").is_dir()
        assert not (out / "tuned").exists()
    assert facts(compare(out=out)) == facts(whole)


def test_without_tune_the_folders_plan_stands_and_a_late_wish_is_marked(folder: Path, tmp_path: Path) -> None:
    resumed = compare(out=folder, tune=None, tune_seeds=None)
    assert resumed.tuning is not None
    assert not resumed.amendments
    late = tmp_path / "late"
    compare(out=late, tune=None, tune_seeds=None)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(out=late, planned=stop)
    (change,) = read_plan(late).amendments
    assert "changed after 4 results: the tuning, from nothing to lr" in change.words


def test_a_resumed_one_has_the_seeds_and_the_margin_of_its_first_command(tmp_path: Path) -> None:
    def stop(arm: str, seed: int, event: Any) -> None:
        if seed >= 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(out=tmp_path / "out", seeds=2, first_seed=5, margin=7.0, listen=stop)
    record = compare(out=tmp_path / "out", seeds=None, tune=None, tune_seeds=None)
    assert record.tuned is not None
    assert record.seeds == record.tuned.seeds == [5, 6]
    assert record.tuned.verdict.lean["original"].margin == 7.0


def test_the_report_shows_the_curves(tmp_path: Path, folder: Path) -> None:
    shown = call("report", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "best lr" in shown.stdout
    assert (folder / "figures" / "tuning_lr.png").stat().st_size > 5000
    page = (folder / "report.html").read_text()
    assert "on the part of the samples for tuning" in page
    assert json.loads((folder / "comparison.json").read_text())["tuning"]["plan"]["settings"][0]["name"] == "lr"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["--tune", "speed"], "what can be tuned is lr and weight_decay, once each, got 'speed'"),
        (["--tune", "lr,lr"], "what can be tuned is lr and weight_decay, once each"),
        (["--tune", "lr", "--tune-share", "0"], "a trial takes a share of a run's steps above 0 and up to 1, got 0"),
        (["--tune-share", "0.5"], "--tune-share and --tune-seeds need --tune, which says what is tuned"),
        (
            ["--tune", "weight_decay", "--set", "training.weight_decay=0"],
            "weight_decay is 0, and a grid of factors needs a first value: set training.weight_decay",
        ),
        (["--command", "python train.py", "--tune", "lr"], "--tune does not go with train or --command"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(choices: list[str], message: str, tmp_path: Path) -> None:
    refused = call(
        "compare", *(["digits"] if "--command" not in choices else []), "--out", str(tmp_path / "out"), *choices
    )
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert not list(tmp_path.rglob("seed-*"))


def test_schedules_keep_their_form() -> None:
    plan = tuning_plan("lr,weight_decay", training(min_lr=4e-4, warmup_lr=4e-5), None, None)
    assert plan.values((1, -1)) == {"lr": 8e-3, "weight_decay": 0.0125}
    from leanformer.experiments.tuning.records import trained_with

    changed = trained_with(training(min_lr=4e-4, warmup_lr=4e-5), plan.values((1, -1)))
    assert (changed.lr, changed.weight_decay) == (8e-3, 0.0125)
    assert (changed.min_lr, changed.warmup_lr) == pytest.approx((8e-4, 8e-5))
