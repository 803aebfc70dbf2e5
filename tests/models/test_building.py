"""The device that models are built on: real tensors are filled, those on meta are not."""

import pytest
import timm
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import leanformer as lf
from leanformer.models.building import built_on


class Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_on_meta_nothing_is_initialised() -> None:
    with Operators() as operators, built_on("meta"):
        layer = nn.Linear(3, 2)
        timm.layers.trunc_normal_(layer.weight)
        nn.init.ones_(layer.bias)
        real = torch.zeros(2, device="cpu").fill_(3).mul_(2)
    assert layer.weight.is_meta
    assert real.tolist() == [6, 6], "what is elsewhere is filled"
    assert {"fill_.Scalar", "mul_.Tensor"} <= set(operators.names)
    assert not {"uniform_.default", "erfinv_.default", "clamp_.default"} & set(operators.names)
    assert nn.Linear(3, 2).weight.abs().sum() > 0, "afterwards all is as before"


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "volo_d1_224", "gpt2"])
def test_a_model_on_meta_is_the_real_one_without_contents(name: str) -> None:
    known = lf.architecture_of(name)
    design = known.resized(depth=[1] * len(known.stages), mlp_dim=8)
    meta, real = lf.build(design, device="meta"), lf.build(design)
    assert {key: (t.shape, t.dtype) for key, t in meta.state_dict().items()} == {
        key: (t.shape, t.dtype) for key, t in real.state_dict().items()
    }
    assert all(parameter.is_meta and parameter.requires_grad for parameter in meta.parameters())
    assert [m.training for m in meta.modules()] == [m.training for m in real.modules()]


def test_the_default_device_is_used_where_none_is_given() -> None:
    with torch.device("meta"), built_on(None):
        assert torch.ones(2).mul_(2).is_meta
    with built_on(None):
        assert torch.ones(2).mul_(2).tolist() == [2, 2]
