"""What a recipe consists of, for people: its designs, and every setting that can be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from leanformer.experiments.described import Setting, settings_of
from leanformer.experiments.recipe import Recipe
from leanformer.foundation.formats import joined
from leanformer.foundation.yaml_files import as_yaml
from leanformer.report.tables import terminal


def lines(recipe: Recipe) -> list[str]:
    """The designs, and what is done with them."""
    designs = {"original": recipe.original, "lean": recipe.lean, **recipe.others}
    told = [f"{name}: {design}" for name, design in designs.items()]
    arms = joined([*recipe.arms, *recipe.others], ", ")
    seeds = f"{recipe.seeds} seeds" if recipe.max_seeds is None else f"until decided, up to {recipe.max_seeds} seeds"
    return [*told, f"arms {arms}; {seeds}; margin {recipe.margin:g}; budget {recipe.budget}"]


def table(recipe: Recipe) -> Table:
    """Every setting with its value, its type and its explanation. Values are written as they are typed."""
    rows = [[setting.name, typed(setting.value), setting.type, setting.explanation] for setting in settings_of(recipe)]
    return terminal("", ["setting", "value", "type", "what it is"], rows, left=4)


def plain(recipe: Recipe, description: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": recipe.name,
        "description": description,
        "original": recipe.original.to_dict(),
        "lean": recipe.lean.to_dict(),
        "others": {name: design.to_dict() for name, design in recipe.others.items()},
        "arms": list(recipe.arms),
        "seeds": recipe.seeds,
        "max_seeds": recipe.max_seeds,
        "margin": recipe.margin,
        "budget": recipe.budget,
        "task": recipe.task.to_dict()["kind"],
        "settings": [_setting(setting) for setting in settings_of(recipe)],
    }


def _setting(setting: Setting) -> Mapping[str, Any]:
    return {key: getattr(setting, key) for key in ("name", "value", "type", "explanation")}


def typed(value: Any) -> str:
    """A value as a person types it."""
    return as_yaml(list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value)
