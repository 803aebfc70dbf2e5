"""Weights of a trained model in a lean one: growth keeps the function, and dropping drops exactly what it says."""

import json
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leanformer.architecture import Architecture, Stage
from leanformer.conditioning.inputs import Inputs
from leanformer.inheriting.calibration import Calibration, bypassed
from leanformer.inheriting.places import NEW, HeadPlaces, NewHeads
from leanformer.inheriting.transfer import Transfer, inherited
from leanformer.inheriting.units import Axis
from leanformer.models import families
from support.architectures import SMALL
from support.trained import answer, shaken

ROUNDING = 1e-5
SOFTMAX = ("vit", "deit", "tnt", "hf-vit", "dinov2", "story-gpt", "gpt2", "bert", "distilbert", "llama", "qwen3")
"""Families whose attention is a plain softmax of queries and keys over tokens."""


def grown(architecture: Architecture, factor: int = 2, **more: str) -> Architecture:
    return architecture.resized(heads=[factor * stage.heads for stage in architecture.stages], **more)


@pytest.mark.parametrize("new_heads", get_args(NewHeads))
@pytest.mark.parametrize("key", SMALL)
def test_added_heads_keep_the_function(key: str, new_heads: NewHeads) -> None:
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    lean = inherited(model, grown(design, 4), Transfer(range(design.depth), new_heads))
    assert families.describe(lean).stages == grown(design, 4).stages
    assert torch.allclose(answer(lean, inputs), answer(model, inputs), atol=ROUNDING)


@pytest.mark.parametrize("key", SMALL)
def test_wider_mlps_and_unchanged_models_keep_the_function(key: str) -> None:
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    wider = design.resized(mlp_dim=[2 * stage.mlp_dim for stage in design.stages])
    every = Transfer(range(design.depth))
    assert torch.allclose(answer(inherited(model, wider, every), inputs), answer(model, inputs), atol=ROUNDING)
    assert torch.equal(answer(inherited(model, design, every), inputs), answer(model, inputs))


@pytest.mark.parametrize("key", SMALL)
def test_a_dropped_layer_is_as_if_it_handed_on_what_it_got(key: str) -> None:
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    depths = [stage.depth for stage in design.stages]
    stage = max(range(len(depths)), key=lambda number: depths[number])
    last = sum(depths[: stage + 1]) - 1  # the others keep their places, on which windows and masks depend
    depths[stage] -= 1
    kept = [layer for layer in range(design.depth) if layer != last]
    lean = inherited(model, design.resized(depth=depths if len(depths) > 1 else depths[0]), Transfer(kept))
    with bypassed(model, [families.of(model).layer_paths(model)[last]]):
        expected = answer(model, inputs)
    assert torch.equal(answer(lean, inputs), expected)
    assert not torch.allclose(expected, answer(model, inputs), atol=ROUNDING)


