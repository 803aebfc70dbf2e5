"""`compare --pretrained`: every arm begins with what it can take of a trained model, and `random` with nothing."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import leanformer as lf
from leanformer.data.order import Share
from leanformer.experiments.plan import read_plan
from leanformer.inheriting.record import Inheritance
from leanformer.tasks.base import load
from leanformer.training.run import read_run
from support import tiny_run
from support.command import call
from support.glue import write_glue
from support.llama_cpp import tiny_llama, written_by_llama_cpp

compare = partial(lf.compare, tiny_run.recipe(), seeds=2, jobs=1, progress=False, report=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_run.described(tmp_path_factory.mktemp("trained") / "run", steps=150, evaluations=1, save_every=None)
    lf.train(folder)
    return folder


@pytest.fixture(scope="module")
def compared(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, lf.Comparison]:
    out = tmp_path_factory.mktemp("compared")
    return out, compare(pretrained=trained, lean="depth=1,heads=4", out=out)


def test_arms_begin_with_the_trained_model(compared: tuple[Path, lf.Comparison], trained: Path) -> None:
    out, record = compared
    assert list(record.arms) == ["original", "lean", "shallow", "random"]
    plan = read_plan(out)
    assert plan.starts == {
        "original": str(trained),
        "lean": "pretrained/lean",
        "shallow": "pretrained/shallow",
    }
    assert plan.architectures["random"] == plan.architectures["lean"]
    runs = {arm: read_run(out / arm / "seed-0") for arm in record.arms}
    assert (runs["random"].start, runs["lean"].start_with) == ("", "all")
    first = {arm: record.runs[arm]["0"].evaluations[0].scores["accuracy"] for arm in record.arms}
    whole = lf.Result.read(trained / "result.json").score
    assert first["original"] == pytest.approx(whole), "before the first step it is the trained model, head included"
    assert first["random"] < 30 < whole
    assert first["lean"] == first["shallow"], "new heads change nothing at first"


def test_the_verdict_separates_heads_depth_and_inheritance(compared: tuple[Path, lf.Comparison]) -> None:
    _, record = compared
    assert list(record.verdict.lean) == ["original", "shallow", "random"]
    assert record.verdict.others == {}
    assert record.verdict.effects is not None
    assert record.verdict.lean["random"].difference.mean > 10


def test_the_same_command_resumes(compared: tuple[Path, lf.Comparison], trained: Path) -> None:
    out, record = compared
    file = out / "pretrained" / "lean" / "model.safetensors"
    stamp, weights = file.stat().st_mtime_ns, load_file(file)
    (out / "lean" / "seed-1" / "result.json").unlink()
    again = compare(pretrained=trained, lean="depth=1,heads=4", out=out)
    assert file.stat().st_mtime_ns == stamp, "models are made once"
    assert {arm: row.scores for arm, row in again.arms.items()} == {arm: row.scores for arm, row in record.arms.items()}
    (out / "pretrained" / "lean" / "inheritance.json").unlink()  # as if it had been killed while it was made
    compare(pretrained=trained, lean="depth=1,heads=4", out=out)
    assert all(torch.equal(tensor, load_file(file)[name]) for name, tensor in weights.items())


def test_a_study_can_be_moved_and_trained_from_anywhere(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained.parent)
    asked = dict(arms=["original", "lean"], tune="lr", tune_share=0.5, tune_seeds=1, budgets="1/2,1")
    compare(pretrained=trained.name, seeds=1, out=tmp_path / "there", **asked)
    moved = (tmp_path / "there").rename(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    record = compare(pretrained=trained, seeds=2, out="here", **asked)
    assert record.seeds == [0, 1]
    for folder in moved.rglob("run.json"):
        start = read_run(folder.parent).start_in(folder.parent)
        assert start is not None
        assert start.is_dir()
        assert start.resolve() in (trained, (moved / "pretrained" / "lean").resolve())


def test_arms_are_added_to_what_is_there(trained: Path, tmp_path: Path) -> None:
    asked = dict(pretrained=trained, lean="depth=1,heads=4", seeds=1, out=tmp_path)
    compare(**asked, arms=["original", "lean", "shallow"])
    more = compare(**asked, arms=["original", "lean"], arm=["grown:heads=4"])
    assert set(more.arms) == {"original", "lean", "shallow", "grown"}
    assert set(read_plan(tmp_path).starts) == {"original", "lean", "shallow", "grown"}
    compare(**asked, arms=["original", "lean", "shallow"])


def test_a_dry_run_refuses_what_the_comparison_would(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lean cannot begin with .*: heads=1 is fewer"):
        compare(pretrained=trained, lean="depth=1,heads=1", out=tmp_path, dry_run=True)
    assert compare(pretrained=trained, out=tmp_path, dry_run=True).runs == 8


def test_choices_that_contradict_a_trained_model_are_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model and pretrained both say which model is the original"):
        compare(pretrained=trained, model="vit_tiny_patch16_224", out=tmp_path)
    with pytest.raises(ValueError, match=r"training\.teacher must be a saved model's folder, got nowhere"):
        compare(settings={"training.teacher": "nowhere"}, out=tmp_path)


def test_an_arm_called_random_is_any_arm_without_a_trained_model(tmp_path: Path) -> None:
    record = compare(arms=["original", "lean"], arm=["random:depth=1"], lean="depth=1,heads=4", seeds=1, out=tmp_path)
    assert record.arms["random"].architecture.stages[0].heads == 2
    assert list(record.verdict.others) == ["random"]


def test_layers_and_heads_are_chosen_as_asked(trained: Path, tmp_path: Path) -> None:
    asked = dict(lean="depth=1,heads=4", layers="1", new_heads="copied", arms=["lean", "wide"])
    compare(pretrained=trained, **asked, seeds=1, out=tmp_path)
    lean, wide = (Inheritance.read(tmp_path / "pretrained" / arm / "inheritance.json") for arm in ("lean", "wide"))
    assert (lean.layers, lean.rule, lean.new_heads) == ([1], "given", "copied")
    assert (wide.layers, wide.function_kept) == ([0, 1], True), "an arm of full depth keeps all layers"


def test_arms_may_choose_layers_of_their_own(trained: Path, tmp_path: Path) -> None:
    arms = ["late:depth=1,layers=[1]", "early:depth=1,layers=first"]
    compare(pretrained=trained, arms=["original"], arm=arms, seeds=1, out=tmp_path)
    found = {arm: Inheritance.read(tmp_path / "pretrained" / arm / "inheritance.json") for arm in ("late", "early")}
    assert {arm: (record.rule, record.layers) for arm, record in found.items()} == {
        "late": ("given", [1]),
        "early": ("first", [0]),
    }
    with pytest.raises(ValueError, match=r"late holds a model that was made in another way or of other weights"):
        compare(pretrained=trained, arms=["original"], arm=["late:depth=1,layers=[0]"], seeds=1, out=tmp_path)
    with pytest.raises(ValueError, match="layers and new_heads say what is taken of a trained model; give pretrained"):
        compare(arm=arms, out=tmp_path)


def test_other_weights_in_the_trained_folder_are_found(trained: Path, tmp_path: Path) -> None:
    again = shutil.copytree(trained / "model", tmp_path / "model")
    asked = dict(pretrained=again, arms=["original", "lean"], seeds=1, out=tmp_path / "out")
    compare(**asked)
    model = lf.from_pretrained(again)
    with torch.no_grad():
        model.blocks[0].norm1.weight.mul_(2)
    lf.save_pretrained(model, again)
    with pytest.raises(ValueError, match="made in another way or of other weights; choose another folder"):
        compare(**asked)


def test_lean_has_half_the_layers_and_twice_the_heads(trained: Path, tmp_path: Path) -> None:
    record = compare(pretrained=trained, arms=["original", "lean"], seeds=1, out=tmp_path)
    (stage,) = record.arms["lean"].architecture.stages
    assert (stage.depth, stage.heads, stage.head_dim, stage.mlp_dim) == (1, 4, 8, 32)


def test_what_cannot_be_inherited_is_said_before_training(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lean cannot begin with .*: heads=1 is fewer than the trained model's 2"):
        compare(pretrained=trained, lean="depth=1,heads=1", out=tmp_path)
    with pytest.raises(ValueError, match=r"pretrained must be a saved model's folder or a \.gguf file, got nowhere"):
        compare(pretrained="nowhere", out=tmp_path)
    with pytest.raises(ValueError, match="layers and new_heads need pretrained, which names the trained model"):
        compare(layers="first", out=tmp_path)
    with pytest.raises(ValueError, match="layers names 2 layers and depth asks for 1"):
        compare(pretrained=trained, lean="depth=1", layers="0,1", out=tmp_path)
    shown = call("compare", "--command", "true", "--pretrained", str(trained), "--out", str(tmp_path))
    assert shown.returncode == 2
    assert "--pretrained" in shown.stderr


def test_texts_are_read_with_the_trained_models_tokenizer(tmp_path: Path) -> None:
    """An encoder without a head and without a tokenizer.json is fine-tuned on GLUE."""
    write_glue(tmp_path, "sst2", rows=40)
    config = transformers.BertConfig(  # with more embeddings than the tokenizer has words, as many models have
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    letters = "abcdefghijklmnopqrstuvwxy"
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]))
    record = lf.compare(
        "glue-sst2",
        data=tmp_path,
        pretrained=tmp_path / "bert",
        budget="steps",
        steps=2,
        seeds=1,
        jobs=1,
        out=tmp_path / "out",
        progress=False,
        report=False,
    )
    assert record.arms["original"].architecture.options["vocab_size"] == 32
    assert list(record.arms) == ["original", "lean", "shallow", "random"]


def test_a_file_of_llama_cpp_is_healed(tmp_path: Path) -> None:
    """The original begins with the file itself, lean with half its layers; the tokenizer is the file's."""
    written_by_llama_cpp(tiny_llama(), tmp_path / "tiny.gguf")
    record = lf.compare(
        "pydoc",
        pretrained=tmp_path / "tiny.gguf",
        settings={"task.length": 16, "training.teacher": str(tmp_path / "tiny.gguf")},
        arms=["original", "lean"],
        steps=2,
        seeds=1,
        jobs=1,
        out=tmp_path / "out",
        progress=False,
        report=False,
    )
    made = Inheritance.read(tmp_path / "out" / "pretrained" / "lean" / "inheritance.json")
    assert (made.loss, len(made.layers), made.after.stages[0].heads) == ("next-token loss", 1, 8)
    model, data = (
        lf.from_pretrained(tmp_path / "tiny.gguf"),
        load(read_run(tmp_path / "out" / "original" / "seed-0").task),
    )
    sums = data.evaluate(model, Share(), torch.device("cpu"))
    assert record.runs["original"]["0"].evaluations[0].scores["loss"] == pytest.approx(
        data.score(sums)["loss"], rel=1e-6
    )
