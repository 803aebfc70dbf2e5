"""Comparisons end to end: arms, resuming, the record, the report and the command."""

import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import leanformer as lf
from leanformer.architecture import Architecture
from leanformer.experiments.budgets import Budget
from leanformer.experiments.comparison import as_seeds
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.overrides import adjusted, redesigned
from leanformer.experiments.plan import make_plan
from leanformer.experiments.sentences import as_sentence
from leanformer.experiments.summary import read_record, summarise
from leanformer.foundation.machine import cores
from leanformer.report import comparison as report
from leanformer.report import page
from leanformer.runners.choice import default_jobs
from leanformer.training.loop import train
from support import tiny_run as trained
from support.command import call
from support.tiny_run import recipe

compare = partial(lf.compare, report=False)  # pages take longer than these runs


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("comparison") / "small"


@pytest.fixture(scope="module")
def record(out: Path) -> Comparison:
    return compare(recipe(), arms=["original", "lean", "shallow", "wide"], out=out, jobs=1)


# Arms


def sizes(design: Architecture) -> tuple[int, int, int]:
    stage = design.stages[0]
    return design.depth, stage.heads, stage.mlp_dim


def test_the_arms_are_a_two_by_two() -> None:
    arms = replace(recipe(), arms=("original", "lean", "shallow", "wide")).architectures()
    assert {arm: sizes(design) for arm, design in arms.items()} == {
        "original": (2, 2, 32),
        "lean": (1, 4, 16),
        "shallow": (1, 2, 32),
        "wide": (2, 4, 16),
    }


def test_the_control_of_a_schedule_of_heads_has_its_depth() -> None:
    scheduled = replace(recipe(), lean=recipe().original.resized(heads=[2, 4, 8]))
    assert sizes(scheduled.architecture("shallow")) == (3, 2, 32)
    with pytest.raises(ValueError, match="a schedule of heads has no form with 2 layers"):
        scheduled.architecture("wide")


def test_stages_are_crossed_one_by_one() -> None:
    original = lf.architecture_of("davit_tiny")
    lean = original.resized(depth=[1, 1, 1, 1], heads=[4, 8, 16, 32], keep="width")
    crossed = replace(recipe(), original=original, lean=lean)
    assert [stage.depth for stage in crossed.architecture("shallow").stages] == [1, 1, 1, 1]
    assert [stage.heads for stage in crossed.architecture("shallow").stages] == [s.heads for s in original.stages]
    assert [stage.heads for stage in crossed.architecture("wide").stages] == [4, 8, 16, 32]


# The record


def test_every_run_is_there_and_the_numbers_agree(record: Comparison, out: Path) -> None:
    for arm, row in record.arms.items():
        results = [json.loads((out / arm / f"seed-{s}" / "result.json").read_text()) for s in range(3)]
        assert row.scores == {str(seed): result["final"]["accuracy"] for seed, result in enumerate(results)}
        assert row.params == results[0]["params"]
        assert row.score.mean == pytest.approx(np.mean([result["final"]["accuracy"] for result in results]))
        assert row.step_seconds > 0
        assert row.kappa > 1
    lean, original = (record.arms[arm].score.mean for arm in ("lean", "original"))
    assert record.verdict.lean["original"].difference.mean == pytest.approx(lean - original)
    assert record.verdict.words == record.verdict.all_words[0]
    assert record.verdict.outcome in ("holds", "loses", "cannot tell")
    assert Comparison.read(out / "comparison.json") == record
    assert len(repr(record)) < 2000


def test_arms_of_one_seed_see_the_same_batches_and_seeds_do_not(tmp_path: Path) -> None:
    seen: dict[tuple[str, int], list[Any]] = {}

    class Watched(type(trained.digits())):  # type: ignore[misc]
        def batches(self, order: Any, steps: range, part: Any) -> Any:
            for images, labels in super().batches(order, steps, part):
                seen.setdefault((self.arm, order.seed), []).append(images.sum().item())
                yield images, labels

    healthy = trained.digits()
    budget = Budget.parse("steps=4")
    chosen = replace(recipe(), arms=("original", "lean")).fitted(healthy.options)
    make_plan(chosen, (0, 1), None, budget, tmp_path / "out", healthy, None)
    for arm in ("original", "lean"):
        for seed in range(2):
            folder = tmp_path / "out" / arm / f"seed-{seed}"
            data = Watched(healthy.task, healthy.found)
            data.arm = arm
            train(folder, data)
    assert seen["original", 0] == seen["lean", 0]
    assert seen["original", 1] == seen["lean", 1]
    assert seen["original", 0] != seen["original", 1]


