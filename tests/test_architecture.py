"""Descriptions: what they refuse and in which words, what changes and what stays, what is kept in writing."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leanformer.architecture import Architecture, Stage

VIT_B = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)
VIT = Architecture(family="vit", name="vit_base_patch16_224", stages=(VIT_B,), options={"num_classes": 10})
VOLO = Architecture(family="volo", name="volo_d3_224", stages=(replace(VIT_B, depth=8), replace(VIT_B, depth=4)))

numbers = st.integers(1, 5000)
stages = st.builds(Stage, width=numbers, depth=numbers, heads=numbers, head_dim=numbers, mlp_dim=numbers)
options = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), max_size=4
)
architectures = st.builds(
    Architecture,
    family=st.text(min_size=1),
    name=st.text(min_size=1),
    stages=st.lists(stages, min_size=1, max_size=4).map(tuple),
    options=options,
)


@given(architectures)
def test_json_and_yaml_keep_everything(architecture: Architecture) -> None:
    assert Architecture.from_json(architecture.to_json()) == architecture
    assert Architecture.from_dict(yaml.safe_load(yaml.safe_dump(architecture.to_dict()))) == architecture
    assert pickle.loads(pickle.dumps(architecture)) == architecture
    assert copy.deepcopy(architecture) == architecture
    assert hash(Architecture.from_json(architecture.to_json())) == hash(architecture)


@given(architectures)
def test_merging_keeps_the_layers(architecture: Architecture) -> None:
    small = replace(
        architecture, stages=tuple(replace(stage, depth=stage.depth % 7 + 1) for stage in architecture.stages)
    )
    merged = small.merged()
    assert merged.layers == small.layers
    assert merged.depth == small.depth
    assert all(
        replace(a, depth=1) != replace(b, depth=1) for a, b in zip(merged.stages, merged.stages[1:], strict=False)
    )


def test_the_two_regimes() -> None:
    fixed, split = VIT.with_heads(16).stages[0], VIT.with_heads(16, keep="width").stages[0]
    assert (fixed.head_dim, fixed.inner_width) == (64, 1024)
    assert (split.head_dim, split.inner_width) == (48, 768)


def test_changes_leave_the_original_alone() -> None:
    lean = VIT.with_depth(7).with_heads(16).with_mlp(1536)
    assert lean.stages == (Stage(width=768, depth=7, heads=16, head_dim=64, mlp_dim=1536),)
    assert VIT.stages == (VIT_B,)
    with pytest.raises(FrozenInstanceError):
        VIT.stages = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        VIT.options["num_classes"] = 3  # type: ignore[index]


def test_a_schedule_is_several_stages() -> None:
    schedule = VIT.with_head_schedule([12, 12, 16, 16, 16], keep="head_dim")
    assert [(stage.depth, stage.heads) for stage in schedule.stages] == [(2, 12), (3, 16)]
    assert schedule.depth == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: VIT.with_heads(0), "heads must be at least 1, got 0"),
        (lambda: VIT.with_heads(0, keep="width"), "heads must be at least 1, got 0"),
        (lambda: VIT.with_depth(-1), "depth must be at least 1, got -1"),
        (lambda: VIT.with_mlp(1.5), "mlp_dim"),
        (lambda: VIT.with_heads(True), "heads must be a whole number, got True"),
        (lambda: VIT.with_heads(10, keep="width"), r"heads=10 do not divide width 768.*use one of \[6, 8, 12, 16\]"),
        (lambda: VIT.with_heads(8, keep="depth"), "keep must be 'head_dim' .* or 'width'"),
        (lambda: VOLO.with_depth(3), r"depth must be a list of 2 numbers, one per stage \(now \[8, 4\]\), got 3"),
        (lambda: VOLO.with_heads([1, 2, 3]), "heads names 3 stages, volo_d3_224 has 2"),
        (lambda: VOLO.with_head_schedule([1, 2]), "a head schedule starts from one stage"),
        (lambda: replace(VIT, stages=()), "at least one stage"),
        (lambda: VIT.with_options(norm=object()), "options must be plain numbers"),
        (lambda: Architecture.from_dict({"family": "vit"}), "lacks 'name', lacks 'stages'"),
        (lambda: Architecture.from_dict({**VIT.to_dict(), "x": 1}), "has an unknown 'x'"),
        (
            lambda: Architecture.from_dict({**VIT.to_dict(), "stages": [{"width": 3}]}),
            "stage 1 must have just width, depth, heads, head_dim, mlp_dim; got width",
        ),
    ],
)
def test_errors_say_what_came_and_what_is_needed(change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change()


def test_differences_name_the_stage() -> None:
    other = replace(VIT.with_heads(16), options={"num_classes": 100})
    assert VIT.differences(VIT) == []
    assert VIT.differences(other) == [
        "stage 1: heads 12 here, 16 there",
        "option num_classes: 10 here, 100 there",
    ]


def test_json_is_stable() -> None:
    assert json.loads(VIT.to_json()) == {
        "family": "vit",
        "name": "vit_base_patch16_224",
        "options": {"num_classes": 10},
        "stages": [{"width": 768, "depth": 12, "heads": 12, "head_dim": 64, "mlp_dim": 3072}],
    }
