"""Saving and loading, here, by timm and by transformers, and the errors for a checkpoint that does not fit."""

import json
from pathlib import Path

import pytest
import timm
import torch
import transformers
from torch import nn

import leanformer as lf
from leanformer.models import families
from leanformer.models.huggingface import folders
from support.architectures import SMALL
from support.command import call


def outputs(model: nn.Module, inputs: dict) -> torch.Tensor:
    with torch.no_grad():
        out = model.eval()(**inputs)
    return getattr(out, "logits", out)


@pytest.mark.parametrize("key", SMALL)
def test_save_and_load_round_trip(key: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    architecture = SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages])
    model, inputs = families.build(architecture), families.example_inputs(architecture)
    lf.save_pretrained(model, tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.name.startswith(("config", "model"))) == [
        ".json",
        ".safetensors",
    ]
    again = lf.from_pretrained(tmp_path)
    assert lf.describe(again) == lf.describe(model)
    torch.testing.assert_close(outputs(again, inputs), outputs(model, inputs), rtol=0, atol=0)
    fresh = families.build(lf.architecture_of(str(tmp_path)))
    lf.load_weights(fresh, tmp_path)
    torch.testing.assert_close(outputs(fresh, inputs), outputs(model, inputs), rtol=0, atol=0)


def test_timm_reads_a_saved_folder(tmp_path: Path) -> None:
    model = lf.create("vit_tiny_patch16_224", depth=2, heads=5, num_classes=7)
    lf.save_pretrained(model, tmp_path)
    again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True)
    inputs = {"x": torch.randn(1, 3, 224, 224)}
    torch.testing.assert_close(outputs(again, inputs), outputs(model, inputs), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("key", "auto"),
    [
        ("gpt2", transformers.AutoModelForCausalLM),
        ("gpt2", transformers.AutoModel),
        ("bert", transformers.AutoModelForMaskedLM),
        ("bert", transformers.AutoModelForSequenceClassification),
        ("crammed-bert", transformers.AutoModelForMaskedLM),
        ("crammed-bert", transformers.AutoModelForSequenceClassification),
        ("story-gpt", transformers.AutoModelForCausalLM),
        ("nystromformer", transformers.AutoModelForSequenceClassification),
        ("point-encoder", transformers.AutoModel),
        ("llama", transformers.AutoModelForCausalLM),
        ("roberta", transformers.AutoModelForSequenceClassification),
        ("distilbert", transformers.AutoModelForSequenceClassification),
        ("modernbert", transformers.AutoModelForSequenceClassification),
        ("hf-vit", transformers.AutoModelForImageClassification),
        ("dinov2", transformers.AutoModel),
    ],
)
def test_auto_classes_read_a_saved_folder(key: str, auto, tmp_path: Path) -> None:
    schedule = SMALL[key].resized(heads=8 if key == "llama" else [4, 8])
    model = families.build(schedule)
    model.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert config.model_type == model.config.model_type
    again = auto.from_pretrained(tmp_path)
    assert lf.describe(again).stages == lf.describe(model).stages
    expected = dict(model.named_parameters())
    shared = [name for name, _ in again.named_parameters() if name in expected]
    for name in shared:
        assert torch.equal(again.get_parameter(name), expected[name]), name
    if type(again) is type(model):
        assert len(shared) == len(expected)


def test_upstreams_own_folder_is_read(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=50)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    described = lf.architecture_of(str(tmp_path))
    assert (described.family, described.options["vocab_size"]) == ("gpt2", 50)
    assert described.stages[0] == lf.Stage(width=32, depth=3, heads=4, head_dim=8, mlp_dim=128)
    wider = lf.build(lf.architecture_of(str(tmp_path), heads=8), device="meta")
    assert lf.describe(wider).stages[0].inner_width == 64


def test_the_command_reads_what_was_saved(tmp_path: Path) -> None:
    families.build(SMALL["gpt2"]).save_pretrained(tmp_path / "lean")
    shown = call("measure", str(tmp_path / "lean"), "--random", "--batch", "1", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    assert "transformer.h.1.attn" in shown.stdout


def test_changed_heads_and_vocabularies_are_described(tmp_path: Path) -> None:
    model = timm.create_model("vit_tiny_patch16_224", num_classes=7)
    lf.save_pretrained(model, tmp_path / "timm")
    assert lf.from_pretrained(tmp_path / "timm").head.out_features == 7
    lean = families.build(SMALL["vit"])
    lean.reset_classifier(3)
    assert lf.describe(lean).options["num_classes"] == 3
    gpt = families.build(SMALL["gpt2"])
    gpt.resize_token_embeddings(120)
    assert lf.describe(gpt).options["vocab_size"] == 120


def test_other_heads_come_back_as_they_were_saved(tmp_path: Path) -> None:
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48)
    transformers.BertForTokenClassification(config).save_pretrained(tmp_path)
    assert type(lf.from_pretrained(tmp_path)) is transformers.BertForTokenClassification


