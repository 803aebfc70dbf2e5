"""`lf.inherit` and `leanformer inherit`: from a folder to a lean model, its record, and what is refused."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import transformers

import leanformer as lf
from leanformer.inheriting.places import HeadPlaces
from leanformer.inheriting.record import FILE, Inheritance
from leanformer.models import families
from support import tiny_run
from support.architectures import SMALL
from support.command import call
from support.trained import answer, shaken


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder without a head, in transformers' own form, with a tokenizer."""
    folder = tmp_path_factory.mktemp("bert")
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48, vocab_size=40
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "aeiou")]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_folder_becomes_a_lean_model(bert: Path, tmp_path: Path) -> None:
    before = answer(lf.from_pretrained(bert), (inputs := {"input_ids": torch.arange(20)[None]}))
    lean = lf.inherit(bert, depth=2, heads=8, mlp_dim=24, random=True, out=tmp_path / "lean")
    assert type(lean).__name__ == "LeanBertModel", "of the same kind: without a head"
    assert not lean.training
    (stage,) = lf.describe(lean).stages
    assert (stage.depth, stage.heads, stage.head_dim, stage.mlp_dim, stage.width) == (2, 8, 8, 24, 32)
    record = Inheritance.read(tmp_path / "lean" / FILE)
    assert record == lean.inheritance
    assert (record.rule, len(record.layers), len(record.scores)) == ("influence", 2, 4)
    influences = {row.layer: row.influence for row in record.scores}
    assert record.layers == sorted(sorted(influences, key=lambda layer: -influences[layer])[:2])
    assert record.params_after == sum(parameter.numel() for parameter in lean.parameters()) < record.params_before
    again = lf.from_pretrained(tmp_path / "lean")
    assert torch.equal(answer(again, inputs), answer(lean, inputs))
    assert not torch.allclose(before, answer(lean, inputs), atol=1e-3)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "lean").vocab_size == 36
    assert (tmp_path / "lean" / "influence_by_layer.png").is_file()


def test_growing_alone_keeps_the_function_and_says_so(bert: Path) -> None:
    lean = lf.inherit(bert, heads=8, new_heads="copied", random=True)
    record = lean.inheritance
    assert record.function_kept
    assert record.difference < 1e-5
    assert record.layers == [0, 1, 2, 3]
    assert "the function is the same before any training" in " ".join(record.sentences())


def test_a_lean_model_loses_what_its_record_says() -> None:
    model = shaken(SMALL["gpt2"])
    batch = families.example_inputs(SMALL["gpt2"], 2, 16)
    lean = lf.inherit(model, depth=1, layers=[1], inputs=batch)
    record = lean.inheritance
    assert (record.rule, record.layers, record.loss) == ("given", [1], "next-token loss")
    for found, judged in ((record.loss_before, model), (record.loss_after, lean)):
        logits = answer(judged, batch)[:, :-1].flatten(0, 1)
        expected = torch.nn.functional.cross_entropy(logits, batch["input_ids"][:, 1:].flatten()).item()
        assert found == pytest.approx(expected, rel=1e-5)


def test_stages_lose_layers_separately(tmp_path: Path) -> None:
    model = shaken(SMALL["swin"])
    inputs = families.example_inputs(SMALL["swin"])
    lean = lf.inherit(model, depth=[1, 1, 1, 1], layers="greedy", inputs=inputs["x"], out=tmp_path, report=False)
    assert Inheritance.read(tmp_path / FILE).scores[2].without is None, "no layer of its stage can go"
    assert [stage.depth for stage in lf.describe(lean).stages] == [1, 1, 1, 1]
    assert {row.stage for row in lean.inheritance.scores if row.removed} == {0, 2}


def test_what_a_model_says_of_itself_is_carried_over(tmp_path: Path) -> None:
    trained = lf.create("vit_tiny_patch16_224", width=16, depth=2, heads=2, head_dim=8, num_classes=3, img_size=32)
    stated = {"mean": [0.1, 0.2, 0.3], "std": [0.4] * 3, "label_names": ["cat", "dog", "emu"]}
    lf.save_pretrained(trained, tmp_path / "trained", stated)
    lf.inherit(tmp_path / "trained", depth=1, random=True, out=tmp_path / "lean", report=False)
    config = json.loads((tmp_path / "lean" / "config.json").read_text())["pretrained_cfg"]
    assert {key: config[key] for key in stated} == stated
    classifier = lf.build(SMALL["bert"].with_options(num_labels=2))
    classifier.config.id2label = {0: "bad", 1: "good"}
    assert lf.inherit(classifier, depth=1, random=True).config.id2label == {0: "bad", 1: "good"}


def test_a_run_is_judged_on_its_own_held_out_samples(tmp_path: Path) -> None:
    lf.train(tiny_run.described(tmp_path / "run", steps=2, evaluations=1))
    lean = lf.inherit(tmp_path / "run", depth=1, heads=4)
    assert lean.inheritance.calibration.startswith("8 held-out samples of digits")


