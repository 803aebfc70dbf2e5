"""Grids: every combination of sizes and settings, each with every seed, and how the score changes along them.

A sweep is a folder: sweep-plan.json, one comparison for each combination of settings (data, training) whose arms are
the designs of the grid, and sweep.json, the record, which the folder alone gives. So sweeps are resumable and parallel
as comparisons are, and grow by giving more values or seeds. May import comparison and the rooms that it stands on.
"""

from __future__ import annotations

import itertools
import json
import statistics as plain_statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from leanformer import tasks
from leanformer.architecture import KEEPS, Architecture
from leanformer.conditioning.query_key import query_key_ranks
from leanformer.costs.closed_forms import formula
from leanformer.experiments import comparison
from leanformer.experiments.comparison import Listener, NothingFinished, Planned, compare, folder_of
from leanformer.experiments.recipe import Grid, Recipe
from leanformer.experiments.verdicts import FEWEST_SEEDS, paired
from leanformer.machine import from_first_process, is_first_process
from leanformer.models import registry as families
from leanformer.models.weights import from_pretrained
from leanformer.records.circumstances import circumstances
from leanformer.records.files import plain, write_text
from leanformer.training.run import Training

PLAN, RECORD = "sweep-plan.json", "sweep.json"


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
        """Those that are no sizes: task.points, training.lr, …"""
        return {name: value for name, value in sorted(self.each.items()) if "." in name}

    @property
    def place(self) -> str:
        """The folder of its comparison inside the sweep's."""
        return "_".join(f"{name}-{quote(str(value), safe='+')}" for name, value in self.settings.items())


# The grid


def cells(recipe: Recipe, grid: Grid) -> tuple[list[Cell], list[dict[str, Any]]]:
    """The grid's designs; and the combinations that cannot be built, each with the reason."""
    found: list[Cell] = []
    left_out = []
    for chosen in itertools.product(*grid.axes.values()):
        values = dict(zip(grid.axes, chosen, strict=True))
        try:
            found.append(Cell(values, _design(recipe, grid, Cell(values, recipe.original).each)))
        except ValueError as error:
            left_out.append({"values": values, "why": str(error)})
    if not found:
        raise ValueError(f"no design of this grid can be built: {left_out[0]['why']}")
    return found, left_out


def _design(recipe: Recipe, grid: Grid, each: Mapping[str, Any]) -> Architecture:
    base = widened(recipe.original, each["width"]) if "width" in each else recipe.original
    if "depth" in each:
        base = base.with_depth(each["depth"])
    design = base
    if "heads" in each:
        regime = each.get("regime", "split" if "groups" in each else "fixed")
        design = design.with_heads(each["heads"], KEEPS[regime])
    if "head_dim" in each:
        design = design.with_head_dim(each["head_dim"])
    if "groups" in each:
        design = design.with_heads(each["groups"] * design.stages[0].heads)
    if "mlp_dim" in each:
        design = design.with_mlp(each["mlp_dim"])
    if grid.equal_params:
        design = with_equal_params(design, base)
    return families.family(design.family).canonical(design)


def widened(base: Architecture, width: int) -> Architecture:
    """Another width, split between as many heads."""
    return base.with_width(width).with_heads(base.stages[0].heads, keep="width")


def with_equal_params(design: Architecture, base: Architecture) -> Architecture:
    """The design with that MLP which brings its parameters nearest to the base's."""
    closed, mlp = formula(base), design.stages[0].mlp_dim
    whole, more = (closed.parameters(design.with_mlp(size)).total for size in (mlp, mlp + 2))
    over = whole - closed.parameters(base).total
    size = mlp - round(2 * over / (more - whole))
    if size < 1:
        stage = design.stages[0]
        raise ValueError(f"{stage.heads} heads of {stage.head_dim} alone have more parameters than the whole original")
    try:
        return families.family(design.family).canonical(design.with_mlp(size))
    except ValueError:  # a gated MLP is even
        return design.with_mlp(size + 1)


def _recipes(recipe: Recipe, found: Sequence[Cell]) -> dict[str, Recipe]:
    """For every choice of settings, the recipe whose arms are its designs; what does not fit is told here."""
    made = {}
    for place in dict.fromkeys(cell.place for cell in found):
        here = [cell for cell in found if cell.place == place]
        rooms: dict[str, dict[str, Any]] = {"task": {}, "training": {}}
        for name, value in here[0].settings.items():
            room, _, key = name.partition(".")
            rooms[room][key] = value
        if unknown := rooms["training"].keys() - {item.name for item in fields(Training)}:
            raise ValueError(f"training has no setting {', '.join(sorted(unknown))}")
        original = recipe.original
        for names, value in here[0].values.items():
            if "." in names and "width" in names.split("+"):
                original = widened(original, value)
        made[place] = replace(
            recipe,
            task=tasks.read({**recipe.task.to_dict(), **rooms["task"]}),
            training=replace(recipe.training, **rooms["training"]),
            original=original,
            lean=recipe.lean if original == recipe.original else original,
            others={cell.arm: cell.design for cell in here},
            arms=(),
        )
        fitted = made[place].fitted(tasks.load(made[place].task).options)
        for design in fitted.others.values():
            families.family(design.family).canonical(design)
    return made


