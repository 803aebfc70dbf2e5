"""Arms of one's own: designs, functions of sizes, functions without arguments, sizes alone."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leanformer.experiments.own_loop.arms import arms_of
from support.architectures import SMALL
from support.own_loop import Tiny

DEEP, SHORT = dict(depth=4, heads=2), dict(depth=2, heads=4)


def test_sizes_of_a_function_give_the_two_by_two() -> None:
    arms = arms_of(DEEP, "depth=2,heads=4", Tiny, ["original", "lean", "shallow", "wide"])
    assert {name: arm.sizes for name, arm in arms.items()} == {
        "original": dict(depth=4, heads=2),
        "lean": dict(depth=2, heads=4),
        "shallow": dict(depth=2, heads=2),
        "wide": dict(depth=4, heads=4),
    }
    assert len(arms["shallow"].build(0).layers.layers) == 2
    assert list(arms_of(DEEP, SHORT, Tiny)) == ["original", "lean", "shallow"]
    assert list(arms_of(dict(heads=1), dict(heads=2), lambda heads: Tiny(1, heads))) == ["original", "lean"]


def test_designs_are_changed_and_crossed() -> None:
    original = SMALL["gpt2"]
    arms = arms_of(original, "depth=1,heads=8,regime=split", None, None, {"narrow": dict(mlp_dim=8)})
    assert {name: (arm.architecture.depth, arm.architecture.stages[0].heads) for name, arm in arms.items()} == {
        "original": (2, 4),
        "lean": (1, 8),
        "shallow": (1, 4),
        "narrow": (2, 4),
    }
    assert arms["narrow"].architecture.stages[0].mlp_dim == 8
    by_model = arms_of("depth=1", original.resized(depth=3), original, ["original", "lean"])
    assert [arm.architecture.depth for arm in by_model.values()] == [1, 3]
    assert arms_of(None, None, original)["lean"].architecture.depth == 1, "what lf.design recommends"
    mixed = arms_of(original, lambda: Tiny(1, 2))
    assert list(mixed) == ["original", "lean"]
    assert isinstance(mixed["lean"].build(0), Tiny)


def test_weights_are_a_function_of_the_seed_and_of_nothing_else() -> None:
    arm = arms_of(lambda: Tiny(2, 2), lambda: Tiny(1, 2))["original"]
    first = arm.build(3).state_dict()
    torch.manual_seed(99)
    np.random.seed(99)
    again, other = arm.build(3).state_dict(), arm.build(4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embed.weight"], other["embed.weight"])
    torch.manual_seed(3)
    assert torch.equal(Tiny(2, 2).embed.weight, first["embed.weight"]), "as torch.manual_seed gives them"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(original=Tiny(1, 1), lean=None), "original is a model, but every run needs a fresh one: give a function"),
        (dict(original=lambda: Tiny(1, 1), lean=None), "lean must be given: a design, sizes, or a function"),
        (dict(original=None, lean=None), "original must be given"),
        (
            dict(original=3, lean=4),
            "original must be a design, a model's name, or a function that makes the model, got 3",
        ),
        (
            dict(original=DEEP, lean=dict(width=2), model=Tiny),
            "lean: the function that makes the model cannot be given",
        ),
        (
            dict(original=DEEP, lean="heads", model=Tiny),
            'sizes are given as in "depth=4,heads=8,mlp_dim=128", got "heads"',
        ),
        (dict(original=DEEP, lean=dict(depth=nn), model=Tiny), "the size depth must be a number or a text"),
        (dict(original=DEEP, lean={}, model=Tiny), "sizes are given as in"),
        (
            dict(original=DEEP, lean=SHORT, model=Tiny, names=["fat"]),
            'there is no arm "fat": the arms are original, lean',
        ),
        (dict(original=Tiny, lean=Tiny, names=["wide"]), "the arm wide cannot be made from functions of no arguments"),
        (dict(original=DEEP, lean=SHORT, model=Tiny, names=[]), "arms must name at least one arm"),
        (dict(original=DEEP, lean=SHORT, model=Tiny, others={"lean": DEEP}), "arm gives lean again"),
        (dict(original=DEEP, lean=SHORT, model=Tiny, others={"../x": DEEP}), "an arm's name is up to 100 letters"),
        (dict(original="no_such_model", lean="depth=1"), "unknown model 'no_such_model'"),
        (dict(original=SMALL["gpt2"], lean="layers=1"), "a model has no size layers"),
    ],
)
def test_what_cannot_be_an_arm_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        arms_of(**given)