def test_a_wrong_checkpoint_names_the_stage(tmp_path: Path) -> None:
    lf.save_pretrained(families.build(SMALL["volo"]), tmp_path)
    other = families.build(SMALL["volo"].resized(depth=[1, 1, 1, 1], heads=[2, 4, 8, 4]))
    message = r"stage 3: depth 1 in the model, 2 in the checkpoint; heads 8 in the model, 4 in the checkpoint"
    with pytest.raises(ValueError, match=message):
        lf.load_weights(other, tmp_path)
    with pytest.raises(ValueError, match="stage 3"):
        lf.load_weights(other, tmp_path / "model.safetensors")


@pytest.mark.parametrize("key", ["gpt2", "vit", "story-gpt"])
def test_a_bare_state_dict_names_the_stage_too(key: str, tmp_path: Path) -> None:
    torch.save({"state_dict": families.build(SMALL[key]).state_dict()}, tmp_path / "model.pt")
    lf.load_weights(families.build(SMALL[key]), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"stage 1, .*in the model, .*in the checkpoint"):
        lf.load_weights(families.build(SMALL[key].resized(heads=8)), tmp_path / "model.pt")


def test_checkpoints_cannot_run_code(tmp_path: Path) -> None:
    torch.save({"state_dict": nn.Linear(2, 2)}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match="weights_only"):
        lf.load_weights(families.build(SMALL["vit"]), tmp_path / "evil.pt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "holds no config.json"),
        (lambda folder: (folder / "config.json").write_text(json.dumps({"a": 1})), "describes no model"),
    ],
)
def test_folders_that_are_not_a_model(make, message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match=message):
        lf.from_pretrained(tmp_path)


def test_missing_checkpoints(tmp_path: Path) -> None:
    model = families.build(SMALL["vit"])
    with pytest.raises(ValueError, match="there is no checkpoint at"):
        lf.load_weights(model, tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match=r"holds no \.safetensors file"):
        lf.load_weights(model, tmp_path)
    (tmp_path / "junk.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        lf.load_weights(model, tmp_path / "junk.safetensors")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds no state dict of tensors"):
        lf.load_weights(model, tmp_path / "list.pt")
    swin = timm.create_model("swin_tiny_patch4_window7_224", depths=(1, 1, 1, 1))
    torch.save({"a": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="has nothing in common with this SwinTransformer: it holds a, the model"):
        lf.load_weights(swin, tmp_path / "other.pt")


def test_models_of_0_1_are_read(tmp_path: Path) -> None:
    """Their config names the family as it was called then."""
    for key, before in (("story-gpt", "stories"), ("point-encoder", "points")):
        model, folder = families.build(SMALL[key]), tmp_path / key
        model.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        assert config["architecture"]["family"] == key
        config["architecture"]["family"] = before
        (folder / "config.json").write_text(json.dumps(config))
        assert lf.architecture_of(str(folder)) == SMALL[key]
        inputs = families.example_inputs(SMALL[key])
        torch.testing.assert_close(outputs(lf.from_pretrained(folder), inputs), outputs(model, inputs), rtol=0, atol=0)


def test_code_in_a_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    families.build(SMALL["gpt2"]).save_pretrained(tmp_path)
    seen = []
    for auto in (folders.AutoConfig, folders.AutoModelForCausalLM):
        for name in ("from_pretrained", "from_config"):
            if original := getattr(auto, name, None):

                def watched(*args, original=original, **kwargs):
                    seen.append(kwargs["trust_remote_code"])
                    return original(*args, **kwargs)

                monkeypatch.setattr(auto, name, watched)
    folders.model_from(tmp_path)
    folders.empty_model_from(tmp_path)
    assert seen == [False] * 4
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "mine", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}})
    )
    (tmp_path / "code.py").write_text("raise SystemExit('code of the folder ran')")
    with pytest.raises(ValueError, match="trust_remote_code"):
        lf.from_pretrained(tmp_path)