WRONG = {
    "--depth 9": "--depth=9 is more than the trained model's 4 layers: give at most as many",
    "--depth 0": '--depth takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "0"',
    "--depth 2,2": "depth names 2 stages, bert-base-uncased has 1",
    "--heads 3": "--heads=3 is fewer than the trained model's 4: heads are added, not removed",
    "--heads 16 --regime split": "",
    "--heads 5 --regime split": "heads=5 do not divide width 32",
    "--layers 0,0": "--layers: layer 0 is given twice; each layer can stay once",
    "--layers 7": "--layers: there is no layer 7; the trained model has 4 layers, 0 to 3",
    "--layers 0,1 --depth 3": "--layers names 2 layers and --depth asks for 3: give one of the two",
    "--layers best --depth 2": "--layers takes one of influence, ablation, greedy, first, even, or the numbers",
    "": "nothing would change: give --depth, --heads or --mlp-dim",
    "--depth 2 --text nowhere.txt": "nowhere.txt",
}


@pytest.mark.parametrize("options", WRONG)
def test_the_command_says_what_is_wrong_in_one_line(options: str, bert: Path, tmp_path: Path) -> None:
    shown = call("inherit", str(bert), *options.split(), "--out", str(tmp_path / "out"))
    if not WRONG[options]:
        assert shown.returncode == 0, shown.stderr
        assert "which changes the function" in shown.stdout
        return
    assert shown.returncode == 2
    *_, said = shown.stderr.strip().splitlines()  # before it, libraries may show how far they are
    assert said.startswith("leanformer: ")
    assert WRONG[options] in said
    assert not (tmp_path / "out").exists()


def test_models_are_not_overwritten(bert: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(bert, tmp_path / "copied"))
    with pytest.raises(ValueError, match="holds a model, which would be lost; name another folder"):
        lf.inherit(copied, depth=2, random=True, out=copied)
    lf.inherit(copied, depth=2, random=True, out=tmp_path / "lean", report=False)
    lf.inherit(copied, depth=1, random=True, out=tmp_path / "lean", report=False)  # an earlier lean model may go
    with pytest.raises(ValueError, match="out is the folder of the trained model itself"):
        lf.inherit(tmp_path / "lean", heads=8, random=True, out=tmp_path / "lean")


def test_models_whose_layers_differ_are_refused() -> None:
    model = shaken(SMALL["vit"].resized(heads=[2, 4]))
    for asked in ({"depth": 1}, {"heads": 8}):
        with pytest.raises(ValueError, match="the trained model has layers of different sizes"):
            lf.inherit(model, **asked, random=True)
    with pytest.raises(ValueError, match="the lean model has layers of different sizes"):
        lf.inherit(shaken(SMALL["vit"]), heads=[4, 8], random=True)


def test_positions_keep_their_precision() -> None:
    model = shaken(SMALL["llama"])
    positions = model.model.rotary_emb.inv_freq.clone()
    model.to(torch.bfloat16).model.rotary_emb.inv_freq = positions  # as transformers reads such models
    lean = lf.inherit(model, heads=8, random=True)
    assert next(lean.parameters()).dtype == torch.bfloat16
    assert torch.equal(lean.model.rotary_emb.inv_freq, positions)
    assert lean.inheritance.difference == 0


def test_a_name_or_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gpt2 is not a saved model: inheriting needs trained weights"):
        lf.inherit("gpt2", depth=2)
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        lf.inherit(tmp_path, depth=2)
    with pytest.raises(ValueError, match="new_heads must be fresh or copied, got 'old'"):
        lf.inherit(tmp_path, depth=2, new_heads="old")  # type: ignore[arg-type]


def test_heads_that_keys_cannot_group_are_refused() -> None:
    with pytest.raises(ValueError, match="heads=9 must be a multiple of kv_groups=2"):
        lf.inherit(shaken(SMALL["qwen3"]), heads=9, random=True)


def test_a_family_with_another_layout_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were heads outside and query, key and value inside, copies would be of the wrong columns."""
    places = HeadPlaces.places
    monkeypatch.setattr(HeadPlaces, "places", lambda self, axis: places(self, axis).flip(0))
    with pytest.raises(ValueError, match="heads cannot be added to VisionTransformer: outputs changed by"):
        lf.inherit(shaken(SMALL["vit"]), heads=8, new_heads="copied", random=True)


def test_a_model_with_another_head_is_refused_by_name(tmp_path: Path) -> None:
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    with pytest.raises(ValueError, match="a BertForQuestionAnswering has no resizable form; the family bert has Lean"):
        lf.inherit(transformers.BertForQuestionAnswering(config), depth=1, random=True)


def test_the_command_shows_every_layer(bert: Path, tmp_path: Path) -> None:
    shown = call("inherit", str(bert), "--depth", "2", "--heads", "8", "--out", str(tmp_path), "--layers", "ablation")
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in shown.stdout.splitlines() if re.match(r"\s+\d", line)]
    assert len(rows) == 4
    assert sum("stays, as layer" in row for row in rows) == 2
    assert "2 layers of 4 stay" in shown.stdout
    answered = call("inherit", str(bert), "--heads", "8", "--out", str(tmp_path), "--random", "--json")
    assert json.loads(answered.stdout)["kind"] == "inheritance"
    shutil.rmtree(tmp_path)
