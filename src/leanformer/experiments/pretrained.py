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
from leanformer.inheriting.sizes import check_inheritable, stage_numbers
from leanformer.models import families
from leanformer.models.names import architecture_of
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


def check_starts(recipe: Recipe) -> None:
    """Raise a `ValueError` if an arm cannot begin with the recipe's trained model; nothing is loaded."""
    if recipe.pretrained:
        before = architecture_of(recipe.pretrained)
        for arm, design in recipe.architectures().items():
            if arm != RANDOM:
                _way(recipe, arm, before, replace(before, stages=design.stages))


def _way(recipe: Recipe, arm: str, before: Architecture, after: Architecture) -> Way:
    """How an arm is made of the trained model, if it can be."""
    try:
        check_inheritable(before, after)
        way = Way.of(recipe, arm, before, after)
        if not isinstance(way.layers, str):
            check_given(way.layers, stage_numbers(before), [stage.depth for stage in after.stages])
    except ValueError as error:
        raise ValueError(f"{arm} cannot begin with {recipe.pretrained}: {error}") from error
    return way


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
        folder, way = out / FOLDER / arm, _way(recipe, arm, before, after)
        if not _is_made(folder, after, way, weights):
            say(f"{arm}: taking weights from {recipe.pretrained}")
            _make(folder, recipe.pretrained, trained, after, way, data)
        say(f"{arm}: {'; '.join(Inheritance.read(folder / FILE).sentences()[1:])}")
        starts[arm] = str(folder.relative_to(out))
    return starts


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
        trained,
        name,
        after,
        way.layers,
        way.new_heads,
        training_samples(data, trained),
        seed=0,
        progress=lambda message: None,
    )
    save_inherited(lean, folder, name, report=False, say=lambda message: None)


def training_samples(data: Data, model: nn.Module, count: int = SAMPLES) -> Inputs:
    """A task's first training samples, as it would call this model with them."""
    size = count if data.size is None else min(count, data.size)
    batch = next(iter(data.batches(Order(seed=0, batch=size, size=data.size), range(1), Share())))

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _Called(Call(args, {name: value for name, value in kwargs.items() if name != "labels"}))

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        data.loss(model, batch)
    except _Called as called:
        return Inputs(called.call, f"{size} training samples of {data.source}")
    finally:
        handle.remove()
    raise ValueError(f"{data.source} never calls its model as model(...), so layers cannot be judged on it")


class _Called(Exception):  # noqa: N818
    """A model was called; it is not run."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
