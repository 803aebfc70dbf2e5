"""Recipes by name: functions that return a whole comparison's configuration, each with its command, time and score.

To add a recipe, write a function that returns a `Recipe`. Name it by a reference (`package.module:name` or
`file.py:name`), register it with `RECIPES.register("name")`, or list it under the entry-point group
`leanformer.recipes` of your package. The modules here import neither torch nor any model until a recipe is called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from leanformer.experiments.recipe import Recipe
from leanformer.foundation.records.base import shortened
from leanformer.foundation.registry import Registry, absolute, in_one_line, reference_to
from leanformer.foundation.yaml_files import is_yaml

_FUNCTIONS = {
    "images": ("digits", "fashion-mnist", "cifar10", "cifar10-small", "images"),
    "language": ("pydoc", "pycode", "tinystories", "tinystories-paper"),
    "large": ("decoder-1b",),
    "texts": ("texts", "texts-masked", "classify"),
    "bert": ("crammed-bert", "crammed-bert-paper"),
    "arena": (
        *("listops", "listops-short", "text", "text-short", "retrieval", "image", "pathfinder"),
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
    """The recipe of that name, that a reference names, or that a YAML file holds."""
    if is_yaml(name):
        from leanformer.experiments.recipe_files import read_recipe

        return read_recipe(name)
    return _made(RECIPES.get(name), name)


def _made(found: Any, name: str) -> Recipe:
    """A recipe, from the function that makes it if it is one. A task that only the recipe holds is found through it."""
    made = _called(found, name) if callable(found) else found
    if not isinstance(made, Recipe):
        raise ValueError(f"{name} gives {shortened(made)}; needed is a function that returns a leanformer Recipe")
    from leanformer.tasks.own import OwnTask, as_task, made_by

    if not isinstance(made.task, OwnTask):
        return made
    reference = absolute(name) if ":" in name else reference_to(found)
    return replace(made, task=made_by(found, reference, made.task) if callable(found) else as_task(made, reference))


def _called(found: Callable[..., Any], name: str) -> Any:
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} cannot be called without arguments; needed is a function that returns a Recipe, or a function of "
            "model, seed and folder that trains a model and returns its score"
        ) from None
    try:
        return found()
    except Exception as error:
        file = getattr(sys.modules.get(found.__module__), "__file__", None)
        raise ValueError(f"{name} fails: {in_one_line(error, file and Path(file))}") from error


def as_recipe(given: Recipe | str | Path | Callable[[], Recipe]) -> Recipe:
    """A recipe from what stands for one: a name, a reference, a YAML file, or a function that returns one."""
    if isinstance(given, Recipe):
        return given
    return _made(given, given.__qualname__) if callable(given) else recipe(str(given))


def description(name: str) -> str:
    """What a recipe says of itself: its command, its time, the score to expect."""
    return f"The recipe in {name}." if is_yaml(name) else inspect.getdoc(RECIPES.get(name)) or ""
