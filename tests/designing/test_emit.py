"""What is emitted builds the design."""

import json

import pytest
import timm
import yaml

import leanformer as lf
from leanformer.architecture import Architecture
from leanformer.designing.emit import emit
from leanformer.designing.plan import design

VIT = lf.architecture_of("vit_base_patch16_224").resized(depth=7, heads=16, mlp_dim=1536)


def test_emitted_code_builds_the_design() -> None:
    scope: dict = {}
    exec(emit(VIT, "timm").replace("lf.create(", "lf.create(device='meta', name="), scope)
    assert lf.describe(scope["model"]).stages == VIT.stages
    assert Architecture.from_dict(yaml.safe_load(emit(VIT, "yaml"))) == VIT


def test_a_schedule_is_emitted_layer_by_layer() -> None:
    plan = design("vit_tiny_patch16_224", regimes=["fixed"])
    schedule = next(c.architecture for c in plan.found if len(c.architecture.stages) == 2)
    scope: dict = {}
    exec(emit(schedule, "timm"), scope)
    assert lf.describe(scope["model"]) == schedule


def test_timms_own_call_where_it_can_say_it() -> None:
    split = lf.architecture_of("vit_tiny_patch16_224").resized(depth=6, heads=6, keep="split")
    code = emit(split, "timm")
    assert code.startswith("import timm\n")
    scope: dict = {}
    exec(code, scope)
    assert lf.describe(scope["model"]).stages == split.stages
    assert isinstance(scope["model"], timm.models.VisionTransformer)


def test_emitted_config_builds_the_design() -> None:
    gpt = lf.architecture_of("gpt2").resized(depth=7, heads=16)
    assert json.loads(emit(gpt, "hf"))["architecture"]["stages"][0]["heads"] == 16


def test_wrong_forms() -> None:
    with pytest.raises(ValueError, match='"hf" is for language models; vit_base_patch16_224 is not one'):
        emit(VIT, "hf")
    with pytest.raises(ValueError, match='"timm" is for image models; gpt2 is not one'):
        emit(lf.architecture_of("gpt2"), "timm")
    with pytest.raises(ValueError, match="the form must be one of timm, hf, leanformer, yaml, got 'xml'"):
        emit(VIT, "xml")  # type: ignore[arg-type]