def test_damaged_configs_are_named(tmp_path: Path) -> None:
    for text, message in (("[1]", "holds no JSON object"), ("{", r"config\.json is damaged: .* in line 1")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            lf.from_pretrained(tmp_path)


@pytest.mark.parametrize("content", [b"the cat 0 sat on mat 0", b"", b"\x80", b"\x80\x02.", b"PK\x03\x04", b"]."])
def test_files_that_are_no_checkpoints_are_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(content)
    with pytest.raises(ValueError, match=r"weights\.pt (is not a checkpoint|holds no state dict)") as refused:
        lf.load_weights(torch.nn.Linear(1, 1), tmp_path / "weights.pt")
    assert "\n" not in str(refused.value)


def test_a_saved_model_states_how_its_images_are_prepared(tmp_path: Path) -> None:
    model = families.build(SMALL["vit"])
    lf.save_pretrained(model, tmp_path / "plain")
    assert stated(tmp_path / "plain")["input_size"] == [3, 32, 32], "the model's own size, not that of its name"
    given = {
        "input_size": (3, 32, 32),
        "mean": (0.1, 0.2, 0.3),
        "std": [0.4, 0.5, 0.6],
        "interpolation": "bilinear",
        "crop_pct": 1.0,
        "label_names": [f"class {label}" for label in range(10)],
    }
    lf.save_pretrained(model, tmp_path / "given", preprocessing=given)
    through_timm = timm.create_model(f"local-dir:{tmp_path / 'given'}", pretrained=True)
    ours = lf.from_pretrained(tmp_path / "given")
    for again in (through_timm, ours):
        config = timm.data.resolve_model_data_config(again)
        assert (tuple(config["input_size"]), tuple(config["mean"])) == ((3, 32, 32), (0.1, 0.2, 0.3))
        assert (config["std"], config["interpolation"], config["crop_pct"]) == ([0.4, 0.5, 0.6], "bilinear", 1.0)
        assert again.pretrained_cfg["label_names"][9] == "class 9"
        assert lf.describe(again) == lf.describe(model)
        assert timm.data.resolve_model_data_config(again, use_test_size=True) == config
    lf.save_pretrained(ours, tmp_path / "again")
    assert stated(tmp_path / "again") == stated(tmp_path / "given"), "saving what was read loses nothing"


def stated(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())["pretrained_cfg"]


def test_upstreams_colours_are_not_stated_for_grey_images(tmp_path: Path) -> None:
    grey = lf.create("vit_tiny_patch16_224", depth=1, in_chans=1, img_size=32)
    lf.save_pretrained(grey, tmp_path)
    assert stated(tmp_path)["input_size"] == [1, 32, 32]
    assert not {"mean", "std"} & stated(tmp_path).keys()
    with pytest.raises(ValueError, match=r"preprocessing: mean needs one number per channel \(1\), got"):
        lf.save_pretrained(grey, tmp_path, preprocessing={"mean": [0.5, 0.5, 0.5]})


def test_preprocessing_that_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="preprocessing has no colour; it has input_size, mean, std"):
        lf.save_pretrained(families.build(SMALL["vit"]), tmp_path, preprocessing={"colour": 1})


def test_beside_a_model_of_transformers_preprocessing_has_its_own_file(tmp_path: Path) -> None:
    lf.save_pretrained(families.build(SMALL["nystromformer"]), tmp_path, preprocessing={"mean": [0.5]})
    assert json.loads((tmp_path / "preprocessing.json").read_text()) == {"mean": [0.5]}
    assert lf.describe(lf.from_pretrained(tmp_path)) == SMALL["nystromformer"]


@pytest.mark.parametrize("key", ["vit", "deit", "xcit", "tnt", "volo", "davit", "swin"])
def test_timm_gives_a_saved_model_another_head(key: str, tmp_path: Path) -> None:
    model = families.build(SMALL[key])
    lf.save_pretrained(model, tmp_path, preprocessing={"label_names": list("abcdefghij")})
    again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, num_classes=7)
    assert again.num_classes == 7
    assert outputs(again, families.example_inputs(SMALL[key])).shape == (2, 7)
    assert "label_names" not in again.pretrained_cfg
    kept = dict(model.named_parameters())
    same = [name for name, value in again.named_parameters() if value.shape == kept[name].shape]
    assert len(same) > 10
    assert all(torch.equal(again.get_parameter(name), kept[name]) for name in same if "head" not in name)
