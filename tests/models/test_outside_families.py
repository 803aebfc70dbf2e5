"""The registry of families: one of another package takes part like our own."""

import contextlib
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer import models
from leanformer.architecture import Architecture, Stage
from leanformer.costs.closed_forms import formula
from leanformer.models import families
from leanformer.models.base import AttentionPart, Family
from leanformer.models.families import FAMILIES

STAGE = Stage(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32)


class TinyAttention(nn.Module):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.heads, self.head_dim = stage.heads, stage.head_dim
        self.qkv = nn.Linear(stage.width, 3 * stage.inner_width)
        self.out = nn.Linear(stage.inner_width, stage.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class TinyEncoder(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.attentions = nn.ModuleList(TinyAttention(stage) for stage in architecture.layers)
        self.mlps = nn.ModuleList(nn.Linear(stage.width, stage.mlp_dim) for stage in architecture.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for attention, mlp in zip(self.attentions, self.mlps, strict=True):
            x = x + attention(x)
            x = x + mlp(x).relu() @ mlp.weight
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
            AttentionPart(path=f"attentions.{layer}", kind="self", layer=layer, attention=attention, mlp=mlp)
            for layer, (attention, mlp) in enumerate(zip(model.attentions, model.mlps, strict=True))
        ]

    def shape(self, part):
        attention, mlp = part.attention, part.mlp
        sizes = dict(heads=attention.heads, head_dim=attention.head_dim, mlp_dim=mlp.out_features)
        return Stage(width=attention.out.out_features, depth=1, **sizes)

    def projection(self, part):
        return f"{part.path}.out"

    def example_inputs(self, architecture, batch=2, tokens=None):
        return {"x": torch.randn(batch, tokens or 12, architecture.stages[0].width)}

    def configure(self, model, attention, checkpointing):
        return contextlib.nullcontext()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> type[Family]:
    monkeypatch.setattr(FAMILIES, "_registered", dict(FAMILIES._registered))
    monkeypatch.setattr(families, "_INSTANCES", dict(families._INSTANCES))
    return FAMILIES.register("tiny")(TinyFamily)


def test_a_family_of_another_package_does_all_that_ours_do(tiny: type[Family]) -> None:
    model = lf.create("tiny-encoder", depth=3, heads=4, keep="width").eval()
    described = lf.describe(model)
    assert described == lf.architecture_of("tiny-encoder", depth=3, heads=4, keep="width")
    assert described.stages == (Stage(width=16, depth=3, heads=4, head_dim=4, mlp_dim=32),)
    assert [block.heads for block in lf.attention_blocks(model)] == [4, 4, 4]
    assert models.known_names()["tiny"] == ["tiny-encoder"]
    assert isinstance(models.find("tiny-encoder"), tiny)
    inputs = models.example_inputs(described)
    with lf.probe(model) as seen:
        model(**inputs)
    assert [(layer.name, layer.columns, len(layer.values.kappa)) for layer in seen.layers] == [
        (f"attentions.{layer}", 16, 2) for layer in range(3)
    ]
    counted = formula(described).parameters(described).total
    assert counted == sum(parameter.numel() for parameter in model.parameters())
    with pytest.raises(ValueError, match="did you mean tiny-encoder"):
        lf.create("tiny-encodr")


def test_its_models_are_saved_and_read_back(tiny: type[Family], tmp_path: Path) -> None:
    model = lf.create("tiny-encoder", heads=4)
    lf.save_pretrained(model, tmp_path)
    again = lf.from_pretrained(tmp_path)
    assert lf.describe(again) == lf.describe(model)
    assert all(torch.equal(again.get_parameter(name), value) for name, value in model.named_parameters())


def test_it_is_found_through_an_entry_point_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_INSTANCES", dict(families._INSTANCES))
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
