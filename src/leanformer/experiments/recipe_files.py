"""Recipes in YAML files: written with every setting explained, edited by people, read back exactly.

A file holds plain values. Reading it runs no code: a task is named by its registered kind, and code of a user's own
only where the user says that it is trusted (`foundation.registry.resolve`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from leanformer import tasks
from leanformer.experiments.arms import checked_name
from leanformer.experiments.budgets import Budget
from leanformer.experiments.described import explanations, settings_of
from leanformer.experiments.grid import Grid
from leanformer.experiments.judging.stopping_rules import FIRST_LOOK
from leanformer.experiments.recipe import Recipe
from leanformer.foundation.registry import only_here
from leanformer.foundation.yaml_files import YamlFile, as_yaml, read_yaml
from leanformer.models.design_files import design_at, design_text
from leanformer.training.settings import Training

DESIGNS = ("original", "lean")
SIMPLE = (
    *("name", "margin", "arms", "seeds", "max_seeds", "budget", "start"),
    *("pretrained", "layers", "new_heads", "inheriting"),
)
"""Parts of a recipe that are one line each."""


# Writing


def recipe_text(recipe: Recipe, description: str = "") -> str:
    """A recipe in YAML, with an explanation behind every setting."""
    plain = recipe.task.to_dict()
    if only_here(plain["kind"]):
        raise ValueError(f"the task {plain['kind']} exists in this process only, so that no file can name it")
    texts = explanations(Recipe)
    lines = [f"# {line}".rstrip() for line in description.splitlines()]
    lines += [_line(key, _plain(getattr(recipe, key)), texts.get(key, "")) for key in SIMPLE]
    for section, values in (("task", plain), ("training", recipe.training.to_dict())):
        said = {setting.name: setting.explanation for setting in settings_of(recipe)}
        lines += [f"{section}:"]
        lines += [_line(key, value, said.get(f"{section}.{key}", ""), "  ") for key, value in values.items()]
    for key in DESIGNS:
        lines += [f"{key}:  # {texts[key]}", design_text(getattr(recipe, key), "  ").rstrip("\n")]
    lines += [f"others:  # {texts['others']}" if recipe.others else _line("others", {}, texts["others"])]
    for arm, design in recipe.others.items():
        lines += [f"  {as_yaml(arm)}:", design_text(design, "    ").rstrip("\n")]
    return "\n".join([*lines, *_grid_lines(recipe.grid, texts["grid"])]) + "\n"


def _grid_lines(grid: Grid | None, text: str) -> list[str]:
    if grid is None:
        return [_line("grid", None, text)]
    axes = [f"    {as_yaml(name)}: {as_yaml(list(values))}" for name, values in grid.axes.items()]
    said = explanations(Grid)["equal_params"]
    return [f"grid:  # {text}", "  axes:", *axes, _line("equal_params", grid.equal_params, said, "  ")]


def _line(key: str, value: Any, text: str, indent: str = "") -> str:
    return f"{indent}{key}: {as_yaml(_plain(value))}" + (f"  # {text}" if text else "")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# Reading


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a YAML file. What is wrong with it is said with its line."""
    file = read_yaml(path)
    known = [item.name for item in fields(Recipe)]
    needed = [item.name for item in fields(Recipe) if item.default is MISSING and item.default_factory is MISSING]
    if "stages" in file.value:
        raise file.wrong("this is a design; needed is a recipe, which has a task, a training, an original and a lean")
    _check_keys(file, file.value, known, needed, "a recipe")
    parts: dict[str, Any] = {key: value for key, value in file.value.items() if key in SIMPLE}
    _check_simple(file, parts)
    parts |= {key: design_at(file, key) for key in DESIGNS}
    parts["training"] = _located(file, Training.from_dict, "training")
    parts["task"] = _located(file, tasks.read, "task")
    others = _mapping(file, "others") if file.value.get("others") else {}
    parts["others"] = {_arm(file, name): design_at(file, "others", name) for name in others}
    parts["arms"] = tuple(parts.get("arms", Recipe.arms))
    parts["grid"] = _grid(file) if file.value.get("grid") is not None else None
    recipe = Recipe(**parts)
    try:
        recipe.architectures()
    except ValueError as error:
        raise file.wrong(str(error), "arms") from error
    return recipe


