"""A sweep around a training loop of one's own: every combination of sizes is an arm of one comparison."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture
from leanformer.experiments import sweep
from leanformer.experiments.arms import ORIGINAL
from leanformer.experiments.failing import NothingFinished
from leanformer.experiments.hooks import Listener, Planned, Say, reporting
from leanformer.experiments.overrides import axes
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.arms import Factory, arms_of, sizes_given
from leanformer.experiments.own_loop.comparison import (
    comparison_name,
    folder_here,
    loop_of,
    refuse_recipes_arguments,
    train_arms,
)
from leanformer.experiments.own_loop.costs import built
from leanformer.experiments.own_loop.function import Train
from leanformer.experiments.own_loop.references import named_or_given
from leanformer.experiments.summary import RECORD
from leanformer.experiments.sweep_records import LeftOut, PlannedCell, Sweep, SweepPlan, in_words
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.records.circumstances import circumstances
from leanformer.foundation.records.files import locked
from leanformer.foundation.records.keeping import keep, publish

Values = dict[str, Any]


def sweep_own(
    train: Train | None = None,
    *,
    command: str | Sequence[str] | None = None,
    score_file: str | None = None,
    score_key: str | None = None,
    model: Factory | str | Architecture | None = None,
    original: Any = None,
    vary: str | Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    sizes: Mapping[str, Sequence[Any]] | None = None,
    out: str | Path | None = None,
    name: str | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
    planned: Planned | None = None,
    listen: Listener | None = None,
    **choices: Any,
) -> Sweep:
    """Train every combination with every seed by the user's function or command.

    `leanformer.sweep` documents the arguments; the choices are those of `train_arms`, and those of a recipe, which are
    refused.
    """
    loop = loop_of(train, command, score_file, score_key)
    model = named_or_given(model)
    refuse_recipes_arguments(choices, sweep.DEFAULT)
    grid = _grid({**axes(vary or ()), **axes(sizes or {})})
    named = comparison_name(loop, name)
    folder = folder_here(out, f"sweep-{named}")
    with reporting(progress, say, planned, listen) as hooks, locked(folder, ".sweep.lock"):
        there = SweepPlan.read(folder / sweep.PLAN) if (folder / sweep.PLAN).is_file() else None
        grid, wanted = (grid, _combinations(grid)) if there is None else _joined(grid, there, folder)
        arms, left_out = _arms(wanted, model)
        for skipped in left_out:
            hooks.say(f"left out: {in_words(skipped.values)}: {skipped.why}")
        plan = SweepPlan(
            name=named,
            axes=grid,
            equal_params=False,
            original=_base(model),
            task=None,
            training=None,
            usual={} if original is None else sizes_given(original),
            left_out=left_out,
            cells=[PlannedCell(values=values, place="", arm=arm_name(values)) for values in _kept(wanted, left_out)],
            circumstances=circumstances() if there is None else there.circumstances,
        )
        plan.write(folder / sweep.PLAN)
        try:
            keep(train_arms(loop, arms, folder, named, hooks=hooks, **choices), folder / RECORD)
        except NothingFinished as error:
            hooks.say(str(error))
        record = sweep.summarise(folder)
        publish(record, folder / sweep.RECORD, report=report, say=hooks.say)
    return record


def arm_name(values: Mapping[str, Any]) -> str:
    """One name for one combination, which is also its folder's."""
    return "_".join(f"{name}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', str(value))}" for name, value in values.items())


def _grid(given: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    if not given:
        raise ArgumentError("{vary} must name sizes with their values, such as heads=[1, 2, 4]")
    for name, values in given.items():
        if isinstance(values, str) or len(set(map(str, values))) != len(values) or not values:
            raise ValueError(f"the axis {name} needs values, each of them once, got {values!r}")
    return {name: [sizes_given({name: value})[name] for value in values] for name, values in given.items()}


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[Values]:
    return [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values())]


def _joined(grid: dict[str, list[Any]], there: SweepPlan, out: Path) -> tuple[dict[str, list[Any]], list[Values]]:
    """The axes with the values that the folder has already, and the combinations that were or are asked for."""
    if there.training is not None:
        raise ValueError(f"{out} holds the sweep of a recipe: choose another folder")
    if sorted(there.axes) != sorted(grid):
        raise ValueError(f"{out} holds another sweep, over {', '.join(there.axes)}: choose another folder")
    joined = {name: list(dict.fromkeys((*values, *grid[name]))) for name, values in there.axes.items()}
    before = [*(cell.values for cell in there.cells), *(skipped.values for skipped in there.left_out)]
    now = [{name: values[name] for name in there.axes} for values in _combinations(grid)]
    return joined, [*before, *(values for values in now if values not in before)]


def _arms(wanted: Sequence[Values], model: Any) -> tuple[dict[str, OwnArm], list[LeftOut]]:
    """The combinations as arms; and those that cannot be built, each with the reason."""
    arms, left_out = dict[str, OwnArm](), list[LeftOut]()
    for values in wanted:
        name = arm_name(values)
        try:
            arms[name] = arms_of(None, None, model, [], {name: values})[name]
            if arms[name].make is not None:
                built(arms[name])
        except ValueError as error:
            arms.pop(name, None)
            left_out.append(LeftOut(values=values, why=str(error).removeprefix(f"{name}: ")))
    if not arms:
        raise ValueError(f"no model of this grid can be made: {left_out[0].why}")
    return arms, left_out


def _kept(wanted: Sequence[Values], left_out: Sequence[LeftOut]) -> list[Values]:
    out = [skipped.values for skipped in left_out]
    return [values for values in wanted if values not in out]


def _base(model: Any) -> Architecture | None:
    """The design that is varied, where there is one."""
    if not isinstance(model, (str, Architecture)):
        return None
    return arms_of(model, None, None, [ORIGINAL])[ORIGINAL].architecture
