"""Recipes by name: functions that return a whole comparison's configuration, each with its command, time and score.

To add a recipe, write a function that returns a `Recipe`. Name it by a reference (`package.module:name` or
`file.py:name`), register it with `RECIPES.register("name")`, or list it under the entry-point group
`leanformer.recipes` of your package. The modules here import neither torch nor any model until a recipe is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from leanformer.experiments.recipe import Recipe
from leanformer.foundation.registry import Registry

_FUNCTIONS = {
    "images": ("digits", "fashion-mnist", "cifar10", "images"),
    "language": ("pydoc", "tinystories", "tinystories-paper"),
    "bert": ("crammed-bert", "crammed-bert-paper"),
    "arena": (
        *("listops", "text", "retrieval", "image", "pathfinder"),
        *("listops-paper", "text-paper", "retrieval-paper", "image-paper", "pathfinder-paper"),
    ),
    "farthest": (
        *("farthest", "farthest-deep", "farthest-length", "farthest-dimension"),
        *("farthest-paper", "farthest-length-paper", "farthest-dimension-paper"),
    ),
}
"""Files here, and the recipes whose functions are in each."""
_GENERATED = {
    "glue": ("mnli", "sst2", "stsb", "rte", "qnli", "qqp", "mrpc", "cola"),
    "imagenet": (
        *("vit-base", "deit-base", "xcit-medium", "tnt-base", "volo-d3", "davit-base"),
        *("vit-large", "deit-large", "xcit-large", "volo-d4", "davit-large"),
    ),
}
"""Files here that register one recipe for each row of a table, under the file's name and these."""

RECIPES: Registry[Callable[[], Recipe]] = Registry(
    "recipe",
    group="leanformer.recipes",
    own={
        **{name: f"{__name__}.{file}:{name.replace('-', '_')}" for file, names in _FUNCTIONS.items() for name in names},
        **{f"{file}-{name}": f"{__name__}.{file}" for file, names in _GENERATED.items() for name in names},
    },
)


def names() -> list[str]:
    return RECIPES.names()


def recipe(name: str) -> Recipe:
    """The recipe of that name, or that a reference names."""
    found: Any = RECIPES.get(name)
    made = _called(found, name) if callable(found) else found
    if not isinstance(made, Recipe):
        raise ValueError(f"{name} gives a {type(made).__name__}; needed is a function that returns a leanformer Recipe")
    return made


def _called(found: Callable[..., Any], name: str) -> Any:
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} cannot be called without arguments; needed is a function that returns a Recipe"
        ) from None
    return found()


def as_recipe(given: Recipe | str) -> Recipe:
    return given if isinstance(given, Recipe) else recipe(given)


def description(name: str) -> str:
    """What a recipe says of itself: its command, its time, the score to expect."""
    return inspect.getdoc(RECIPES.get(name)) or ""