def test_it_is_drawn_again_from_the_record_alone(record: Comparison, out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "comparison.json"
    copy.write_text((out / "comparison.json").read_text())
    again = read_record(copy)
    html, markdown = page.write(again, tmp_path)
    text = html.read_text()
    assert text.count("<svg") == 4
    assert "http" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", ""), "the page needs nothing from elsewhere"
    for phrase in record.verdict.all_words:
        assert as_sentence(phrase) in markdown.read_text()
    for name in ("differences", "learning_curves", "score_by_params", "kappa"):
        for suffix in (".png", ".svg", ".pdf"):
            assert (tmp_path / "figures" / f"{name}{suffix}").stat().st_size > 5000
    with pytest.raises(ValueError, match=r"holds no comparison: it has neither plan\.json nor comparison\.json"):
        read_record(tmp_path / "figures")


def test_names_cannot_break_out_of_the_page(record: Comparison, tmp_path: Path) -> None:
    hostile = {"source": "<script>alert(1)</script>", "name": "a|b$x^2$[red]"}
    html, markdown = page.write(record.model_copy(update=hostile), tmp_path)
    assert "<script>" not in html.read_text()
    assert "<script>" not in markdown.read_text()
    assert "a\\|b\\$x^2\\$[red]" in markdown.read_text()
    shown = io.StringIO()
    Console(file=shown).print(report.table(record.model_copy(update=hostile)))
    assert "a|b$x^2$[red]" in shown.getvalue()


# Resuming


def test_more_seeds_and_arms_are_added_to_what_is_there(tmp_path: Path) -> None:
    first = compare(recipe(), arms=["original", "lean"], seeds=1, out=tmp_path, jobs=1)
    stamp = (tmp_path / "lean" / "seed-0" / "result.json").stat().st_mtime_ns
    second = compare(recipe(), arms=["original", "shallow"], seeds=2, out=tmp_path, jobs=1, margin=9)
    assert (tmp_path / "lean" / "seed-0" / "result.json").stat().st_mtime_ns == stamp
    assert list(second.arms) == ["original", "shallow", "lean"]
    assert second.margin == 9
    assert all(len(arm.scores) == 2 for arm in second.arms.values())
    assert second.arms["lean"].scores["0"] == first.arms["lean"].scores["0"]
    said: list[str] = []
    compare(recipe(), arms=["original", "shallow"], seeds=2, out=tmp_path, jobs=1, say=said.append)
    assert any("is complete: nothing to train" in message for message in said)
    with pytest.raises(ValueError, match=r"holds another comparison: training.lr is 0\.004 there and 0\.1 here"):
        compare(
            replace(recipe(), training=trained.training(steps=6, lr=0.1, evaluations=2, save_every=None)), out=tmp_path
        )


def test_workers_give_what_one_process_gives(record: Comparison, tmp_path: Path) -> None:
    found = compare(recipe(), arms=["original", "lean", "shallow", "wide"], out=tmp_path, jobs=2)
    assert {arm: row.scores for arm, row in found.arms.items()} == {arm: row.scores for arm, row in record.arms.items()}
    assert found.runs == record.runs


def test_killed_with_its_workers_it_resumes_and_no_worker_stays(record: Comparison, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom leanformer import compare\n"
        "from support.tiny_run import recipe\n"
        "compare(recipe(), arms=['original', 'lean', 'shallow', 'wide'], out=sys.argv[2], jobs=2, report=False)\n"
    )
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, program, str(Path(__file__).parents[1]), str(out)])
    while process.poll() is None and not list(out.glob("*/*/result.json")):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # a worker ends at its next report
        try:
            found = compare(recipe(), arms=["original", "lean", "shallow", "wide"], out=out, jobs=1)
            break
        except ValueError as error:
            assert "another process is working in" in str(error)
            time.sleep(0.2)
    assert found.runs == record.runs


