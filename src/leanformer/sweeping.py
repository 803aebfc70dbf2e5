"""Grids: every combination of sizes and settings, each with every seed, and how the score changes along them.

A sweep is a folder of comparisons, one for each combination of settings (data, training), whose arms are the designs
of the grid. So it is resumable and parallel as they are, and grows by giving more values or seeds. May import
comparison and the rooms that it stands on.
"""

from __future__ import annotations

import itertools
import json
import statistics as plain_statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leanformer import tasks
from leanformer.architecture import Architecture, Keep
from leanformer.checkpoint import write_whole
from leanformer.comparison import Listener, Planned, compare, folder_of
from leanformer.cost import formula
from leanformer.processes import is_first
from leanformer.ranks import query_key_ranks
from leanformer.recipe import Grid, Recipe
from leanformer.records import circumstances, plain
from leanformer.statistics import paired
from leanformer.weights import from_pretrained

KEEPS: Mapping[str, Keep] = {"fixed": "head_dim", "split": "width"}


@dataclass(frozen=True)
class Cell:
    """One point of the grid: what was chosen on every axis, and the design that this is."""

    values: Mapping[str, Any]
    design: Architecture
    settings: Mapping[str, Any]
    """Those of its axes that are no sizes: task.points, training.lr, …"""

    @property
    def arm(self) -> str:
        (stage,) = self.design.stages
        return f"depth-{stage.depth}_heads-{stage.heads}x{stage.head_dim}_width-{stage.width}_mlp-{stage.mlp_dim}"

    @property
    def place(self) -> str:
        """The folder of its comparison inside the sweep's."""
        return "_".join(f"{name}-{value}" for name, value in self.settings.items())


def cells(recipe: Recipe, grid: Grid) -> tuple[list[Cell], list[dict[str, Any]]]:
    """The grid's designs; and the combinations that cannot be built, each with the reason."""
    found: list[Cell] = []
    left_out = []
    for chosen in itertools.product(*grid.axes.values()):
        values = dict(zip(grid.axes, chosen, strict=True))
        try:
            found.append(_cell(recipe, grid, values))
        except ValueError as error:
            left_out.append({"values": values, "why": str(error)})
    if not found:
        raise ValueError(f"no design of this grid can be built: {left_out[0]['why']}")
    return found, left_out


