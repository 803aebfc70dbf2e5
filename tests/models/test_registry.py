"""The registry of families: one of another package takes part like our own."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer import models
from leanformer.architecture import Architecture, Stage
from leanformer.models import registry
from leanformer.models.base import AttentionPart, Family
from leanformer.models.registry import FAMILIES

STAGE = Stage(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32)


class TinyEncoder(nn.Module):
    """PyTorch's own encoder."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(stage.width, stage.heads, stage.mlp_dim, batch_first=True)
            for stage in architecture.layers
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class TinyFamily(Family):
    key = "tiny"

    def names(self):
        return ["tiny-encoder"]

    def read(self, name, **options):
        self.refuse(options)
        return Architecture(family=self.key, name=name, stages=(STAGE,), options=options)

    def assemble(self, architecture):
        return TinyEncoder(architecture)

    def owns(self, model):
        return isinstance(model, TinyEncoder)

    def record(self, model):
        return model.architecture.name, dict(model.architecture.options)

    def parts(self, model):
        return [
            AttentionPart(path=f"layers.{i}.self_attn", kind="self", layer=i, attention=layer.self_attn, mlp=layer)
            for i, layer in enumerate(model.layers)
        ]

    def shape(self, part):
        attention = part.attention
        sizes = dict(heads=attention.num_heads, head_dim=attention.head_dim, mlp_dim=part.mlp.linear1.out_features)
        return Stage(width=attention.embed_dim, depth=1, **sizes)

    def projection(self, part):
        return f"{part.path}.out_proj"

    def example_inputs(self, architecture, batch=2, tokens=None):
        return {"x": torch.randn(batch, tokens or 12, architecture.stages[0].width)}

    def configure(self, model, attention, checkpointing):
        raise NotImplementedError


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> type[Family]:
    monkeypatch.setattr(FAMILIES, "_registered", dict(FAMILIES._registered))
    monkeypatch.setattr(registry, "_INSTANCES", dict(registry._INSTANCES))
    return FAMILIES.register("tiny")(TinyFamily)


def test_a_family_of_another_package_does_all_that_ours_do(tiny: type[Family]) -> None:
    model = lf.create("tiny-encoder", depth=3, heads=4, keep="width").eval()
    described = lf.describe(model)
    assert described == lf.architecture_of("tiny-encoder", depth=3, heads=4, keep="width")
    assert described.stages == (Stage(width=16, depth=3, heads=4, head_dim=4, mlp_dim=32),)
    assert [block.heads for block in lf.attention_blocks(model)] == [4, 4, 4]
    assert models.known_names()["tiny"] == ["tiny-encoder"]
    assert isinstance(models.find("tiny-encoder"), tiny)
    assert models.example_inputs(described)["x"].shape == (2, 12, 16)
    with pytest.raises(ValueError, match="did you mean tiny-encoder"):
        lf.create("tiny-encodr")


def test_it_is_found_through_an_entry_point_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_INSTANCES", dict(registry._INSTANCES))
    monkeypatch.setitem(sys.modules, "package_of_this_test", sys.modules[__name__])
    point = EntryPoint("tiny", "package_of_this_test:TinyFamily", "leanformer.families")
    monkeypatch.setattr(type(FAMILIES), "_installed", lambda self: {"tiny": point})
    assert lf.describe(lf.create("tiny-encoder")).family == "tiny"


def test_families_of_0_1_are_found_by_their_names_of_then() -> None:
    assert models.family("stories") is models.family("story-gpt")
    assert models.family("points") is models.family("point-encoder")


def test_mistakes_in_a_family_are_named(tiny: type[Family], tmp_path: Path) -> None:
    FAMILIES.register("other")(type("Other", (TinyFamily,), {"key": "one-more"}))
    with pytest.raises(ValueError, match='the family "other" has the key "one-more": register it under its key'):
        models.family("other")
    with pytest.raises(ValueError, match='"torch:nn" is not a family'):
        models.family("torch:nn")
    with pytest.raises(ValueError, match='there is no family "vti": did you mean vit'):
        models.family("vti")
    with pytest.raises(ValueError, match='the family "vit" is registered already'):
        FAMILIES.register("vit")(TinyFamily)
    code = tmp_path / "family.py"
    code.write_text("raise SystemExit('the code ran')")
    with pytest.raises(ValueError, match="a record names code in a file"):
        lf.build(Architecture(family=f"{code}:Family", name="x", stages=(STAGE,)))


def test_the_package_exports_what_it_lists() -> None:
    for name in models.__all__:
        assert getattr(models, name) is not None
    assert models.create is lf.create
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = models.nothing
