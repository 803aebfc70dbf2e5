"""What leanformer 0.1 wrote is read, resumed and reported."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer import tasks
from leanformer.experiments import comparison, summary, sweep
from leanformer.experiments.plan import ComparisonPlan
from leanformer.foundation.records.base import Record
from leanformer.models.own.story_gpt import StoryGPTForCausalLM
from leanformer.tasks import FarthestPoint, ImageClasses, NextToken
from leanformer.training.result import Result
from leanformer.training.run import read_run
from support.command import call
from support.rounding import differing

V01 = Path(__file__).parents[2] / "fixtures" / "v0.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(V01, tmp_path / "v0.1"))


def plain(record: Record, *without: str) -> dict[str, Any]:
    return {key: value for key, value in record.to_dict().items() if key not in ("checksum", *without)}


def test_a_run_that_was_stopped_resumes_to_the_result_it_would_have_had(folder: Path) -> None:
    """Bit-identical on the processor that wrote it; κ of another one differs in the fifth digit."""
    said: list[str] = []
    result = lf.train(folder / "unfinished", say=said.append)
    assert said == ["lean, seed 7: resuming from step 8 of 12"]
    expected = Result.read(folder / "unfinished-expected-result.json")  # 0.1 held no digests, and fewer settings
    expected = expected.changed(task=tasks.read(expected.task).to_dict())
    found, wanted = (plain(record, "model_sums", "data") for record in (result, expected))
    assert differing(found, wanted, rel=1e-4) == []


def test_runs_are_read_with_tasks_and_families_under_their_present_names() -> None:
    run = read_run(V01 / "stories")
    assert isinstance(run.task, NextToken)
    assert (run.task.to_dict()["kind"], run.architecture.family) == ("next-token", "story-gpt")
    run = read_run(V01 / "points")
    assert isinstance(run.task, FarthestPoint)
    assert (run.task.to_dict()["kind"], run.architecture.family) == ("farthest-point", "point-encoder")
    assert isinstance(read_run(V01 / "unfinished").task, ImageClasses)


def test_trained_models_are_loaded() -> None:
    assert isinstance(lf.from_pretrained(V01 / "stories"), StoryGPTForCausalLM)
    assert lf.describe(lf.from_pretrained(V01 / "comparison" / "lean" / "seed-0")).depth == 1


def test_a_comparison_is_summarised_and_grows(folder: Path) -> None:
    out = folder / "comparison"
    before = comparison.Comparison.read(out / "comparison.json")
    again = summary.summarise(out)
    assert {arm: row.scores for arm, row in again.arms.items()} == {arm: row.scores for arm, row in before.arms.items()}
    means = [{name: found.difference.mean for name, found in record.verdict.lean.items()} for record in (before, again)]
    assert means[0] == means[1]
    assert again.verdict.outcome == before.verdict.outcome
    assert again.amendments == []
    assert again.runs == before.runs
    stamp = (out / "lean" / "seed-0" / "result.json").stat().st_mtime_ns
    plan = ComparisonPlan.read(out / "plan.json")
    recipe = comparison.Recipe(
        name=plan.name,
        task=ImageClasses(dataset="digits"),
        original=plan.original,
        lean=plan.lean,
        training=plan.training,
        margin=1.0,
    )
    more = lf.compare(recipe, out=out, seeds=3, jobs=1)
    assert (out / "lean" / "seed-0" / "result.json").stat().st_mtime_ns == stamp, "nothing is trained twice"
    assert more.seeds == [0, 1, 2]
    (changed,) = more.amendments
    assert changed.words.startswith("changed after 6 results: the number of seeds, from 2 to 3;")
    assert "seeds were added without a plan" in more.verdict.words
    assert {seed: more.arms["lean"].scores[seed] for seed in ("0", "1")} == before.arms["lean"].scores


def test_a_sweep_is_summarised(folder: Path) -> None:
    before, again = sweep.Sweep.read(folder / "sweep" / "sweep.json"), sweep.summarise(folder / "sweep")
    assert differing(plain(again), plain(before), rel=1e-12) == []


def test_every_folder_is_reported_by_the_command(folder: Path) -> None:
    shown = call("report", str(folder / "comparison"))
    assert shown.returncode == 0, shown.stderr
    assert "Cannot tell: at least 1 more seed needed for lean against original" in shown.stdout
    shown = call("report", str(folder / "sweep"))
    assert shown.returncode == 0, shown.stderr
    assert "digits: accuracy ± 95 % interval over 1 seed" in shown.stdout
    shown = call("train", str(folder / "points"), "--json")
    assert json.loads(shown.stdout)["final"] == json.loads((V01 / "points" / "result.json").read_text())["final"]