def test_a_run_that_diverges_is_reported_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = type(trained.digits()).loss

    def poisoned(self: Any, model: Any, batch: Any) -> Any:
        found = healthy(self, model, batch)
        return found * math.nan if sum(1 for _ in model.parameters()) > 20 else found

    monkeypatch.setattr(type(trained.digits()), "loss", poisoned)
    found = compare(recipe(), arms=["original", "lean"], seeds=2, out=tmp_path, jobs=1)
    assert list(found.failures) == ["original, seed 0", "original, seed 1"]
    assert "the loss became nan at step 1" in found.failures["original, seed 0"]
    assert len(found.arms["lean"].scores) == 2
    assert found.arms["original"].score is None
    assert summarise(tmp_path).failures == found.failures, "the folder remembers"
    html, _ = page.write(found, tmp_path)
    assert "Did not finish: original, seed 0: the loss became nan" in html.read_text()


def test_an_arm_is_not_judged_by_its_luckier_runs(tmp_path: Path) -> None:
    compare(recipe(), arms=["original", "lean", "shallow"], seeds=4, out=tmp_path, jobs=1, margin=100)
    assert summarise(tmp_path).verdict.outcome == "holds"
    lost = tmp_path / "lean" / "seed-3"
    (lost / "result.json").unlink()
    (lost / "diverged.json").write_text('{"text": "the loss became nan"}')
    found = summarise(tmp_path)
    assert found.verdict.outcome == "cannot tell"
    assert found.verdict.words.startswith("cannot tell: runs failed (1 of lean); of the others, lean holds against")
    assert found.failures == {"lean, seed 3": "the loss became nan"}
    (lost / "diverged.json").unlink()
    (tmp_path / "shallow" / "seed-1" / "result.json").unlink()
    assert summarise(tmp_path).verdict.effects.depth.seeds == 2, "while runs are under way"


