"""The examples run as they are, with fewer steps."""

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

import leanformer as lf
from leanformer.report import page as page_of_comparison
from support import command

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page_of_comparison, "FORMATS", (".svg",))


def run(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """As `python examples/NAME` does."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def compared(folder: str, printed: str, arms: tuple[str, ...] = ("original", "lean")) -> lf.Comparison:
    """The record of an example, which has its page, and whose verdict was printed."""
    record = lf.Comparison.read(Path(folder) / "comparison.json")
    assert tuple(record.arms) == arms
    assert all(arm.score is not None and arm.kappa is not None for arm in record.arms.values())
    assert not record.failures
    assert record.arms["lean"].params < record.arms["original"].params
    assert record.verdict.words in printed
    assert all(re.search(rf"{name} +{arm.params}", printed) for name, arm in record.arms.items())
    assert "differences" in (Path(folder) / "report.html").read_text(encoding="utf-8")
    return record


def test_own_loop(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("own_loop.py", monkeypatch, "--steps", "3", "--seeds", "2")
    record = compared("runs/own-loop", capsys.readouterr().out, ("original", "lean", "shallow"))
    assert record.metric.name == "accuracy"
    assert record.runs["lean"]["1"].evaluations[-1].step == 3
    assert len(record.runs["lean"]["1"].losses) == 3
    assert Path("runs/own-loop/lean/seed-1/weights.pt").is_file()


def test_hf_trainer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("hf_trainer.py", monkeypatch, "--steps", "3", "--seeds", "1")
    printed = capsys.readouterr().out
    record = compared("runs/hf-trainer", printed)
    assert not record.metric.higher_is_better
    assert re.search(r"lean/seed-0 step 0: κ [\d,]+ step 1: κ [\d,]+ step 2: κ [\d,]+ step 3: κ [\d,]+", printed)
    assert [found.step for found in record.runs["lean"]["0"].evaluations if found.scores] == [1, 2, 3]


def test_lightning_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("lightning_module.py", monkeypatch, "--epochs", "1", "--seeds", "1")
    printed = capsys.readouterr().out
    compared("runs/lightning-module", printed)
    assert len(re.findall(r"seed-\d: accuracy [\d.]+ %, κ [\d,]+\n", printed)) == 2
    (logged,) = Path("runs/lightning-module/lean/seed-0").rglob("metrics.csv")
    assert "kappa/median_over_layers" in logged.read_text().splitlines()[0]


def test_timm_script() -> None:
    """The command of its docstring, with one epoch."""
    text = (EXAMPLES / "timm_script.py").read_text(encoding="utf-8")
    shown = re.search(r"leanformer (compare .*?--out runs/\S+)", text.replace("\\\\\n", " "), re.DOTALL)[1]
    words = shlex.split(shown.replace("{folder}", "{folder} --epochs 1").replace("python ", f"{sys.executable} "))
    ended = command.call(*(word.replace("examples/", f"{EXAMPLES}/") for word in words), "--seeds", "1")
    assert ended.returncode == 0, ended.stderr
    record = lf.Comparison.read(Path("runs/timm-script/comparison.json"))
    assert list(record.arms) == ["original", "lean"]
    written = json.loads(Path("runs/timm-script/lean/seed-0/summary.json").read_text())
    assert record.arms["lean"].scores == {"0": written["eval"]["top1"]}
    assert record.metric.unit == "%"
    assert "eval.top1, %" in ended.stdout


def test_own_task(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("own_task.py", monkeypatch, "--steps", "3", "--jobs", "1")
    record = compared("runs/own-task", capsys.readouterr().out)
    assert record.metric.name == "f1"


def test_own_task_as_a_recipe() -> None:
    recipe = f"{EXAMPLES / 'own_task.py'}:build"
    ended = command.call("compare", recipe, "--steps", "2", "--seeds", "1", "--jobs", "1", "--out", "recipe")
    assert ended.returncode == 0, ended.stderr
    assert lf.Comparison.read("recipe/comparison.json").name == "shapes"
    assert "training.lr" in command.call("recipes", "show", recipe).stdout


def test_own_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("own_model.py", monkeypatch, "--steps", "3", "--seeds", "1")
    printed = capsys.readouterr().out
    record = compared("runs/own-model", printed, ("original", "lean", "shallow"))
    assert re.findall(r"(blocks\.\d): 2 heads of 16, κ [\d,]+\n", printed) == [f"blocks.{layer}" for layer in range(4)]
    assert "Probe(2 layers" in printed
    assert record.arms["shallow"].sizes == {"depth": 2, "heads": 2}
    assert all(arm.forward_macs for arm in record.arms.values())


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    monkeypatch.setenv("STEPS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    plan, lean, compared_, report, frame = (
        cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs
    )
    record = lf.Comparison.read(tmp_path / "runs" / "notebook" / "comparison.json")
    assert "<table" in plan[-1].data["text/html"]
    assert " layer" in lean[-1].text
    assert "<table" in compared_[-1].data["text/html"]
    assert record.verdict.words in report[0].text
    assert "image/png" in report[-1].data
    assert "score_low" in frame[-1].data["text/html"]


def test_the_table_lists_every_example() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert files <= listed
    assert all((EXAMPLES / name).is_file() for name in listed)
