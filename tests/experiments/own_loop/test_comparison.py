"""Comparisons around a function of one's own: what is trained, resumed and reported, and what goes wrong."""

import functools
import multiprocessing
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.costs import costed
from leanformer.experiments.summary import read_record
from leanformer.foundation.stopping import Stopped
from leanformer.models import families
from leanformer.report import page
from support.architectures import SMALL
from support.command import call
from support.own_loop import EXAMPLE, Tiny, bare_loop, with_trouble, without_training
from support.tiny_run import recipe

compare = functools.partial(lf.compare, report=False)
SIZES: dict[str, Any] = dict(model=Tiny, original=dict(depth=2, heads=2), lean=dict(depth=1, heads=4))
MAKERS: dict[str, Any] = dict(original=lambda: Tiny(2, 2), lean=lambda: Tiny(1, 4))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own") / "out"


@pytest.fixture(scope="module")
def record(out: Path) -> lf.Comparison:
    metric = lf.Metric("accuracy", "%")
    return compare(train=bare_loop, **SIZES, example=EXAMPLE, metric=metric, margin=50, seeds=3, out=out)


# What is trained


def test_a_bare_loop_is_compared_as_a_built_in_task_is(record: lf.Comparison, out: Path) -> None:
    assert list(record.arms) == ["original", "lean", "shallow"]
    original, lean = record.arms["original"], record.arms["lean"]
    assert (original.params, lean.params) == tuple(
        sum(p.numel() for p in m.parameters()) for m in (Tiny(2, 2), Tiny(1, 4))
    )
    assert lean.forward_macs < original.forward_macs
    assert lean.memory_bytes < original.memory_bytes
    assert all(arm.kappa > 1 and arm.steps == 6 and arm.run_seconds > 0 for arm in record.arms.values())
    assert [len(arm.scores) for arm in record.arms.values()] == [3, 3, 3]
    assert record.verdict.outcome == "holds"
    assert record.notes == ["memory is that of 4 samples at a time, by tracing a step on the example"]
    run = record.runs["lean"]["0"]
    assert [(point.step, point.kappa is not None) for point in run.evaluations] == [(0, True), (3, False), (6, True)]
    assert lf.Comparison.read(out / "comparison.json") == record == read_record(out)
    assert len(repr(record)) < 2000