# Running it


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
        out: the sweep's folder [default: runs/sweep-RECIPE]. Designs that it holds already get new seeds too.
        seeds, jobs, say, planned, listen: as for `compare`.
    """
    if isinstance(recipe, str):
        from leanformer.experiments.recipes import recipe as named

        recipe = named(recipe)
    own = recipe.grid or Grid(axes={})
    grid = Grid(
        axes={name: tuple(values) for name, values in (own.axes if vary is None else vary).items()},
        equal_params=own.equal_params if equal_params is None else equal_params,
    )
    if not grid.axes:
        raise ValueError(f'the recipe {recipe.name} names nothing to vary: give --vary "heads=1,2,4,8"')
    if len(recipe.original.stages) > 1:
        raise ValueError(f"sweeps take models of one stage; {recipe.original.name} has {len(recipe.original.stages)}")
    found, left_out = cells(recipe, grid)
    made = _recipes(recipe, found)
    out = Path(out) if out is not None else Path("runs") / f"sweep-{recipe.name}"
    for skipped in left_out if is_first_process() else ():
        say(f"left out: {', '.join(f'{n} {v}' for n, v in skipped['values'].items())}: {skipped['why']}")
    from_first_process(lambda: _write_plan(recipe, grid, found, left_out, out))
    for number, (place, arms) in enumerate(made.items(), start=1):
        if place and is_first_process():
            say(f"{place}: {number} of {len(made)}")
        try:
            compare(arms, out=out / place, seeds=seeds, jobs=jobs, say=say, planned=planned, listen=listen)
        except NothingFinished as error:  # every run diverged; the other places may still tell something
            say(str(error))
    record = from_first_process(lambda: summarise(out))
    if is_first_process():
        write_record(record, out)
    return record


def _write_plan(
    recipe: Recipe, grid: Grid, found: Sequence[Cell], left_out: Sequence[Mapping[str, Any]], out: Path
) -> None:
    plan = {
        "name": recipe.name,
        "axes": {name: list(values) for name, values in grid.axes.items()},
        "equal_params": grid.equal_params,
        "original": recipe.original.to_dict(),
        "task": recipe.task.to_dict(),
        "training": vars(recipe.training),
        "cells": [{"values": dict(cell.values), "place": cell.place, "arm": cell.arm} for cell in found],
        "left_out": list(left_out),
        "circumstances": circumstances().model_dump(),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / PLAN, json.dumps(plain(plan), indent=1) + "\n")


# The record


def summarise(out: Path) -> dict[str, Any]:
    """The record of a sweep from its folder alone, with whatever has finished."""
    plan = json.loads((out / PLAN).read_text(encoding="utf-8"))
    records: dict[str, dict[str, Any]] = {}
    unfinished = []
    for place in dict.fromkeys(cell["place"] for cell in plan["cells"]):
        try:
            records[place] = comparison.summarise(out / place)
        except ValueError as error:  # not begun, or nothing finished
            here = [cell["values"] for cell in plan["cells"] if cell["place"] == place]
            unfinished += [{"values": values, "why": str(error)} for values in here]
    if not records:
        raise NothingFinished(f"no run in {out} is finished yet")
    first = next(iter(records.values()))
    ranks: dict[tuple[str, str], float | None] = {}
    rows = []
    for cell in plan["cells"]:
        place, arm = cell["place"], cell["arm"]
        if arm not in records.get(place, {}).get("arms", {}):
            continue
        if (place, arm) not in ranks:
            ranks[place, arm] = _effective_rank(out / place, arm, records[place])
        rows.append(
            {
                "values": cell["values"],
                **records[place]["arms"][arm],
                "effective_rank": ranks[place, arm],
                "baselines": records[place]["baselines"],
                "diverged": [text for key, text in records[place]["failures"].items() if key.startswith(f"{arm},")],
            }
        )
    for row in rows:
        row["difference"] = _difference(plan, row, rows, first["metric"])
    seeds = sorted({int(seed) for row in rows for seed in row["scores"]})
    return {
        "kind": "sweep",
        **{key: plan[key] for key in ("name", "axes", "equal_params", "original", "task", "training")},
        "left_out": [*plan["left_out"], *unfinished],
        "seeds": seeds,
        "metric": first["metric"],
        "sources": sorted({record["source"] for record in records.values()}),
        "cells": rows,
        **plan["circumstances"],
        "commit": first["commit"],
    }


def _difference(
    plan: Mapping[str, Any], row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], metric: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Against the design with the original's heads that agrees in all but the first axis: paired by seed."""
    first, *others = plan["axes"]
    usual = plan["original"]["stages"][0]["heads"] if first == "heads" else None
    for other in rows:
        same = all(other["values"][name] == row["values"][name] for name in others)
        if same and other is not row and other["values"][first] == usual:
            found = paired(
                row["scores"], other["scores"], 1 if metric["higher_is_better"] else -1, metric.get("resolution", 0.0)
            )
            if found is None:
                return None
            sure = found.seeds >= FEWEST_SEEDS and not row["diverged"] and not other["diverged"]
            told = sure and found.t is not None and (found.t.low > 0 or found.t.high < 0)
            return {**asdict(found), "told": bool(told), "against": other["name"]}
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
    write_text(folder / RECORD, json.dumps(plain(record), indent=1, allow_nan=False) + "\n")


def is_sweep(path: Path) -> bool:
    return (path / PLAN).is_file() or (path / RECORD).is_file() or path.name == RECORD


def read_record(path: Path) -> dict[str, Any]:
    """The record of a sweep: made anew of a folder with runs, or read where there is only the record."""
    if (path / PLAN).is_file():
        return summarise(path)
    file = path / RECORD if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no sweep: neither {PLAN} nor {RECORD} is there")
    record = json.loads(file.read_text(encoding="utf-8"))
    if record.get("kind") != "sweep":
        raise ValueError(f"{file} is no record of a sweep")
    return record
