"""Descriptions: what they refuse and in which words, what changes and what stays, what is kept in writing."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
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
    fixed, split = VIT.resized(heads=16).stages[0], VIT.resized(heads=16, keep="width").stages[0]
    assert (fixed.head_dim, fixed.inner_width) == (64, 1024)
    assert (split.head_dim, split.inner_width) == (48, 768)


def test_changes_leave_the_original_alone() -> None:
    lean = VIT.resized(depth=7, heads=16, mlp_dim=1536)
    assert lean.stages == (Stage(width=768, depth=7, heads=16, head_dim=64, mlp_dim=1536),)
    assert VIT.stages == (VIT_B,)
    with pytest.raises(FrozenInstanceError):
        VIT.stages = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        VIT.options["num_classes"] = 3  # type: ignore[index]


def test_a_schedule_is_several_stages() -> None:
    schedule = VIT.resized(heads=[12, 12, 16, 16, 16])
    assert [(stage.depth, stage.heads) for stage in schedule.stages] == [(2, 12), (3, 16)]
    assert schedule.depth == 5
    changed = VIT.resized(width=64, heads=[2, 4, 4], keep="width", mlp_dim=[128, 256])
    assert [(stage.depth, stage.head_dim, stage.mlp_dim) for stage in changed.stages] == [(1, 32, 128), (2, 16, 256)]
    assert VIT.resized(heads=[12, 16], depth=2) == VIT.resized(heads=(12, 16), depth=[2])


def test_a_list_of_one_number_is_for_the_one_stage() -> None:
    assert VIT.resized(heads=[16], mlp_dim=[96]) == VIT.resized(heads=16, mlp_dim=96)


def test_sizes_change_together_as_one_by_one() -> None:
    together = VIT.resized(width=512, heads=8, depth=3, mlp_dim=64, keep="width")
    assert together == VIT.resized(mlp_dim=64).resized(depth=3).resized(width=512, heads=8, keep="width")
    assert VIT.resized(width=512).stages[0].head_dim == 64, "a width alone changes no head"
    assert VIT.resized(heads=16, keep="split") == VIT.resized(heads=16, keep="width")
    assert VIT.resized(heads=16, keep="fixed") == VIT.resized(heads=16)
    assert VIT.resized() == VIT


def test_numpys_integers_are_whole_numbers() -> None:
    found = VIT.resized(depth=np.int64(7), heads=np.array([4, 8, 8, 8, 8, 8, 8])).with_options(num_classes=np.int32(3))
    assert found == VIT.resized(heads=[4, *[8] * 6]).with_options(num_classes=3)
    assert json.loads(found.to_json())["stages"][1]["depth"] == 6
    assert all(type(number) is int for stage in found.stages for number in vars(stage).values())


@pytest.mark.parametrize(("before", "now"), [("stories", "story-gpt"), ("points", "point-encoder"), ("vit", "vit")])
def test_families_of_0_1_are_read_by_their_names_of_today(before: str, now: str) -> None:
    assert Architecture.from_dict({**VIT.to_dict(), "family": before}).family == now


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: VIT.resized(heads=0), "heads must be at least 1, got 0"),
        (lambda: VIT.resized(heads=0, keep="width"), "heads must be at least 1, got 0"),
        (lambda: VIT.resized(depth=-1), "depth must be at least 1, got -1"),
        (lambda: VIT.resized(mlp_dim=1.5), "mlp_dim must be a whole number, got 1.5"),
        (lambda: VIT.resized(heads=True), "heads must be a whole number, got True"),
        (lambda: VIT.resized(heads=10, keep="width"), r"heads=10 do not divide width 768.*use one of \[6, 8, 12, 16\]"),
        (lambda: VIT.resized(heads=8, keep="depth"), "keep must be 'head_dim' .* or 'width'"),
        (lambda: VOLO.resized(depth=3), r"depth must be a list of 2 numbers, one per stage \(now \[8, 4\]\), got 3"),
        (lambda: VOLO.resized(heads=[1, 2, 3]), "heads names 3 stages, volo_d3_224 has 2"),
        (lambda: VIT.resized(depth=7, heads=[12, 16]), "heads is a schedule of 2 layers, but depth is 7"),
        (
            lambda: VIT.resized(mlp_dim=[1, 2]),
            "mlp_dim names 2 stages, .* has 1: .* or 1 number, got",
        ),
        (lambda: VIT.resized(heads=16, head_dim=64, keep="width"), "head_dim and keep='width' contradict each other"),
        (lambda: VIT.resized(heads="12"), "heads must be a whole number, got '12'"),
        (lambda: replace(VIT, stages=()), "at least one stage"),
        (lambda: VIT.with_options(norm=object()), "options must be plain numbers"),
        (lambda: Architecture.from_dict({"family": "vit"}), "lacks 'name', lacks 'stages'"),
        (lambda: Architecture.from_dict({**VIT.to_dict(), "x": 1}), "has an unknown 'x'"),
        (
            lambda: Architecture.from_dict({**VIT.to_dict(), "stages": [{"width": 3}]}),
            "stage 1 must have exactly width, depth, heads, head_dim, mlp_dim; got width",
        ),
    ],
)
def test_errors_say_what_came_and_what_is_needed(change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change()


def test_differences_name_the_stage() -> None:
    other = replace(VIT.resized(heads=16), options={"num_classes": 100})
    assert VIT.differences(VIT) == []
    assert VIT.differences(other) == [
        "stage 1: heads 12 here, 16 there",
        "option num_classes: 10 here, 100 there",
    ]
    assert VIT.differences(other, "in the model", "in the file")[0] == "stage 1: heads 12 in the model, 16 in the file"


def test_one_layer_and_two_layers() -> None:
    assert str(VIT.resized(depth=1, heads=1).stages[0]) == "1 layer of 1 head × 64, width 768, MLP 3072"
    assert str(VIT.resized(depth=2).stages[0]) == "2 layers of 12 heads × 64, width 768, MLP 3072"


def test_json_is_stable() -> None:
    assert json.loads(VIT.to_json()) == {
        "family": "vit",
        "name": "vit_base_patch16_224",
        "options": {"num_classes": 10},
        "stages": [{"width": 768, "depth": 12, "heads": 12, "head_dim": 64, "mlp_dim": 3072}],
    }


@pytest.mark.parametrize("sizes", [dict(keep=[]), dict(keep=None), dict(keep={}), dict(heads=b"4"), dict(width=10**30)])
def test_sizes_that_are_none_are_refused(sizes: dict) -> None:
    stage = Stage(width=8, depth=2, heads=2, head_dim=4, mlp_dim=16)
    with pytest.raises(ValueError, match="must be"):
        Architecture(family="vit", name="x", stages=(stage,)).resized(**{"heads": 2, **sizes})
