"""A recipe: one task, the models to compare on it, and how they are trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leanformer.architecture import Architecture
from leanformer.experiments.arms import COMPUTED, LEAN, ORIGINAL, SHALLOW, USUAL, Arm
from leanformer.experiments.grid import Grid
from leanformer.training.settings import Training

if TYPE_CHECKING:
    from leanformer.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What `leanformer compare` runs."""

    name: str
    """What reports and folders call it."""
    task: Task
    """What is learned; also a function that returns a task, or a reference to one."""
    original: Architecture
    """The model that others are compared with."""
    lean: Architecture
    """The leaner design."""
    training: Training
    """How every arm is trained."""
    margin: float
    """By how much a model may be worse and still hold, in the metric's units."""
    arms: tuple[str, ...] = (ORIGINAL, LEAN, SHALLOW)
    """Of original, lean, shallow (lean's depth, original's layers) and wide (original's depth, lean's layers)."""
    seeds: int = 3
    """How many seeds each arm is trained with."""
    max_seeds: int | None = None
    """If given, seeds are added at planned looks until the verdict is decided, up to so many, in place of `seeds`."""
    others: Mapping[str, Architecture] = field(default_factory=dict)
    """More arms, by name."""
    budget: str = "steps"
    """What is held equal between arms."""
    start: str = ""
    """A comparison whose trained models these begin with, arm by arm and seed by seed."""
    pretrained: str = ""
    """A trained model that all arms but `random` begin with, each with the layers and heads that it has."""
    layers: str = "influence"
    """Which of its layers shallower arms keep; as for `lf.inherit`."""
    new_heads: str = "fresh"
    """What new heads begin with, fresh or copied."""
    inheriting: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Arms with a choice of layers or of new heads of their own, by name."""
    grid: Grid | None = None
    """What `leanformer sweep` varies."""

    def __post_init__(self) -> None:
        if isinstance(self.task, str) or callable(self.task):
            from leanformer.tasks import as_task

            object.__setattr__(self, "task", as_task(self.task))

    def arm(self, name: str) -> Arm:
        if name in self.others:
            return Arm(name, self.others[name])
        if name in COMPUTED:
            return Arm(name, COMPUTED[name](self.original, self.lean))
        if name in (ORIGINAL, LEAN):
            return Arm(name, self.original if name == ORIGINAL else self.lean)
        known = ", ".join((*USUAL, *self.others))
        raise ValueError(f'there is no arm "{name}": the arms are {known}, and a recipe may have others')

    def architecture(self, arm: str) -> Architecture:
        return self.arm(arm).architecture

    def architectures(self) -> dict[str, Architecture]:
        return {arm: self.architecture(arm) for arm in self.arms}

    def fitted(self, options: Mapping[str, Any]) -> Recipe:
        """With the options that the data need, such as classes and vocabulary, where the models do not give them."""

        def fit(design: Architecture) -> Architecture:
            return design.with_options(**{key: value for key, value in options.items() if key not in design.options})

        others = {arm: fit(design) for arm, design in self.others.items()}
        training = self.training
        if training.parametrization == "completep" and training.base_depth is None:
            training = replace(training, base_depth=self.original.depth)
        return replace(self, original=fit(self.original), lean=fit(self.lean), others=others, training=training)
