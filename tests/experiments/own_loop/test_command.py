"""Comparisons around a command: its placeholders, its score, what it prints, and what goes wrong."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.experiments.own_loop.arms import arms_of
from leanformer.experiments.own_loop.command import Command
from support.architectures import SMALL
from support.command import call

SIZES = dict(original="depth=4,heads=2", lean="depth=2,heads=4")
SCRIPT = """
import argparse, json, os, sys, time
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("depth", "heads", "seed"):
    parser.add_argument(f"--{name}", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--trouble", default="")
given = parser.parse_args()
print("training with", os.environ["OMP_NUM_THREADS"], "threads")
if given.trouble and given.depth == 2:
    if given.seed == 0:
        print("no such data", file=sys.stderr)
        sys.exit(3)
    if given.seed == 1:
        sys.exit(0)
    if given.seed == 2:
        (given.out / "metrics.json").write_text('{"eval": {"loss": 1}}')
        sys.exit(0)
    if given.seed == 3:
        (given.out / "metrics.json").write_text('{"eval": {"accuracy": NaN}}')
        sys.exit(0)
    if given.seed == 4:
        time.sleep(60)
score = 90 + given.depth + given.heads + given.seed % 2
(given.out / "metrics.json").write_text(json.dumps({"eval": {"accuracy": score}}))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train it.py").write_text(SCRIPT)
    options = "--depth {depth} --heads={heads} --seed {seed} --out {folder}"
    return f'{sys.executable} "{tmp_path}/train it.py" {options}'


def test_the_command_line_trains_by_a_script(script: str, tmp_path: Path) -> None:
    out = tmp_path / "a b"  # names with spaces stay one word
    options = ["--original", SIZES["original"], "--lean", SIZES["lean"], "--arms", "original,lean,shallow,wide"]
    score = ["--score-key", "eval.accuracy", "--unit", "%", "--margin", "1", "--jobs", "2", "--out", str(out)]
    shown = call("compare", "--command", script, *options, *score, "--json")
    assert shown.returncode == 0, shown.stderr
    answer = json.loads(shown.stdout)
    assert {arm: row["scores"] for arm, row in answer["arms"].items()} == {
        "original": {"0": 96, "1": 97, "2": 96},
        "lean": {"0": 96, "1": 97, "2": 96},
        "shallow": {"0": 94, "1": 95, "2": 94},
        "wide": {"0": 98, "1": 99, "2": 98},
    }
    assert answer["verdict"]["outcome"] == "holds"
    assert answer["metric"] == {"name": "eval.accuracy", "unit": "%", "higher_is_better": True, "resolution": 0.0}
    assert "parameters, MACs and memory are not known: the command makes the models" in answer["notes"]
    assert re.fullmatch(r"training with \d+ threads\n", (out / "wide" / "seed-2" / "stdout.txt").read_text())
    assert (out / "report.html").is_file()
    again = call("compare", "--command", script, *options, *score)
    assert "is complete: nothing to train" in again.stderr
    table = call("report", str(out))
    assert "eval.accuracy, %" in table.stdout
    assert "Lean holds against original" in table.stdout


def test_failures_are_reported_with_arm_and_seed(script: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--original", SIZES["original"], "--lean", SIZES["lean"], "--arms", "original,lean", "--seeds", "6"]
    more = ["--score-key", "eval.accuracy", "--time-limit", "3s", "--jobs", "2", "--out", str(out), "--json"]
    shown = call("compare", "--command", f"{script} --trouble yes", *options, *more)
    assert shown.returncode == 1
    answer = json.loads(shown.stdout)
    assert answer["failures"] == {
        "lean, seed 0": "lean, seed 0: exit code 3: no such data (lean/seed-0/stderr.txt)",
        "lean, seed 1": "lean, seed 1: wrote no lean/seed-1/metrics.json (lean/seed-1/stderr.txt)",
        "lean, seed 2": "lean, seed 2: lean/seed-2/metrics.json has no 'eval.accuracy': there is loss",
        "lean, seed 3": "lean, seed 3: lean/seed-3/metrics.json holds nan, where a finite number is needed",
        "lean, seed 4": "lean, seed 4: took longer than 3.0 s (lean/seed-4/stderr.txt)",
    }
    assert (len(answer["arms"]["original"]["scores"]), len(answer["arms"]["lean"]["scores"])) == (6, 1)
    assert shown.stderr.count("lean, seed 0: exit code 3") == 1


def test_a_fresh_model_is_a_folder(tmp_path: Path) -> None:
    """The same seed gives the same weights in every run; the folder goes once the score is there."""
    program = (
        "import hashlib, json, sys; from pathlib import Path; model, out = map(Path, sys.argv[1:3]);"
        "config = json.loads((model / 'config.json').read_text());"
        "digest = hashlib.sha256((model / 'model.safetensors').read_bytes()).hexdigest();"
        "(out / 'all.json').write_text(json.dumps([{'weights': int(digest[:8], 16)}]))"
    )
    command = [sys.executable, "-c", program, "{model}", "{folder}", "{seed}", "{{seed}}"]
    options: dict[str, Any] = dict(command=command, score_file="all.json", score_key="0.weights", seeds=2, report=False)
    designs: dict[str, Any] = dict(original=SMALL["vit"], lean="depth=1", arms="original,lean")
    found = lf.compare(**options, **designs, out=tmp_path / "a")
    again = lf.compare(**options, **designs, out=tmp_path / "b")
    scores = [score for arm in found.arms.values() for score in arm.scores.values()]
    assert len(set(scores)) == 4
    assert {arm: row.scores for arm, row in again.arms.items()} == {arm: row.scores for arm, row in found.arms.items()}
    assert found.arms["lean"].params < found.arms["original"].params
    assert not (tmp_path / "a" / "lean" / "seed-0" / "initial").exists()
    assert found.arms["lean"].kappa is None


def test_placeholders_are_filled_word_by_word() -> None:
    command = Command(
        "run '{arm} {seed}' --{{seed}} {depth}x{heads} '{\"a\": 1}' {lr}", score_file="{folder}/../s.json"
    )
    arm = arms_of(dict(depth=4, heads="2; rm -rf /", lr=1e-3), None, names=["original"])["original"]
    words, score = command.filled(arm, 3, Path("/runs/original/seed-3"))
    assert words == ["run", "original 3", "--{seed}", "4x2; rm -rf /", '{"a": 1}', "0.001"]
    assert score == Path("/runs/original/seed-3/../s.json")
    staged = arms_of(SMALL["volo"], None, names=["original"])["original"]
    assert Command("x {depth} {head_dim}").filled(staged, 0, Path("/o"))[0] == ["x", "1,1,2,1", "8"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(command="run {layers} {seed} {folder}"),
            "the arm original has nothing for {layers}: a command may use {seed}",
        ),
        (dict(command="run {model} {seed} {folder}"), "{model} needs a model's name or design as original"),
        (dict(command="run {depth} {folder}"), "command lacks {seed}: every seed would train the same run"),
        (dict(command="run {depth} {seed}"), "command lacks {folder}: the runs would write their scores into one file"),
        (
            dict(command="run {seed} {folder}"),
            "command does not say which arm it trains: use {model}, {arm}, or a size",
        ),
        (dict(score_file="/tmp/score.json"), "score_file is one file for all runs"),
        (dict(command='run "{seed}'), "command cannot be split into words: no closing quotation"),
        (dict(command=" "), "command is empty: give what trains one run"),
        (dict(example=3), "example and projections are for a function"),
        (dict(lean=None), "lean must be given"),
        (
            dict(command="no-such-program {depth} {seed} {folder}"),
            "the program no-such-program of command is not found",
        ),
    ],
)
def test_bad_commands_are_refused_before_anything_runs(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    options: dict[str, Any] = dict(command="run {depth} {seed} {folder}", out=tmp_path, **SIZES)
    with pytest.raises(ValueError, match=re.escape(message)):
        lf.compare(**{**options, **changes})
    assert not list(tmp_path.glob("*/*"))


def test_the_command_line_speaks_of_options(tmp_path: Path) -> None:
    shown = call("compare", "--command", "run {depth} {folder}", "--original", "depth=2", "--lean", "depth=1")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "--command lacks {seed}: every seed would train the same run" in shown.stderr
    shown = call("compare", "--command", "run {arm} {seed} {folder}", "--original", "depth=2", "--steps", "3")
    assert "--steps does not go with train or --command" in shown.stderr
    shown = call("compare", "--score-key", "loss")
    assert "--score-key needs train or --command" in shown.stderr
