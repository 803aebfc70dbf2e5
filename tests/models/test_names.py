"""Models by name, here, in timm and in transformers; saving, loading, and what a wrong checkpoint is told."""

import json
from pathlib import Path

import pytest
import timm
import torch
import transformers
from torch import nn

import leanformer as lf
from leanformer.models import registry as families
from leanformer.models.published import LEAN_MODELS
from support.architectures import SMALL
from support.command import run


def params(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def outputs(model: nn.Module, inputs: dict) -> torch.Tensor:
    with torch.no_grad():
        out = model.eval()(**inputs)
    return getattr(out, "logits", out)


def test_create_redesigns_by_name() -> None:
    model = lf.create("vit_base_patch16_224", depth=7, heads=16, mlp_dim=1536, device="meta")
    assert params(model) == 40_112_872
    split = lf.create("vit_base_patch16_224", heads=16, keep="width", device="meta")
    assert params(split) == 86_567_656
    assert lf.describe(split).stages[0].head_dim == 48
    schedule = lf.create("vit_base_patch16_224", heads=[12, 12, 16, 16], device="meta")
    assert [(s.depth, s.heads) for s in lf.describe(schedule).stages] == [(2, 12), (2, 16)]
    tiny = lf.create(
        "vit_tiny_patch16_224", width=64, depth=2, heads=4, head_dim=16, img_size=28, patch_size=7, in_chans=1
    )
    assert outputs(tiny, {"x": torch.randn(1, 1, 28, 28)}).shape == (1, 1000)


def test_create_refuses_contradictions() -> None:
    with pytest.raises(ValueError, match="schedule of 3 layers, but depth is 2"):
        lf.create("vit_base_patch16_224", heads=[1, 2, 3], depth=2)
    with pytest.raises(ValueError, match="keep must be 'head_dim'"):
        lf.create("vit_base_patch16_224", keep="bogus")
    with pytest.raises(ValueError, match="pretrained is no option"):
        lf.create("vit_base_patch16_224", pretrained=True)
    with pytest.raises(ValueError, match="features_only"):
        timm.create_model("lean_vit_base_patch16_224", features_only=True)
    with pytest.raises(ValueError, match="head_dim and keep='width' contradict"):
        lf.create("vit_base_patch16_224", heads=16, head_dim=64, keep="width")


@pytest.mark.parametrize("name", LEAN_MODELS)
def test_every_lean_name_creates_its_row(name: str) -> None:
    row = LEAN_MODELS[name]
    described = lf.architecture_of(name)
    depths = [stage.depth for stage in described.stages]
    assert depths == (list(row.depth) if isinstance(row.depth, tuple) else [row.depth])
    heads = [stage.heads for stage in described.stages]
    assert heads == (list(row.heads) if isinstance(row.heads, tuple) else [row.heads])


@pytest.mark.parametrize("name", [name for name, row in LEAN_MODELS.items() if row.vision])
def test_lean_models_are_in_timms_registry(name: str) -> None:
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=10)
    assert model.get_classifier().out_features == 10
    assert lf.describe(model) == lf.architecture_of(name, num_classes=10)
    assert timm.data.resolve_model_data_config(model)["input_size"][0] == 3
    with pytest.raises(ValueError, match="no pretrained weights"):
        timm.create_model(name, pretrained=True)


def test_timm_lists_eleven_lean_models() -> None:
    assert len(timm.list_models("lean_*_*", exclude_filters="lean_saved")) == 11


@pytest.mark.parametrize("key", SMALL)
def test_save_and_load_round_trip(key: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    architecture = SMALL[key].with_heads([2 * stage.heads for stage in SMALL[key].stages])
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
        ("stories", transformers.AutoModelForCausalLM),
        ("nystromformer", transformers.AutoModelForSequenceClassification),
        ("points", transformers.AutoModel),
        ("llama", transformers.AutoModelForCausalLM),
    ],
)
def test_auto_classes_read_a_saved_folder(key: str, auto, tmp_path: Path) -> None:
    schedule = SMALL[key].with_heads(8) if key == "llama" else SMALL[key].with_head_schedule([4, 8])
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
    wider = lf.create(str(tmp_path), heads=8, device="meta")
    assert lf.describe(wider).stages[0].inner_width == 64


def test_the_command_reads_what_was_saved(tmp_path: Path) -> None:
    families.build(SMALL["gpt2"]).save_pretrained(tmp_path / "lean")
    shown = run("measure", str(tmp_path / "lean"), "--random", "--batch", "1", "--out", str(tmp_path / "out"))
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
    other = families.build(SMALL["volo"].with_depth([1, 1, 1, 1]).with_heads([2, 4, 8, 4]))
    message = r"stage 3: depth 1 in the model, 2 in the checkpoint; heads 8 in the model, 4 in the checkpoint"
    with pytest.raises(ValueError, match=message):
        lf.load_weights(other, tmp_path)
    with pytest.raises(ValueError, match="stage 3"):
        lf.load_weights(other, tmp_path / "model.safetensors")


@pytest.mark.parametrize("key", ["gpt2", "vit", "stories"])
def test_a_bare_state_dict_names_the_stage_too(key: str, tmp_path: Path) -> None:
    torch.save({"state_dict": families.build(SMALL[key]).state_dict()}, tmp_path / "model.pt")
    lf.load_weights(families.build(SMALL[key]), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"stage 1, .*in the model, .*in the checkpoint"):
        lf.load_weights(families.build(SMALL[key].with_heads(8)), tmp_path / "model.pt")


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
def test_folders_that_are_no_model(make, message: str, tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match="is no safetensors file"):
        lf.load_weights(model, tmp_path / "junk.safetensors")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds no state dict of tensors"):
        lf.load_weights(model, tmp_path / "list.pt")
    swin = timm.create_model("swin_tiny_patch4_window7_224", depths=(1, 1, 1, 1))
    torch.save({"a": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="tensors differ, such as"):
        lf.load_weights(swin, tmp_path / "other.pt")
