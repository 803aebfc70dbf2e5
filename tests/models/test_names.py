"""Models by name, here and in timm."""

from pathlib import Path

import pytest
import timm
import torch
from torch import nn

import leanformer as lf
from leanformer.models.published import LEAN_MODELS


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
    with pytest.raises(ValueError, match="pretrained is not an option"):
        lf.create("vit_base_patch16_224", pretrained=True)
    with pytest.raises(ValueError, match="head_dim and keep='width' contradict"):
        lf.create("vit_base_patch16_224", heads=16, head_dim=64, keep="width")


def test_create_refuses_a_folder(tmp_path: Path) -> None:
    """Fresh weights must not be taken for those in the folder."""
    lf.save_pretrained(lf.create("vit_tiny_patch16_224", depth=1), tmp_path)
    with pytest.raises(
        ValueError, match=r"is a saved model, and lf\.create gives fresh weights: lf\.from_pretrained\("
    ):
        lf.create(str(tmp_path))
    with pytest.raises(ValueError, match=r"lf\.build\(lf\.architecture_of\("):
        lf.create(str(tmp_path), heads=4)
    assert lf.architecture_of(str(tmp_path), heads=4).stages[0].heads == 4


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
