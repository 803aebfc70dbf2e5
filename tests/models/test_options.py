"""Options that no model can have are refused in one line; what upstream's constructors raise becomes one line too."""

from typing import Any

import pytest
import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models import families
from leanformer.models.names import architecture_of, create
from leanformer.models.timm.vit import ViT

BAD: list[tuple[str, dict[str, Any]]] = [
    ("vit_tiny_patch16_224", {"img_size": "x"}),
    ("vit_tiny_patch16_224", {"patch_size": 0}),
    ("vit_tiny_patch16_224", {"num_classes": None}),
    ("vit_tiny_patch16_224", {"in_chans": True}),
    ("lean_vit_base_patch16_224", {"img_size": [32, -3]}),
    ("xcit_nano_12_p16_224", {"img_size": -3}),
    ("tnt_s_patch16_224", {"patch_size": 1.5}),
    ("volo_d1_224", {"num_classes": -1}),
    ("gpt2", {"vocab_size": 0}),
    ("gpt2", {"n_positions": 10**30}),
    ("bert-base-uncased", {"vocab_size": "many"}),
    ("crammed-bert", {"vocab_size": None}),
    ("qwen3", {"kv_groups": 0}),
    ("nystromformer-listops", {"landmarks": 0}),
    ("farthest-point", {"point_dim": -1}),
]


@pytest.mark.parametrize(("name", "options"), BAD, ids=str)
def test_a_size_that_is_none_is_named(name: str, options: dict[str, Any]) -> None:
    (option,) = options
    with pytest.raises(ValueError, match=rf"{option} must be .*, got [^\n]*$"):
        create(name, **options, device="meta")


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "gpt2"])
def test_a_record_with_such_options_is_refused_too(name: str) -> None:
    option = "img_size" if name.startswith("vit") else "vocab_size"
    spoilt = architecture_of(name).with_options(**{option: "x"})
    with pytest.raises(ValueError, match=rf"^{name}: {option} must be .*, got 'x'$"):
        families.build(Architecture.from_dict(spoilt.to_dict()), "meta")


@pytest.mark.parametrize(
    "raised", [RuntimeError("no\nroom"), AssertionError("no"), TypeError("no"), ZeroDivisionError("no"), KeyError("no")]
)
def test_what_a_constructor_raises_is_one_line(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    design = architecture_of("vit_tiny_patch16_224", depth=2)

    def fail(*args: Any, **options: Any) -> nn.Module:
        raise raised

    monkeypatch.setattr("leanformer.models.timm.base.create_upstream", fail)
    with pytest.raises(ValueError, match=r"vit_tiny_patch16_224.* cannot be built: '?no'?$") as caught:
        families.build(design, "meta")
    assert caught.value.__cause__ is raised
    with pytest.raises(ValueError, match=r"^vit_tiny_patch16_224 cannot be built with drop_rate=0.5: '?no'?$"):
        architecture_of("vit_tiny_patch16_224", drop_rate=0.5)


def test_a_model_with_another_option_than_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    design = architecture_of("vit_tiny_patch16_224", depth=1, num_classes=7)
    made = ViT().build(design.with_options(num_classes=8), "meta")
    made.architecture = design
    monkeypatch.setattr(ViT, "assemble", lambda self, architecture: made)
    with pytest.raises(ValueError, match=r"vit_tiny_patch16_224 cannot be built as asked: .*num_classes"):
        families.build(design, torch.device("meta"))