def test_a_run_is_the_function_on_a_model_of_the_seed(record: lf.Comparison, tmp_path: Path) -> None:
    """Arms of one seed draw the same numbers after their models are built, so they see the same samples."""
    seen = []

    def keep(model: nn.Module, seed: int, folder: Path) -> float:
        seen.append(torch.randn(3).tolist())
        return bare_loop(model, seed, folder)["accuracy"]

    before = torch.get_rng_state()
    compare(train=keep, **SIZES, seeds=[0, 5], out=tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert seen[0] == seen[1] == seen[2] != seen[3]
    assert seen[3] == seen[4] == seen[5]


def test_the_page_and_the_figures_are_those_of_built_in_tasks(record: lf.Comparison, out: Path, tmp_path: Path) -> None:
    html, markdown = page.write(record, tmp_path)
    assert html.read_text().count("<svg") == 4
    for name in ("differences", "learning_curves", "score_by_params", "kappa"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 5000
    assert "| arm | layers | heads | params | memory | steps | run | accuracy, % | κ |" in markdown.read_text()
    assert "those of the function bare_loop in own_loop.py" in html.read_text()
    shown = call("report", str(out), "--out", str(tmp_path / "again"))
    assert (shown.returncode, (tmp_path / "again" / "report.html").is_file()) == (0, True)
    assert "Lean holds against original" in shown.stdout


def test_the_trainer_of_hugging_face_is_a_training_function(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    ids = torch.randint(5, 100, (32, 12), generator=torch.Generator().manual_seed(0))
    samples = [{"input_ids": row, "labels": row} for row in ids]

    def fine_tune(model: nn.Module, seed: int, folder: Path) -> dict[str, Any]:
        options = dict(
            max_steps=4, eval_steps=2, eval_strategy="steps", logging_steps=2, save_strategy="no", use_cpu=True
        )
        arguments = TrainingArguments(str(folder), seed=seed, report_to=[], disable_tqdm=True, **options)
        trainer = Trainer(model, arguments, train_dataset=samples[:24], eval_dataset=samples[24:])
        trainer.train()
        return {**trainer.evaluate(), "curve": trainer.state.log_history}

    found = compare(
        train=fine_tune, original=SMALL["bert"], lean="depth=1,heads=8", metric="eval_loss", margin=1, out=tmp_path
    )
    assert found.metric == lf.Metric("eval_loss", higher_is_better=False)
    assert found.verdict.outcome == "holds"
    assert (found.arms["lean"].steps, found.arms["lean"].architecture.depth) == (4, 1)
    assert found.arms["lean"].kappa > 1, "measured on the first batch that the model saw"
    assert [point.step for point in found.runs["lean"]["0"].evaluations] == [0, 2, 4]
    assert len(found.runs["lean"]["0"].losses) == 2
    html, _ = page.write(found, tmp_path)
    assert html.read_text().count("<svg") == 4
    assert "memory is that of 64 samples at a time, by closed forms" in found.notes


# Costs and κ


def test_a_traced_model_costs_what_closed_forms_say() -> None:
    design = SMALL["vit"]
    inside = families.build(design)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = families.build(design)
            self.ours = torch.zeros(1)  # no buffer: it stays on the CPU, where the step is traced then

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.inside(images + self.ours)

    images = families.example_inputs(design, 3)["x"]
    planned, notes = costed({"lean": OwnArm("lean", Wrapped)}, images)
    setting = Setting(batch=3)
    cost = formula(design, setting).cost(design, setting)
    assert planned["lean"].params == cost.params.total == sum(p.numel() for p in inside.parameters())
    assert planned["lean"].forward_macs == cost.forward_macs / 3
    assert notes == ["memory is that of 3 samples at a time, by tracing a step on the example"]
    known, _ = costed({"lean": OwnArm("lean", lambda: families.build(design))}, images)
    assert known["lean"].architecture == design, "a function may make a model of a known family"
    assert known["lean"].memory_bytes == cost.memory_bytes


def test_what_cannot_be_counted_or_measured_is_said(tmp_path: Path) -> None:
    found = compare(train=without_training, **MAKERS, metric="perplexity", seeds=1, out=tmp_path)
    assert found.arms["lean"].forward_macs is None
    assert found.arms["lean"].kappa is None
    assert found.notes == [
        "only parameters are counted; MACs and memory need an example of what the models take",
        "no margin was given: lean holds only if it is not worse at all",
        "train left the weights of the model that it was given unchanged, so its κ is not measured",
    ]
    html, _ = page.write(found, tmp_path)
    assert html.read_text().count("<svg") == 2, "there are no curves"
    assert found.metric.higher_is_better is False

    def linear(model: nn.Module, seed: int, folder: Path) -> float:
        nn.init.zeros_(model.weight)
        return model(torch.ones(2, 3)).sum().item()

    plain = dict(original=lambda: nn.Linear(3, 2), lean=lambda: nn.Linear(3, 1), seeds=1)
    assert any(
        "no attention was seen in Linear" in note for note in compare(train=linear, **plain, out=tmp_path / "b").notes
    )


# Resuming


def test_finished_runs_are_not_repeated_and_more_are_added(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def noted(model: nn.Module, seed: int, folder: Path) -> float:
        calls.append((folder.parent.name, seed))
        return without_training(model, seed, folder)

    said: list[str] = []
    first = compare(train=noted, **SIZES, arms=["original", "lean"], seeds=2, out=tmp_path, say=said.append)
    assert any("runs in this process, one after the other" in text for text in said)
    assert len(calls) == 4
    compare(train=noted, **SIZES, arms=["original", "lean"], seeds=2, out=tmp_path, say=said.append)
    assert any("is complete: nothing to train" in text for text in said)
    assert len(calls) == 4
    more = compare(train=noted, **SIZES, seeds=3, margin=1e6, out=tmp_path)
    assert calls[4:] == [("shallow", 0), ("shallow", 1), ("original", 2), ("lean", 2), ("shallow", 2)]
    assert more.arms["lean"].scores.items() > first.arms["lean"].scores.items()
    assert {change.what for change in more.amendments} == {"margin", "number of seeds", "arms"}
    (tmp_path / "lean" / "seed-1" / "result.json").write_text("{}")
    compare(train=noted, **SIZES, seeds=3, out=tmp_path)
    assert calls[9:] == [("lean", 1)], "a damaged result is made again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(lean=dict(depth=1, heads=8)), "holds another comparison: arms.lean.sizes.heads is 4 there and 8 here"),
        (dict(metric="loss"), "holds another comparison: metric.name is 'accuracy' there and 'loss' here"),
        (dict(model=lambda depth, heads: Tiny(depth, heads, 9)), "another comparison: arms.original.parameters is"),
    ],
)
def test_another_comparison_is_refused(record: lf.Comparison, out: Path, changes: dict[str, Any], message: str) -> None:
    metric = lf.Metric("accuracy", "%")
    with pytest.raises(ValueError, match=message):
        compare(**{**dict(train=bare_loop, **SIZES, metric=metric, out=out), **changes})


def test_recipes_and_own_loops_do_not_share_a_folder(record: lf.Comparison, out: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds the comparison of a training loop of one's own: choose another folder"):
        compare(recipe(), out=out)
    (tmp_path / "plan.json").touch()
    with pytest.raises(ValueError, match="holds the comparison of a recipe: choose another folder"):
        compare(train=without_training, **MAKERS, out=tmp_path)


def test_killed_it_resumes(record: lf.Comparison, tmp_path: Path) -> None:
    def slowed(model: nn.Module, seed: int, folder: Path) -> Any:
        time.sleep(0.2)
        return bare_loop(model, seed, folder)

    choices = dict(**SIZES, example=EXAMPLE, metric=lf.Metric("accuracy", "%"), margin=50, seeds=3, out=tmp_path)
    process = multiprocessing.get_context("fork").Process(target=lambda: compare(train=slowed, **choices))
    process.start()
    while process.is_alive() and len(list(tmp_path.glob("*/*/result.json"))) < 2:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    finished = len(list(tmp_path.glob("*/*/result.json")))
    assert 2 <= finished < 9
    found = compare(train=bare_loop, **choices)
    assert {arm: row.scores for arm, row in found.arms.items()} == {arm: row.scores for arm, row in record.arms.items()}
    assert found.runs == record.runs
    assert "the results come from 2 versions of the training function" in found.notes


def test_a_request_to_stop_interrupts_the_function(tmp_path: Path) -> None:
    def stopped(model: nn.Module, seed: int, folder: Path) -> float:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        return without_training(model, seed, folder)

    with pytest.raises(Stopped, match="stopped by SIGTERM; finished runs are kept, and repeating the command resumes"):
        compare(train=stopped, **MAKERS, seeds=3, out=tmp_path)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert len(list(tmp_path.glob("*/*/result.json"))) == 2
    assert len(compare(train=without_training, **MAKERS, seeds=3, out=tmp_path).arms["lean"].scores) == 3


# What goes wrong


def test_runs_that_fail_are_reported_and_the_others_finish(tmp_path: Path) -> None:
    def sometimes(model: nn.Module, seed: int, folder: Path) -> Any:
        if folder.parent.name == "lean":
            match seed:
                case 0:
                    raise RuntimeError("out of memory\nand more about it")
                case 1:
                    return float("nan")
                case 2:
                    raise SystemExit(3)
        return without_training(model, seed, folder)

    found = compare(train=sometimes, **MAKERS, seeds=4, out=tmp_path)
    assert found.failures == {
        "lean, seed 0": "lean, seed 0: RuntimeError: out of memory (lean/seed-0/traceback.txt has the traceback)",
        "lean, seed 1": "lean, seed 1: train returned nan, where a finite number is needed",
        "lean, seed 2": "lean, seed 2: SystemExit: 3 (lean/seed-2/traceback.txt has the traceback)",
    }
    assert "and more about it" in (tmp_path / "lean" / "seed-0" / "traceback.txt").read_text()
    assert (len(found.arms["original"].scores), len(found.arms["lean"].scores)) == (4, 1)
    assert found.verdict.outcome == "cannot tell"
    html, _ = page.write(found, tmp_path)
    assert "Did not finish: lean, seed 0: RuntimeError: out of memory" in html.read_text()
    mended = compare(train=without_training, **MAKERS, seeds=4, out=tmp_path)
    assert mended.failures == {}
    assert not (tmp_path / "lean" / "seed-0" / "traceback.txt").exists()
    assert len(mended.arms["lean"].scores) == 4


def test_runs_that_hang_or_crash_end_alone(tmp_path: Path) -> None:
    found = compare(train=with_trouble, **MAKERS, seeds=2, time_limit=3, jobs=2, out=tmp_path)
    assert found.failures == {
        "original, seed 1": "original, seed 1: took longer than 3.0 s",
        "lean, seed 1": "lean, seed 1: its process ended: ended by SIGABRT (lean/seed-1/stderr.txt)",
    }
    assert {arm: list(row.scores) for arm, row in found.arms.items()} == {"original": ["0"], "lean": ["0"]}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(train=3), "train must be a function of model, seed and folder, got 3"),
        (
            dict(train=lambda model: 1.0),
            "train is called with a model, the seed and a folder, which train does not take",
        ),
        (dict(command="x"), "train and command exclude each other"),
        (dict(score_key="x"), "score_file and score_key belong to a command; train returns its score"),
        (
            dict(original=dict(depth=1), lean=dict(depth=2)),
            "the sizes of original and lean need model, a function of them",
        ),
        (dict(original=lambda: 3), "original: the function must return an nn.Module, got int"),
        (dict(lean=lambda: 1 / 0), "lean: the model cannot be made: ZeroDivisionError: division by zero"),
        (dict(example=torch.ones(2)), "original: the model does not take the example: RuntimeError"),
        (dict(margin=-1), "margin must be a number of at least 0, got -1"),
        (dict(jobs=0), "jobs must be at least 1, got 0"),
        (dict(time_limit="soon"), 'time_limit is a time, such as 90, "30m" or "2h", got \'soon\''),
        (dict(time_limit=-1), "time_limit is a time"),
        (dict(metric=3), "metric must be a name or an lf.Metric, got 3"),
        (dict(metric=lf.Metric("a"), higher_is_better=False), "the metric says by itself what unit"),
        (dict(recipe="digits2"), "recipe does not go with train or command"),
        (dict(budget="steps=3"), "budget does not go with train or command"),
        (dict(train=None), "functions that make models need train: a recipe takes designs and sizes"),
        (dict(train=None, metric="loss"), "metric needs train or command: a recipe has its own"),
        (dict(seeds=0), "seeds must be at least 1"),
    ],
)
def test_mistakes_are_refused_in_one_line(choices: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        compare(**{**dict(train=without_training, out=tmp_path, **MAKERS), **choices})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*/*")), "nothing was begun"


def test_seeds_are_added_until_it_is_decided(tmp_path: Path) -> None:
    found = compare(train=without_training, **MAKERS, until="decided", max_seeds=8, margin=1, out=tmp_path)
    assert (found.verdict.outcome, len(found.seeds)) == ("loses", 4)