def test_processes_compare_together(tmp_path: Path) -> None:
    """Several runs one after the other, a budget that only one process may reckon, one table, one report."""
    torchrun = Path(sys.executable).with_name("torchrun")
    arguments = [
        "compare",
        "--steps",
        "4",
        "--seeds",
        "1",
        "--budget",
        "time",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    command = [torchrun, "--standalone", "--nproc-per-node", "2", "-m", "leanformer", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert shown.returncode == 0, shown.stderr[-3000:]
    answer = json.loads(shown.stdout)
    assert [len(arm["scores"]) for arm in answer["arms"].values()] == [1, 1, 1]
    assert shown.stderr.count("data: digits") == 1
    assert (tmp_path / "out" / "report.html").is_file()
    again = call(*arguments)  # by one process, which finds the same plan and nothing to train
    assert "is complete: nothing to train" in again.stderr
    assert json.loads(again.stdout)["arms"]["lean"]["scores"] == answer["arms"]["lean"]["scores"]


# Choices


def test_recipes_are_adjusted() -> None:
    changed = adjusted(
        recipe(),
        lean="depth=1,heads=8,keep=width",
        arm=["narrow:heads=1,mlp_dim=8"],
        settings=["training.clip=null", "task.shift=0", "training.lr=1e-3"],
        steps=9,
        batch=None,
    )
    assert sizes(changed.lean) == (1, 8, 32)
    assert changed.lean.stages[0].head_dim == 2
    assert sizes(changed.architecture("narrow")) == (2, 1, 8)
    assert (changed.training.clip, changed.training.lr, changed.training.steps) == (None, 1e-3, 9)
    assert changed.task.shift == 0  # type: ignore[attr-defined]
    stages = redesigned(lf.architecture_of("davit_tiny"), "depth=[1,1,2,1],heads=[2,4,8,16]").stages
    assert [(stage.depth, stage.heads) for stage in stages] == [(1, 2), (1, 4), (2, 8), (1, 16)]


def test_values_are_taken_as_texts_as_mappings_and_as_objects() -> None:
    texts = adjusted(
        recipe(),
        original="mlp_dim=64",
        lean="depth=1,heads=8,regime=split",
        arm=["narrow:heads=1,mlp_dim=8"],
        settings=["training.clip=null", "task.shift=0"],
    )
    small = recipe().original.resized(mlp_dim=64)
    mappings = dict(
        original={"mlp_dim": 64},
        lean={"depth": 1, "heads": 8, "regime": "split"},
        arm={"narrow": {"heads": 1, "mlp_dim": 8}},
        settings={"training.clip": None, "task.shift": 0},
    )
    objects = dict(
        original=small,
        lean=small.resized(depth=1, heads=8, keep="split"),
        arm={"narrow": small.resized(heads=1, mlp_dim=8)},
        settings={"training": {"clip": None}, "task": {"shift": 0}},
    )
    assert adjusted(recipe(), **mappings) == adjusted(recipe(), **objects) == texts
    assert adjusted(recipe(), settings="task.shift=0", arm="one:heads=1").others.keys() == {"one"}
    alone = adjusted(recipe(), original=small.resized(width=32, head_dim=16))
    assert alone.lean.stages[0].width == 32, "another model brings its own lean design"
    assert alone.lean.options["num_classes"] == 10


def test_another_model_brings_its_own_lean_design() -> None:
    changed = adjusted(recipe(), model="vit_tiny_patch16_224", settings=["task.img_size=32", "task.shift=0"])
    assert changed.original.options["num_classes"] == 10
    assert changed.lean.depth < changed.original.depth


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (dict(lean="layers=3"), 'sizes are given as in "depth=4,heads=8,mlp_dim=128"'),
        (dict(arm=["lean:depth=1"]), 'an arm is given by a new name and sizes, "narrow:heads=2,mlp_dim=64", got'),
        (dict(lean={"layers": 3}), "a model has no size layers; it has depth, heads"),
        (dict(arm={"lean": {"depth": 1}}), 'an arm is given by a new name and sizes, "narrow:heads=2,mlp_dim=64", got'),
        (dict(settings={"lr": 1}), 'settings are named "training.NAME" or "task.NAME", as in {"training.clip": 0.5}'),
        (dict(settings={"training": 1}), 'got "training"'),
        (dict(settings=["lr=1"]), 'a setting is given as "training.NAME=VALUE" or "task.NAME=VALUE", got "lr=1"'),
        (dict(settings=["training.rate=1"]), "training has no setting rate; it has steps, batch"),
        (dict(settings=["task.blur=1"]), "the task image-classes has no setting blur"),
        (dict(settings=["training.lr=[1"]), "'[1' is not a value"),
        (dict(arm=["../x:depth=1"]), "an arm's name is up to 100 letters, digits and . _ + -"),
        (dict(model="vit_tiny_patch16_224"), "vit_tiny_patch16_224 cannot be built for these data"),
        (dict(steps=0), "steps must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_choices_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        adjusted(recipe(), **choice)


# The command


def test_the_command_prints_one_json_object_and_writes_the_report(tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    choices = ["--steps", "4", "--seeds", "2", "--arms", "original,lean", "--jobs", "1"]
    shown = call("compare", *choices, "--out", str(out), "--json")
    answer = json.loads(shown.stdout)
    assert list(answer["arms"]) == ["original", "lean"]
    assert answer["verdict"]["words"].startswith("cannot tell: at least 1 more seed needed")
    assert (answer["kind"], answer["verdict"]["outcome"]) == ("comparison", "cannot tell")
    assert "data: digits, embedded in scikit-learn: 899 training and 898 held-out images" in shown.stderr
    assert (out / "report.html").is_file()
    table = call("report", str(out), "--out", str(again))
    assert "77,290" in table.stdout
    assert "49 % fewer parameters" in table.stdout
    assert (again / "figures" / "kappa.pdf").is_file()
    lean = str(out / "lean" / "seed-0")
    one = call("train", lean, "--json")
    assert json.loads(one.stdout)["final"]["accuracy"] == answer["arms"]["lean"]["scores"]["0"]
    measured = call("measure", lean, "--json", "--out", str(tmp_path / "measured"))
    assert json.loads(measured.stdout)["inputs"] == "8 held-out samples of digits, embedded in scikit-learn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--seeds", "0"], "Invalid value for '--seeds': Input should be greater than or equal to 1"),
        (["compare", "--arms", "lean,fat"], 'there is no arm "fat": the arms are original, lean, shallow, wide'),
        (["compare", "sound"], 'there is no recipe "sound": there are digits, fashion-mnist'),
        (["compare", "--budget", "days"], "a budget is one of steps, epochs, tokens, flops, time"),
        (["compare", "images"], "give your images"),
        (["compare", "images", "--data", "nowhere"], "nowhere"),
        (["compare", "--lean", "heads=8,keep=depth"], "keep must be 'head_dim'"),
        (["report", "nowhere"], "nowhere holds no comparison"),
        (["recipes", "sound"], 'there is no recipe "sound"'),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


def test_jobs_follow_the_cores() -> None:
    assert default_jobs(threads=1) == cores()
    assert default_jobs(threads=10**6) == 1


def test_summaries_need_a_finished_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not the folder of a comparison: it has no plan\.json"):
        summarise(tmp_path)


def test_damaged_times_do_not_count(record: Comparison, out: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(out, tmp_path / "copy"))
    lines = ['{"steps": 0, "seconds": 1}', '{"steps": "x", "seconds": 1}', "[1]", "3", "{", '{"seconds": NaN}']
    timing = copy / "lean" / "seed-0" / "timing.jsonl"
    timing.write_text(timing.read_text() + "\n".join(lines) + "\n")
    assert summarise(copy).arms["lean"].step_seconds == record.arms["lean"].step_seconds


def test_a_run_in_the_place_of_another_is_refused(record: Comparison, out: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(out, tmp_path / "copy"))
    shutil.copyfile(copy / "lean" / "seed-1" / "result.json", copy / "lean" / "seed-0" / "result.json")
    with pytest.raises(
        ValueError,
        match=r"lean/seed-0 holds the result of another run: seed is 1 there and 0 here; put it back in its place",
    ):
        summarise(copy)
    (copy / "lean" / "seed-0" / "result.json").unlink()
    os.mkfifo(copy / "lean" / "seed-0" / "result.json")
    with pytest.raises(ValueError, match=r"result\.json is damaged: it is not a plain file"):
        summarise(copy)


def test_a_trained_model_that_changed_is_refused(record: Comparison, out: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(out / "lean" / "seed-0", tmp_path / "copy"))
    assert lf.describe(lf.from_pretrained(copy)).depth == 1
    weights = copy / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"model\.safetensors does not match its checksum"):
        lf.from_pretrained(copy)
    lf.save_pretrained(lf.create("vit_tiny_patch16_224", depth=1), copy / "model")
    with pytest.raises(ValueError, match=r"is not what .*result\.json says it was: put that run's model back"):
        lf.from_pretrained(copy)
    (copy / "result.json").unlink()
    assert lf.describe(lf.from_pretrained(copy)).depth == 1, "what is saved anew has no old checksums"


def test_numpys_integers_are_whole_numbers() -> None:
    assert as_seeds(np.int64(3)) == (0, 1, 2)
    assert as_seeds(np.array([2, 0, 2])) == (0, 2)
    assert all(type(seed) is int for seed in as_seeds(np.array([2, 0])))
    settings = trained.training(steps=np.int64(6), batch=np.int32(4), lr=np.float32(0.5))
    assert json.dumps(settings.to_dict())
    assert settings == trained.training(steps=6, batch=4, lr=0.5)
    assert as_seeds(None) is None
    for bad in (0, -1, [], [-1], [1.5], "3", 2.0, ["a"]):
        with pytest.raises(ValueError, match="seeds must be"):
            as_seeds(bad)  # type: ignore[arg-type]