def _check_keys(
    file: YamlFile, given: Mapping[Any, Any], known: list[str], needed: list[str], what: str, *place: Hashable
) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            raise file.wrong(f"{what} has no {key}: {hint}", *place, key)
    if missing := [key for key in needed if key not in given]:
        raise file.wrong(f"{what} needs {', '.join(missing)}", *place)


def _check_simple(file: YamlFile, parts: Mapping[str, Any]) -> None:
    def is_number(value: Any, kinds: type | tuple[type, ...]) -> bool:
        return isinstance(value, kinds) and not isinstance(value, bool)

    def is_name(value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(r"\w[\w.+-]{0,99}", value) is not None

    def is_budget(value: Any) -> bool:
        try:
            return isinstance(value, str) and bool(Budget.parse(value))
        except ValueError:
            return False

    rules = {
        "name": ("up to 100 letters, digits and . _ + -, since it names a folder", is_name),
        "margin": (
            "a number of at least 0",
            lambda value: is_number(value, (int, float)) and 0 <= value < float("inf"),
        ),
        "seeds": ("a whole number of at least 1", lambda value: is_number(value, int) and value >= 1),
        "max_seeds": (
            "a whole number of at least 4, or nothing",
            lambda value: value is None or (is_number(value, int) and value >= FIRST_LOOK),
        ),
        "arms": (
            "a list of names",
            lambda value: isinstance(value, list) and all(isinstance(arm, str) for arm in value),
        ),
        "budget": ('steps, epochs, tokens, flops or time, alone or as in "time=10m"', is_budget),
        "start": ("a folder, or empty", lambda value: isinstance(value, str)),
        "pretrained": ("a folder, or empty", lambda value: isinstance(value, str)),
        "layers": ("influence, ablation, greedy, first, even or numbers", lambda value: isinstance(value, str)),
        "new_heads": ("fresh or copied", lambda value: value in ("fresh", "copied")),
        "inheriting": ("layers and new_heads by arm, as in {first: {layers: first}}", _are_ways),
    }
    for key, value in parts.items():
        rule, holds = rules[key]
        if not holds(value):
            raise file.wrong(f"{key} must be {rule}, got {value!r}", key)


def _are_ways(value: Any) -> bool:
    """Whether a value says for arms how they are made of a trained model."""

    def are_texts(ways: Any) -> bool:
        return isinstance(ways, dict) and ways.keys() <= {"layers", "new_heads"} and all(map(is_text, ways.values()))

    def is_text(way: Any) -> bool:
        return isinstance(way, str)

    return isinstance(value, dict) and all(map(are_texts, value.values()))


def _mapping(file: YamlFile, key: str) -> dict[Any, Any]:
    found = file.value[key]
    if not isinstance(found, dict):
        raise file.wrong(f"{key} must be settings by name, got {found!r}", key)
    return found


def _located(file: YamlFile, read: Callable[[dict[Any, Any]], Any], key: str) -> Any:
    plain = _mapping(file, key)
    try:
        return read(plain)
    except ValueError as error:
        raise file.wrong_setting(error, key, usual="kind") from error


def _arm(file: YamlFile, name: Any) -> str:
    try:
        return checked_name(name)
    except ValueError as error:
        raise file.wrong(str(error), "others", name) from error


def _grid(file: YamlFile) -> Grid:
    plain = _mapping(file, "grid")
    _check_keys(file, plain, ["axes", "equal_params"], ["axes"], "a grid", "grid")
    axes, equal = plain["axes"], plain.get("equal_params", False)
    if not isinstance(axes, dict):
        raise file.wrong(f"axes must be lists of values by name, got {axes!r}", "grid", "axes")
    for name, values in axes.items():
        if not isinstance(values, list):
            raise file.wrong(f"the axis {name} must be a list of values, got {values!r}", "grid", "axes", name)
    if not isinstance(equal, bool):
        raise file.wrong(f"equal_params must be true or false, got {equal!r}", "grid", "equal_params")
    try:
        return Grid(axes={str(name): tuple(values) for name, values in axes.items()}, equal_params=equal)
    except ValueError as error:
        raise file.wrong(str(error), "grid", "axes") from error
