"""Texts of one's own, through the command and through Python: learnt, printed, and refused where they do not fit."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leanformer as lf
from support.command import call
from support.glue import write_glue
from support.texts import reviews, write_table

SMALL = "depth=2,heads=2,head_dim=8,width=16,mlp_dim=32"
QUICK = ["--lean", "depth=1", "--arms", "lean", "--seeds", "1", "--jobs", "1", "--set", "training.probe=0"]
SST2 = Path(os.environ.get("LEANFORMER_DATA", "nowhere")) / "glue" / "sst2"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))


def compared(recipe: str, data: Path, out: Path, *options: str) -> Any:
    found = call("compare", recipe, "--data", str(data), "--original", SMALL, *QUICK, "--out", str(out), *options)
    assert found.returncode == 0, found.stderr
    return found


def test_what_the_words_decide_is_learnt(tmp_path: Path) -> None:
    rows = [(number, text, label) for number, (text, label) in enumerate(reviews())]
    file = write_table(tmp_path / "a.csv", ("id", "said", "verdict"), rows)
    columns = ("--text-column", "said", "--label-column", "verdict", "--held-out", "0.2")
    shown = compared("classify", file, tmp_path / "out", *columns, "--steps", "100", "--lr", "0.01", "--json")
    assert "192 training and 48 held-out texts" in shown.stderr
    assert "2 classes: negative, positive" in shown.stderr
    record = json.loads(shown.stdout)
    assert record["baselines"] == {"the most frequent class": 50.0}
    assert record["arms"]["lean"]["score"]["mean"] > 90
    folder = tmp_path / "out" / "lean" / "seed-0" / "model"
    assert json.loads((folder / "config.json").read_text())["id2label"] == {"0": "negative", "1": "positive"}
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("model", ["bert-base-uncased", "crammed-bert", "nystromformer-text", "gpt2", "llama"])
def test_any_language_model_classifies(model: str, tmp_path: Path) -> None:
    rows = [(text, int(label == "positive")) for text, label in reviews(60)]
    file = write_table(tmp_path / "a.tsv", ("text", "label"), rows)
    original = lf.architecture_of(model).resized(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32)
    choices = dict(arms="lean", seeds=1, steps=2, jobs=1, report=False, settings=["training.probe=2"])
    record = lf.compare("classify", data=file, model=original, lean="depth=1", out=tmp_path / "out", **choices)
    assert record.arms["lean"].score is not None
    assert record.arms["lean"].architecture.family == original.family
    assert record.task["text_column"] == ""
    assert record.task["dataset"] == str(file)


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "parquet", "folder"])
def test_language_models_are_trained_on_the_file_that_is_named(kind: str, tmp_path: Path) -> None:
    texts, file = [text for text, _ in reviews(400)], tmp_path / f"a.{kind}"
    if kind == "txt":
        file.write_text("\n\n".join(texts))
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({"said": text, "n": 0}) + "\n" for text in texts))
    elif kind == "csv":
        write_table(file, ("n", "said"), list(enumerate(texts)))
    elif kind == "parquet":
        pq.write_table(pa.table({"said": texts, "n": list(range(400))}), file)
    else:
        file.mkdir()
        for number, text in enumerate(texts):
            (file / f"{number}.txt").write_text(text)
    columns = [] if kind in ("txt", "folder") else ["--text-column", "said"]
    short = ("--set", "task.length=16", "--steps", "2", "--set", "training.batch=4")
    for recipe in ("texts", "texts-masked"):
        shown = compared(recipe, file, tmp_path / recipe, *columns, *short)
        assert f"a.{kind}" in shown.stderr
        assert "held-out windows of 16 tokens" in shown.stderr
        saved = json.loads((tmp_path / recipe / "lean" / "seed-0" / "model" / "tokenizer.json").read_text())
        assert any("lovely" in word for word in saved["model"]["vocab"]), "the tokenizer has seen these texts"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("classify", "--data", "a.csv", "--label-column", "mood"), "a.csv lacks the column mood; it has"),
        (("classify", "--data", "a.csv", "--held-out", "2"), "held_out must lie between 0 and 1"),
        (("classify", "--data", "none.csv"), "there is no file or folder none.csv"),
        (("classify",), "no texts are named: give a .csv"),
        (
            ("texts", "--data", "a.csv", "--label-column", "label"),
            "--label-column does not go with the task",
        ),
        (("texts", "--data", "a.csv", "--model", "bert-base-uncased"), "next tokens need a causal model"),
        (("texts-masked", "--data", "a.csv", "--model", "gpt2"), "masked tokens need an encoder"),
        (("texts", "--data", "a.csv", "--set", "task.dataset=pydoc"), "--data and the setting task.dataset both say"),
        (("pydoc", "--text-column", "text"), "has no columns: leave out --text-column"),
        (("farthest", "--data", "a.csv"), "makes its own data; it cannot read"),
    ],
)
def test_what_does_not_fit_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "a.csv", ("text", "label"), reviews(400))
    found = call("compare", *arguments, "--steps", "1", "--seeds", "1", "--jobs", "1")
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_sst2_is_classified_as_one_s_own(tmp_path: Path) -> None:
    """The real files where they are at hand, as in .ci/run; else a few rows in their form."""
    write_glue(tmp_path, "sst2", rows=500)
    folder, held_out = (SST2, 872) if SST2.is_dir() else (tmp_path / "glue" / "sst2", 500)
    few = ("--set", "task.most=400", "--set", "task.length=32", "--steps", "2", "--model", "bert-base-uncased")
    shown = compared("classify", folder, tmp_path / "out", *few, "--json")
    assert f"400 training and {held_out} held-out texts" in shown.stderr
    assert "the texts are in the column sentence, the labels are in the column label" in shown.stderr
    assert json.loads(shown.stdout)["baselines"]["the most frequent class"] == pytest.approx(50.9, abs=5.0)