def _cell(recipe: Recipe, grid: Grid, values: Mapping[str, Any]) -> Cell:
    each = {name: value for names, value in values.items() for name in names.split("+")}
    settings = {name: value for name, value in each.items() if "." in name}
    base = recipe.original
    if "width" in each:
        base = base.with_width(each["width"]).with_head_dim(each["width"] // base.stages[0].heads)
    if "depth" in each:
        base = base.with_depth(each["depth"])
    design = base
    if "heads" in each:
        design = design.with_heads(each["heads"], KEEPS[each.get("regime", "fixed")])
    if "head_dim" in each:
        design = design.with_head_dim(each["head_dim"])
    if "groups" in each:
        design = design.with_heads(each["groups"] * design.stages[0].heads)
    if "mlp_dim" in each:
        design = design.with_mlp(each["mlp_dim"])
    if grid.equal_params:
        design = with_equal_params(design, base)
    return Cell(values, design, settings)


def with_equal_params(design: Architecture, base: Architecture) -> Architecture:
    """The design with that MLP which brings its parameters nearest to the base's."""
    closed, mlp = formula(base), design.stages[0].mlp_dim
    whole, per_unit = (closed.parameters(design.with_mlp(size)).total for size in (mlp, mlp + 1))
    over = whole - closed.parameters(base).total
    size = mlp - round(over / (per_unit - whole))
    if size < 1:
        stage = design.stages[0]
        raise ValueError(f"{stage.heads} heads of {stage.head_dim} alone have more parameters than the whole original")
    return design.with_mlp(size)


def sweep(
    recipe: Recipe | str,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    equal_params: bool | None = None,
    out: str | Path | None = None,
    seeds: int | Sequence[int] | None = None,
    jobs: int | None = None,
    say: Callable[[str], None] = lambda message: None,
    planned: Planned = lambda plan, runs: None,
    listen: Listener = lambda arm, seed, event: None,
) -> dict[str, Any]:
    """Train every design of a grid with every seed; returns the record that sweep.json keeps.

    >>> record = lf.sweep("digits", vary={"heads": [1, 2, 4, 8], "regime": ["fixed", "split"]})

    Args:
        recipe: a recipe or the name of one; its original is what the grid changes.
        vary: the axes, in order: along the first the score is drawn, one line for each value of the second, a panel for
            each value of the others. Names are depth, heads, head_dim, mlp_dim, width, groups (of heads that fill the
            width), regime (fixed or split), "task.NAME" and "training.NAME"; "task.dim+width" changes two together.
            The recipe's own by default.
        equal_params: whether every design gets the MLP that makes it as large as the original of its depth.
        out: the sweep's folder [default: runs/sweep-RECIPE].
        seeds, jobs, say, planned, listen: as for `compare`.
    """
    if isinstance(recipe, str):
        from leanformer.recipes import recipe as named

        recipe = named(recipe)
    grid = recipe.grid or Grid(axes={})
    grid = Grid(
        axes={name: tuple(values) for name, values in (grid.axes if vary is None else vary).items()},
        equal_params=grid.equal_params if equal_params is None else equal_params,
    )
    if not grid.axes:
        raise ValueError(f'the recipe {recipe.name} names nothing to vary: give --vary "heads=1,2,4,8"')
    if len(recipe.original.stages) > 1:
        raise ValueError(f"sweeps take models of one stage; {recipe.original.name} has {len(recipe.original.stages)}")
    found, left_out = cells(recipe, grid)
    out = Path(out) if out is not None else Path("runs") / f"sweep-{recipe.name}"
    for skipped in left_out:
        say(f"left out: {label(skipped['values'])}: {skipped['why']}")
    records = {}
    for place in dict.fromkeys(cell.place for cell in found):
        here = {cell.arm: cell for cell in found if cell.place == place}
        records[place] = compare(
            _of_place(recipe, here),
            out=out / place,
            seeds=seeds,
            jobs=jobs,
            say=say,
            planned=planned,
            listen=listen,
        )
    record = _record(recipe, grid, found, left_out, records, out)
    if is_first():
        write_record(record, out)
    return record


def _of_place(recipe: Recipe, here: Mapping[str, Cell]) -> Recipe:
    """The recipe whose arms are the designs that share one choice of settings."""
    settings = next(iter(here.values())).settings
    rooms: dict[str, dict[str, Any]] = {"task": {}, "training": {}}
    for name, value in settings.items():
        room, _, key = name.partition(".")
        if room not in rooms:
            raise ValueError(f'there is no axis "{name}"; settings are "task.NAME" or "training.NAME"')
        rooms[room][key] = value
    designs = {arm: cell.design for arm, cell in here.items()}
    first = next(iter(designs.values()))
    return replace(
        recipe,
        task=tasks.read({**recipe.task.to_dict(), **rooms["task"]}),
        training=replace(recipe.training, **rooms["training"]),
        original=first if settings else recipe.original,
        lean=first if settings else recipe.lean,
        others=designs,
        arms=(),
    )


# The record


def label(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _record(
    recipe: Recipe,
    grid: Grid,
    found: Sequence[Cell],
    left_out: Sequence[Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    out: Path,
) -> dict[str, Any]:
    first = next(iter(records.values()))
    rows = [
        {
            "values": dict(cell.values),
            **records[cell.place]["arms"][cell.arm],
            "effective_rank": _effective_rank(out / cell.place, cell.arm, records[cell.place]),
            "baselines": records[cell.place]["baselines"],
            "difference": None,
        }
        for cell in found
    ]
    for row in rows:
        row["difference"] = _difference(recipe, row, rows, grid, first["metric"])
    return {
        "kind": "sweep",
        "name": recipe.name,
        "axes": {name: list(values) for name, values in grid.axes.items()},
        "equal_params": grid.equal_params,
        "seeds": first["seeds"],
        "metric": first["metric"],
        "sources": sorted({record["source"] for record in records.values()}),
        "cells": rows,
        "left_out": list(left_out),
        "failures": {key: text for record in records.values() for key, text in record["failures"].items()},
        "task": recipe.task.to_dict(),
        "training": first["training"],
        "original": recipe.original.to_dict(),
        **circumstances(),
    }


def _difference(
    recipe: Recipe, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], grid: Grid, metric: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Against the design with the original's heads that agrees in all but the first axis: paired by seed."""
    first, *others = grid.axes
    usual = recipe.original.stages[0].heads if first == "heads" else None
    for other in rows:
        same = all(other["values"][name] == row["values"][name] for name in others)
        if same and other is not row and other["values"][first] == usual:
            sign = 1 if metric["higher_is_better"] else -1
            found = paired(row["scores"], other["scores"], sign, metric.get("resolution", 0.0))
            return asdict(found) if found else None
    return None


def _effective_rank(folder: Path, arm: str, record: Mapping[str, Any]) -> float | None:
    """Of W_Q W_Kᵀ, after training: the median over heads, layers and seeds."""
    models = [folder_of(folder, arm, seed) / "model" for seed in record["seeds"]]
    ranks = [
        rank
        for model in models
        if model.is_dir()
        for layer in query_key_ranks(from_pretrained(str(model)))
        for rank in layer["effective_rank"]
    ]
    return plain_statistics.median(ranks) if ranks else None


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    write_whole(folder / "sweep.json", json.dumps(plain(record), indent=1, allow_nan=False) + "\n")


def read_record(path: Path) -> dict[str, Any]:
    file = path / "sweep.json" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no sweep: there is no sweep.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    if record.get("kind") != "sweep":
        raise ValueError(f"{file} is no record of a sweep")
    return record
