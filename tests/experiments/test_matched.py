"""Controls of lean's size: their parameters, counted on built models, and the sizes that they keep."""

import pytest

import leanformer as lf
from leanformer.experiments.arms import COMPUTED
from leanformer.experiments.matched import matched_depth, matched_mlp
from leanformer.experiments.recipes import recipe


def built(design: lf.Architecture) -> int:
    return sum(parameter.numel() for parameter in lf.build(design).parameters())


@pytest.mark.parametrize("name", ["digits", "fashion-mnist", "pydoc", "listops"])
def test_matched_mlp_has_leans_depth_and_parameters_and_the_originals_heads(name: str) -> None:
    chosen = recipe(name)
    found = matched_mlp(chosen.original, chosen.lean)
    assert built(found) == pytest.approx(built(chosen.lean), rel=0.01)
    assert found.depth == chosen.lean.depth
    assert [(s.heads, s.head_dim) for s in found.stages] == [(s.heads, s.head_dim) for s in chosen.original.stages]


@pytest.mark.parametrize("name", ["digits", "fashion-mnist"])
def test_matched_depth_has_the_originals_layers_and_no_more_parameters_than_lean(name: str) -> None:
    chosen = recipe(name)
    found = matched_depth(chosen.original, chosen.lean)
    deeper = found.resized(depth=found.depth + 1)
    assert built(found) <= built(chosen.lean) < built(deeper)
    assert found.resized(depth=1) == chosen.original.resized(depth=1)


def test_models_with_stages_are_matched_too() -> None:
    original = lf.architecture_of("davit_tiny")
    lean = original.resized(depth=[1, 1, 4, 1], heads=[6, 12, 24, 48])
    assert matched_mlp(original, lean).depth == 7
    shallower = matched_depth(original, lean)
    assert len(shallower.stages) == 4
    assert min(stage.depth for stage in shallower.stages) >= 1
    with pytest.raises(ValueError, match="matched-mlp needs as many stages"):
        matched_mlp(lf.architecture_of("vit_tiny_patch16_224"), original)


def test_they_are_arms_of_every_recipe() -> None:
    chosen = recipe("digits")
    assert {"matched-mlp", "matched-depth"} <= COMPUTED.keys()
    assert chosen.architecture("matched-mlp") == matched_mlp(chosen.original, chosen.lean)
    assert chosen.architecture("matched-depth") == matched_depth(chosen.original, chosen.lean)
