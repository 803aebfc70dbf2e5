"""The models that arms begin with when a comparison is one of a trained model: each made of it once, in pretrained/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from torch import nn

from leanformer.architecture import Architecture
from leanformer.conditioning.inputs import Inputs
from leanformer.conditioning.probing import Call
from leanformer.data.order import Order, Share
from leanformer.experiments.arms import RANDOM
from leanformer.experiments.recipe import Recipe
from leanformer.inheriting.inherit import choose_and_transfer, save_inherited
from leanformer.inheriting.places import NewHeads
from leanformer.inheriting.record import FILE, GIVEN, Inheritance, Rule
from leanformer.inheriting.selection import check_given, given_layers
from leanformer.inheriting.sizes import check_inheritable
from leanformer.inheriting.units import stages_of
from leanformer.models import families
from leanformer.models.weights import from_pretrained
from leanformer.tasks.base import Data

FOLDER = "pretrained"
SAMPLES = 16
"""Training samples on which layers are judged."""


def starts_of(recipe: Recipe, data: Data, out: Path, say: Callable[[str], None]) -> dict[str, str]:
    """By arm, the saved model that it begins with; empty if the recipe names no trained model."""
    if not recipe.pretrained:
        return {}
    trained = from_pretrained(recipe.pretrained)
    before = families.describe(trained)
    starts: dict[str, str] = {}
    for arm, design in recipe.architectures().items():
        if arm == RANDOM:
            continue
        after = Architecture(family=before.family, name=before.name, stages=design.stages, options=before.options)
        if after.stages == before.stages:
            starts[arm] = recipe.pretrained
            continue
        folder = out / FOLDER / arm
        try:
            check_inheritable(before, after)
            if not _is_made(folder, recipe, after):
                say(f"{arm}: taking weights from {recipe.pretrained}")
                _make(folder, recipe, trained, after, data)
        except ValueError as error:
            raise ValueError(f"{arm} cannot begin with {recipe.pretrained}: {error}") from error
        say(f"{arm}: {'; '.join(Inheritance.read(folder / FILE).sentences()[1:])}")
        starts[arm] = str(folder)
    return starts


def _is_made(folder: Path, recipe: Recipe, after: Architecture) -> bool:
    """Whether a folder holds the model that the recipe asks for; its record is written last."""
    if not (folder / FILE).is_file():
        return False
    found = Inheritance.read(folder / FILE)
    rule = _rule(recipe, found.before, after)
    asked = (recipe.pretrained, rule or GIVEN, recipe.new_heads, after.stages)
    made = (found.model, found.rule, found.new_heads, found.after.stages)
    return made == asked and (rule is not None or found.layers == given_layers(recipe.layers))


def _rule(recipe: Recipe, before: Architecture, after: Architecture) -> Rule | None:
    """By which rule an arm keeps layers; None if they are named by hand. An arm of full depth keeps all."""
    if after.depth == before.depth:
        return "first"
    return cast(Rule, recipe.layers) if given_layers(recipe.layers) is None else None


def _make(folder: Path, recipe: Recipe, trained: nn.Module, after: Architecture, data: Data) -> None:
    before, layers = families.describe(trained), given_layers(recipe.layers)
    rule = _rule(recipe, before, after)
    if rule is None:
        check_given(layers or [], stages_of(trained), [stage.depth for stage in after.stages])
    lean = choose_and_transfer(
        trained,
        recipe.pretrained,
        after,
        rule or layers or [],
        cast(NewHeads, recipe.new_heads),
        training_samples(data),
        seed=0,
        progress=lambda message: None,
    )
    save_inherited(lean, folder, recipe.pretrained, report=False, say=lambda message: None)


def training_samples(data: Data, count: int = SAMPLES) -> Inputs:
    """A task's first training samples, as its models get them."""
    size = count if data.size is None else min(count, data.size)
    batch = next(iter(data.batches(Order(seed=0, batch=size, size=data.size), range(1), Share())))
    seen = _Seen()
    try:
        data.loss(seen, batch)
    except _Called as called:
        kwargs = {name: value for name, value in called.call.kwargs.items() if name != "labels"}
        return Inputs(Call(called.call.args, kwargs), f"{size} training samples of {data.source}")
    raise ValueError(f"{data.source} never calls its model, so layers cannot be judged on it")


class _Called(Exception):  # noqa: N818
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


class _Seen(nn.Module):
    """Stands in for a model, to learn what a task calls it with."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise _Called(Call(args, kwargs))
