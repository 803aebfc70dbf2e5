"""The models that arms begin with when a comparison is one of a trained model: each made of it once, in pretrained/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from leanformer.architecture import Architecture
from leanformer.conditioning.inputs import Inputs
from leanformer.conditioning.probing import Call
from leanformer.data.order import Order, Share
from leanformer.experiments.arms import RANDOM
from leanformer.experiments.recipe import Recipe
from leanformer.inheriting.inherit import check_new_heads, choose_and_transfer, save_inherited, weights_of
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


@dataclass(frozen=True)
class Way:
    """How an arm is made of the trained model."""

    layers: Rule | Sequence[int]
    new_heads: NewHeads

    @classmethod
    def of(cls, recipe: Recipe, arm: str, before: Architecture, after: Architecture) -> Way:
        """As the recipe says for all arms or for this one. An arm of full depth keeps all layers."""
        chosen = {"layers": recipe.layers, "new_heads": recipe.new_heads, **recipe.inheriting.get(arm, {})}
        layers = given_layers(chosen["layers"])
        if after.depth == before.depth:
            return cls("first", check_new_heads(chosen["new_heads"]))
        return cls(cast(Rule, chosen["layers"]) if layers is None else layers, check_new_heads(chosen["new_heads"]))

    @property
    def rule(self) -> Rule:
        return cast(Rule, self.layers if isinstance(self.layers, str) else GIVEN)


def starts_of(recipe: Recipe, data: Data, out: Path, say: Callable[[str], None]) -> dict[str, str]:
    """By arm, the saved model that it begins with; empty if the recipe names no trained model."""
    if not recipe.pretrained:
        return {}
    trained = from_pretrained(recipe.pretrained)
    before, weights = families.describe(trained), weights_of(trained)
    starts: dict[str, str] = {}
    for arm, design in recipe.architectures().items():
        if arm == RANDOM:
            continue
        after = replace(before, stages=design.stages)
        if after.stages == before.stages:
            starts[arm] = recipe.pretrained
            continue
        folder = out / FOLDER / arm
        try:
            way = Way.of(recipe, arm, before, after)
            _check(way, trained, after)
            if not _is_made(folder, after, way, weights):
                say(f"{arm}: taking weights from {recipe.pretrained}")
                _make(folder, recipe.pretrained, trained, after, way, data)
        except ValueError as error:
            raise ValueError(f"{arm} cannot begin with {recipe.pretrained}: {error}") from error
        say(f"{arm}: {'; '.join(Inheritance.read(folder / FILE).sentences()[1:])}")
        starts[arm] = str(folder)
    return starts


def _check(way: Way, trained: nn.Module, after: Architecture) -> None:
    check_inheritable(families.describe(trained), after)
    if not isinstance(way.layers, str):
        check_given(way.layers, stages_of(trained), [stage.depth for stage in after.stages])


def _is_made(folder: Path, after: Architecture, way: Way, weights: str) -> bool:
    """Whether a folder holds the model that is asked for. Its record is written last; another model is refused."""
    if not (folder / FILE).is_file():
        return False
    found = Inheritance.read(folder / FILE)
    asked = (way.rule, way.new_heads, after.stages, weights)
    made = (found.rule, found.new_heads, found.after.stages, found.weights)
    if made != asked or (way.rule == GIVEN and found.layers != way.layers):
        raise ValueError(
            f"{folder} holds a model that was made in another way or of other weights; choose another folder"
        )
    return True


def _make(folder: Path, name: str, trained: nn.Module, after: Architecture, way: Way, data: Data) -> None:
    lean = choose_and_transfer(
        trained, name, after, way.layers, way.new_heads, training_samples(data), seed=0, progress=lambda message: None
    )
    save_inherited(lean, folder, name, report=False, say=lambda message: None)


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
