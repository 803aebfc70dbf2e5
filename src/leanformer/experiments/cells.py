"""The points of a sweep's grid: the design of each, and the recipes that train them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from leanformer import models, tasks
from leanformer.architecture import KEEPS, Architecture
from leanformer.costs.closed_forms import formula
from leanformer.experiments.grid import Grid
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.sweep_records import LeftOut
from leanformer.training.settings import Training


@dataclass(frozen=True)
class Cell:
    """One point of the grid: what was chosen on every axis, and the design that this is."""

    values: Mapping[str, Any]
    design: Architecture

    @property
    def arm(self) -> str:
        """One name for one design, however it is reached."""
        (stage,) = self.design.stages
        return f"depth-{stage.depth}_heads-{stage.heads}x{stage.head_dim}_width-{stage.width}_mlp-{stage.mlp_dim}"

    @property
    def each(self) -> dict[str, Any]:
        """The values by single names."""
        return {name: value for names, value in self.values.items() for name in names.split("+")}

    @property
    def settings(self) -> dict[str, Any]:
        """Those that are settings, not sizes: task.points, training.lr, …"""
        return {name: value for name, value in sorted(self.each.items()) if "." in name}

    @property
    def place(self) -> str:
        """The folder of its comparison inside the sweep's."""
        return "_".join(f"{name}-{quote(str(value), safe='+')}" for name, value in self.settings.items())


def cells(
    recipe: Recipe, grid: Grid, wanted: Sequence[Mapping[str, Any]] | None = None
) -> tuple[list[Cell], list[LeftOut]]:
    """The grid's designs; and the combinations that cannot be built, each with the reason.

    `wanted` names the combinations of the axes' values that count; all of them by default.
    """
    found: list[Cell] = []
    left_out = []
    for chosen in itertools.product(*grid.axes.values()):
        values = dict(zip(grid.axes, chosen, strict=True))
        if wanted is not None and values not in wanted:
            continue
        try:
            found.append(Cell(values, _design(recipe, grid, Cell(values, recipe.original).each)))
        except ValueError as error:
            left_out.append(LeftOut(values=values, why=str(error)))
    if not found:
        raise ValueError(f"no design of this grid can be built: {left_out[0].why}")
    return found, left_out


def _design(recipe: Recipe, grid: Grid, each: Mapping[str, Any]) -> Architecture:
    base = widened(recipe.original, each["width"]) if "width" in each else recipe.original
    base = base.resized(depth=each.get("depth"))
    regime = each.get("regime", "split" if "groups" in each else "fixed")
    design = base.resized(heads=each.get("heads"), keep=KEEPS[regime])
    design = design.resized(head_dim=each.get("head_dim"), mlp_dim=each.get("mlp_dim"))
    if "groups" in each:
        design = design.resized(heads=each["groups"] * design.stages[0].heads)
    if grid.equal_params:
        design = with_equal_params(design, base)
    return models.family(design.family).canonical(design)


def widened(base: Architecture, width: int) -> Architecture:
    """Another width, split between as many heads."""
    return base.resized(width=width, heads=base.stages[0].heads, keep="width")


def with_equal_params(design: Architecture, base: Architecture) -> Architecture:
    """The design with that MLP which brings its parameters nearest to the base's."""
    closed, mlp = formula(base), design.stages[0].mlp_dim
    whole, more = (closed.parameters(design.resized(mlp_dim=size)).total for size in (mlp, mlp + 2))
    over = whole - closed.parameters(base).total
    size = mlp - round(2 * over / (more - whole))
    if size < 1:
        stage = design.stages[0]
        raise ValueError(f"{stage.heads} heads of {stage.head_dim} alone have more parameters than the whole original")
    try:
        return models.family(design.family).canonical(design.resized(mlp_dim=size))
    except ValueError:  # a gated MLP is even
        return design.resized(mlp_dim=size + 1)


def recipes_of(recipe: Recipe, found: Sequence[Cell]) -> dict[str, Recipe]:
    """For every choice of settings, the recipe whose arms are its designs. What does not fit is reported here."""
    made = {}
    for place in dict.fromkeys(cell.place for cell in found):
        made[place] = _recipe_at(recipe, [cell for cell in found if cell.place == place])
        fitted = made[place].fitted(tasks.load(made[place].task).options)
        for design in fitted.others.values():
            models.family(design.family).canonical(design)
    return made


def _recipe_at(recipe: Recipe, here: Sequence[Cell]) -> Recipe:
    changes: dict[str, dict[str, Any]] = {"task": {}, "training": {}}
    for name, value in here[0].settings.items():
        where, _, key = name.partition(".")
        changes[where][key] = value
    original = recipe.original
    for names, value in here[0].values.items():
        if "." in names and "width" in names.split("+"):
            original = widened(original, value)
    return replace(
        recipe,
        max_seeds=None,  # a grid has no single verdict to decide
        task=tasks.read({**recipe.task.to_dict(), **changes["task"]}) if changes["task"] else recipe.task,
        training=Training.from_dict({**recipe.training.to_dict(), **changes["training"]}),
        original=original,
        lean=recipe.lean if original == recipe.original else original,
        others={cell.arm: cell.design for cell in here},
        arms=(),
    )