@pytest.mark.parametrize("key", SMALL)
def test_narrower_mlps_keep_the_neurons_that_were_chosen(key: str) -> None:
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    activity = Calibration(model, Inputs(inputs, "")).activity()
    kept = {name: values.topk(len(values) // 2).indices.sort().values for name, values in activity.items()}
    narrow = design.resized(mlp_dim=[stage.mlp_dim // 2 for stage in design.stages])
    lean = inherited(model, narrow, Transfer(range(design.depth), neurons=kept))
    with torch.no_grad():  # the same function with the other neurons unread
        for name, chosen in kept.items():
            weight = model.get_parameter(name)
            mask = torch.zeros(len(activity[name])).index_fill(0, chosen, 1.0)
            weight.mul_(mask if weight.shape[-1] == len(mask) else mask[:, None])
    assert torch.allclose(answer(lean, inputs), answer(model, inputs), atol=ROUNDING)


@pytest.mark.parametrize("key", SOFTMAX)
def test_divided_heads_take_the_values_of_their_own_head(key: str) -> None:
    """With queries of zero all weights are equal, whatever a head's size: then dividing heads changes nothing."""
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    split = grown(design, keep="width")
    every = Transfer(range(design.depth))
    assert not torch.allclose(answer(inherited(model, split, every), inputs), answer(model, inputs), atol=1e-3)
    with torch.no_grad():
        for layer in families.of(model).layer_paths(model):
            for name, parameter in model.get_submodule(layer).named_parameters():
                if any(word in name for word in ("qkv", "query", "q_proj", "q_lin", "qk.", "c_attn")):
                    columns = parameter.shape[-1] if "c_attn.weight" in name else parameter.shape[0]
                    count = {"qkv": 3, "c_attn": 3, "qk.": 2}
                    share = next((columns // n for word, n in count.items() if word in name), columns)
                    (parameter[..., :share] if "c_attn.weight" in name else parameter[:share]).zero_()
    lean = inherited(model, split, every)
    assert torch.allclose(answer(lean, inputs), answer(model, inputs), atol=ROUNDING)


def test_what_does_not_fit_is_named() -> None:
    design = SMALL["bert"]
    model = shaken(design)
    with pytest.raises(ValueError, match=r"bert.embeddings.word_embeddings.weight does not fit: \(101, 32\) in the"):
        inherited(model, design.with_options(vocab_size=7), Transfer(range(2)))


def test_copies_do_not_get_the_same_gradients() -> None:
    design = SMALL["vit"]
    model, inputs = shaken(design), families.example_inputs(design)
    lean = inherited(model, grown(design), Transfer(range(2), "copied")).train()
    families.of(lean).loss(lean, inputs).backward()
    gradient = lean.get_parameter("blocks.0.attn.qkv.weight").grad
    assert gradient is not None
    heads = gradient.view(3, 8, 12, 48)
    assert (heads[:, :4] - heads[:, 4:]).abs().max() > 0.1 * heads.abs().max()


def test_fresh_heads_learn_from_the_second_step_on() -> None:
    design = SMALL["gpt2"]
    model, inputs = shaken(design), families.example_inputs(design)
    lean = inherited(model, grown(design), Transfer(range(2), "fresh")).train()
    families.of(lean).loss(lean, inputs).backward()
    read = lean.get_parameter("transformer.h.0.attn.c_proj.weight").grad
    assert read is not None
    assert (read[32:].abs() > 0).any(), "what is read of a new head gets a gradient at once"


@given(
    heads=st.integers(1, 6),
    queries=st.integers(1, 4),
    factor=st.integers(1, 4),
    head_dim=st.integers(1, 4),
    copies=st.integers(1, 3),
    new_heads=st.sampled_from(get_args(NewHeads)),
    regime=st.sampled_from(["fixed", "split"]),
)
@settings(max_examples=200, deadline=None)
def test_places_of_heads(
    heads: int,
    queries: int,
    factor: int,
    head_dim: int,
    copies: int,
    new_heads: Literal["fresh", "copied"],
    regime: str,
) -> None:
    """Every old entry is taken, in its own copy; new entries are new, or all of one head are of one old head."""
    before = Stage(width=1, depth=1, heads=heads * queries, head_dim=head_dim * factor, mlp_dim=1)
    size = head_dim if regime == "split" else before.head_dim
    after = Stage(width=1, depth=1, heads=factor * before.heads, head_dim=size, mlp_dim=1)
    axis = Axis(dim=0, unit="head", copies=copies, inner=None)
    places = HeadPlaces(before, after, queries, new_heads).places(axis)
    old = before.inner_width
    assert len(places) == copies * after.inner_width
    assert set(places[places != NEW].tolist()) == set(range(copies * old))
    for copy, block in enumerate(places.view(copies, -1)):
        known = block[block != NEW]
        assert ((known // old) == copy).all()
    whole = places.view(copies, after.heads, size)
    assert ((whole // before.head_dim) == (whole[..., :1] // before.head_dim)).all(), "a head is made of one old head"
    if regime == "split":
        assert sorted(places.tolist()) == list(range(copies * old))
    elif new_heads == "fresh":
        assert (places == NEW).sum() == copies * (after.heads - before.heads) * size


def test_the_documented_table_is_the_record() -> None:
    root = Path(__file__).parents[2]
    rows = json.loads((root / "results" / "bench" / "growth.json").read_text())["rows"]
    assert {row["family"] for row in rows} == set(families.FAMILIES.names())
    page = (root / "docs" / "findings" / "healed_models.md").read_text(encoding="utf-8")
    for row in rows:
        shown = " | ".join(f"{row[way]:.1e}" if row[way] else "0" for way in ("fresh", "copied", "neurons"))
        assert f"| {row['model']} | {row['largest']:.1f} | {shown} |" in page
        assert max(row["fresh"], row["copied"], row["neurons"]) < 1e-6 * max(10.0, row["largest"])
