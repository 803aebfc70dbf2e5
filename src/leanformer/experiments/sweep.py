"""Grids: every combination of sizes and settings, each with every seed, and how the score changes along them.

A sweep is a folder: sweep-plan.json, one comparison for each combination of settings (data, training) whose arms are
the designs of the grid, and sweep.json, the record, which the folder alone gives. So sweeps are resumable and parallel
as comparisons are, and grow when more values or seeds are given.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from leanformer import models, tasks
from leanformer.architecture import Architecture
from leanformer.conditioning.query_key import query_key_ranks
from leanformer.experiments import summary
from leanformer.experiments.accepted import AnyRecipe, OfSweep
from leanformer.experiments.cells import Cell, cells, recipes_of
from leanformer.experiments.comparison import keep_others_out, place_of, run_comparison, without_own_loop
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.experiments.failing import NothingFinished
from leanformer.experiments.grid import Grid
from leanformer.experiments.hooks import Hooks, Listener, Planned, Say, reporting
from leanformer.experiments.judging.estimates import paired
from leanformer.experiments.judging.stopping_rules import FEWEST_SEEDS
from leanformer.experiments.overrides import Settings, Sizes, adjusted, axes, check_choices
from leanformer.experiments.own_loop.references import train_in_place_of_recipe
from leanformer.experiments.plan import folder_of
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import as_recipe
from leanformer.experiments.status import Status, status
from leanformer.experiments.summary import RECORD as COMPARISON
from leanformer.experiments.sweep_records import Difference, LeftOut, PlannedCell, Sweep, SweepCell, SweepPlan, in_words
from leanformer.foundation import storage
from leanformer.foundation.machine import from_first_process, is_first_process
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import keep, publish
from leanformer.runners import Where
from leanformer.training.run import differences
from leanformer.training.settings import Training

if TYPE_CHECKING:
    from leanformer.conditioning.watching import Rule as Projections
    from leanformer.experiments.forecast import Forecast
    from leanformer.experiments.own_loop.arms import Factory
    from leanformer.experiments.own_loop.function import Train
    from leanformer.tasks.base import Metric

PLAN, RECORD = "sweep-plan.json", "sweep.json"
DEFAULT = "farthest"
"""The recipe that is run where none is named."""


# Running it


@overload
def sweep(recipe: AnyRecipe = ..., *, dry_run: Literal[True], **arguments: Unpack[OfSweep]) -> Forecast: ...


@overload
def sweep(recipe: AnyRecipe = ..., *, plan_only: Literal[True], **arguments: Unpack[OfSweep]) -> Status: ...


@overload
def sweep(
    recipe: AnyRecipe = ...,
    *,
    dry_run: Literal[False] | None = ...,
    plan_only: Literal[False] | None = ...,
    **arguments: Unpack[OfSweep],
) -> Sweep: ...


@overload
def sweep(
    recipe: AnyRecipe = ..., *, dry_run: bool | None, plan_only: bool | None = ..., **arguments: Unpack[OfSweep]
) -> Sweep | Forecast | Status: ...


@overload
def sweep(recipe: AnyRecipe = ..., *, train: Train, **arguments: Any) -> Sweep: ...  # axes of any name


def sweep(
    recipe: AnyRecipe = DEFAULT,
    *,
    vary: str | Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
    equal_params: bool | None = None,
    seeds: int | Sequence[int] | None = None,
    steps: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    precision: str | None = None,
    settings: Settings = (),
    data: str | Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    held_out: float | None = None,
    skip_bad: bool | None = None,
    dry_run: bool | None = None,
    plan_only: bool | None = None,
    model: Factory | str | Architecture | None = None,
    original: Sizes | None = None,
    train: Train | None = None,
    command: str | Sequence[str] | None = None,
    score_file: str | None = None,
    score_key: str | None = None,
    metric: Metric | str | None = None,
    unit: str | None = None,
    higher_is_better: bool | None = None,
    example: Any = None,
    projections: Projections | None = None,
    time_limit: float | str | None = None,
    name: str | None = None,
    on: str | None = None,
    jobs: int | None = None,
    retries: int | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    memory: str | int | None = None,
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
    planned: Planned | None = None,
    listen: Listener | None = None,
    **sizes: Sequence[Any],
) -> Sweep | Forecast | Status:
    """Train every design of a grid with every seed; returns the record that sweep.json keeps.

    >>> record = lf.sweep("digits", vary={"heads": [1, 2, 4, 8], "regime": ["fixed", "split"]})

    It takes the same arguments as `leanformer sweep`, and writes the same files. With your own training loop
    (docs/how_to/own_loop.md), `model` is a function of what is varied:

    >>> lf.sweep(train=fit, model=lambda depth, heads: MyModel(depth, heads), heads=[1, 2, 4], depth=[2, 4])

    Args:
        recipe: a recipe or the name of one. The grid changes its original.
        vary: the axes, in order; also as texts, ["heads=1,2,4"]. The score is drawn along the first, with one line for
            each value of the second and a panel for each value of the others. Names are depth, heads, head_dim,
            mlp_dim, width, groups (of heads that fill the width), regime (fixed or split), "task.NAME" and
            "training.NAME"; "task.dim+width" changes two together. The recipe's own axes by default.
        equal_params: whether every design gets the MLP that makes it as large as the original of its depth.
        out: the sweep's folder [default: runs/sweep-RECIPE]. Values that are not there yet are added to it.
        report: whether to write the page and the figure too.
        seeds, steps, batch, lr, precision, settings, data, text_column, label_column, held_out, skip_bad, dry_run,
            plan_only, model, original: as for `lf.compare`.
        train, command, score_file, score_key, metric, unit, higher_is_better, example, projections, time_limit, name:
            your own training loop, as for `lf.compare`.
        sizes: more axes, by name: heads=[1, 2, 4].
        on, jobs, retries, cpus, gpus, memory, progress, say, planned, listen: as for `lf.compare`.
    """
    arguments: dict[str, Any] = dict(locals())
    arguments |= train_in_place_of_recipe(arguments, DEFAULT)
    if arguments["train"] is not None or command is not None:
        from leanformer.experiments.own_loop.sweep import sweep_own

        return sweep_own(**arguments)
    design = without_own_loop({"lean": None, "arm": (), **arguments})["model"]
    check_choices(arguments)
    vary = {**axes(vary or ()), **axes(sizes)}
    given = as_recipe(recipe)
    where = Where.of(arguments)
    folder = place_of(out, f"sweep-{given.name}")
    with reporting(progress, say, planned, listen) as hooks:
        chosen = adjusted(
            given,
            data=data,
            text_column=text_column,
            label_column=label_column,
            held_out=held_out,
            skip_bad=skip_bad,
            model=design,
            original=original,
            settings=settings,
            steps=steps,
            batch=batch,
            lr=lr,
            precision=precision,
        )
        grid = _grid(chosen, vary, equal_params)
        if dry_run:
            return _forecast(chosen, grid, folder, {"seeds": seeds, "jobs": jobs}, hooks)
        record = _swept(chosen, grid, folder, seeds, where, hooks, bool(plan_only))
        if record is None:
            return status(folder)
        if is_first_process():
            publish(record, folder / RECORD, report=report, say=hooks.say)
            storage.send(folder)
    return record


def _forecast(recipe: Recipe, grid: Grid, out: Path, choices: Mapping[str, Any], hooks: Hooks) -> Forecast:
    from leanformer.experiments.forecast import forecast, joined

    made = recipes_of(recipe, cells(recipe, grid)[0])
    parts = {place: forecast(choices, arms, out / place, hooks) for place, arms in made.items()}
    return joined(recipe.name, parts)


def _swept(
    recipe: Recipe,
    grid: Grid,
    out: Path,
    seeds: int | Sequence[int] | None,
    where: Where,
    hooks: Hooks,
    plan_only: bool,
) -> Sweep | None:
    """Train what a folder lacks of a sweep; None if it was only to be planned."""
    if len(recipe.original.stages) > 1:
        raise ValueError(f"sweeps take models of one stage; {recipe.original.name} has {len(recipe.original.stages)}")
    there = _read_plan(out)
    grid, wanted = (grid, None) if there is None else _joined(grid, there, recipe, out)
    found, left_out = cells(recipe, grid, wanted)
    made = recipes_of(recipe, found)
    with contextlib.ExitStack() as stack:
        keep_others_out(stack, out, ".sweep.lock")
        if _read_plan(out) != there:
            raise ValueError(f"another process has just changed the sweep in {out}: repeat the command")
        for skipped in left_out if is_first_process() else ():
            hooks.say(f"left out: {in_words(skipped.values)}: {skipped.why}")
        from_first_process(lambda: _plan(recipe, grid, found, left_out, there).write(out / PLAN))
        for number, (place, arms) in enumerate(made.items(), start=1):
            if place and is_first_process():
                hooks.say(f"{place}: {number} of {len(made)}")
            try:
                compared = run_comparison(arms, out / place, seeds=seeds, where=where, plan_only=plan_only, hooks=hooks)
            except NothingFinished as error:  # every run diverged; the other places may still show something
                hooks.say(str(error))
                continue
            if compared is not None and is_first_process():
                keep(compared, out / place / COMPARISON)
        return None if plan_only else from_first_process(lambda: summarise(out))


def _read_plan(out: Path) -> SweepPlan | None:
    return SweepPlan.read(out / PLAN) if (out / PLAN).is_file() else None


def _grid(
    recipe: Recipe, vary: str | Sequence[str] | Mapping[str, Sequence[Any]] | None, equal_params: bool | None
) -> Grid:
    own = recipe.grid or Grid(axes={})
    chosen = axes(vary) if vary else dict(own.axes)
    if not chosen:
        raise ValueError(f'the recipe {recipe.name} names nothing to vary: give axes, such as "heads=1,2,4,8"')
    return Grid(
        axes=chosen,
        equal_params=own.equal_params if equal_params is None else equal_params,
    )


def _joined(grid: Grid, there: SweepPlan, recipe: Recipe, out: Path) -> tuple[Grid, list[dict[str, Any]]]:
    """The axes with the values that the folder's plan has already, and the combinations that were or are asked for.

    Everything else must be as planned.
    """
    if there.original is None or there.task is None or there.training is None:
        raise ValueError(f"{out} holds the sweep of a training loop of one's own: choose another folder")
    planned = _settled(there.name, there.axes, there.equal_params, there.original, there.task, there.training)
    asked = _settled(recipe.name, grid.axes, grid.equal_params, recipe.original, recipe.task.to_dict(), recipe.training)
    if planned != asked:
        raise ValueError(f"{out} holds another sweep: {differences(planned, asked)}; choose another folder")
    axes = {name: tuple(dict.fromkeys((*values, *grid.axes[name]))) for name, values in there.axes.items()}
    before = [*(cell.values for cell in there.cells), *(skipped.values for skipped in there.left_out)]
    now = [dict(zip(grid.axes, chosen, strict=True)) for chosen in itertools.product(*grid.axes.values())]
    return replace(grid, axes={name: _sorted(values) for name, values in axes.items()}), [*before, *now]


def _sorted(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers in their order; anything else as it came."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return tuple(sorted(values)) if numbers else values


def _settled(
    name: str,
    axes: Iterable[str],
    equal_params: bool,
    original: Architecture,
    task: Mapping[str, Any],
    training: Training,
) -> dict[str, Any]:
    """What of a sweep cannot change once it is begun."""
    return {
        "name": name,
        "axes": sorted(axes),
        "equal_params": equal_params,
        "original": original.to_dict(),
        "task": tasks.read(task).to_dict(),
        "training": training.to_dict(),
    }


def _plan(
    recipe: Recipe, grid: Grid, found: Sequence[Cell], left_out: Sequence[LeftOut], there: SweepPlan | None
) -> SweepPlan:
    return SweepPlan(
        name=recipe.name,
        axes={name: list(values) for name, values in grid.axes.items()},
        equal_params=grid.equal_params,
        original=recipe.original,
        task=recipe.task.to_dict(),
        training=recipe.training,
        cells=[PlannedCell(values=dict(cell.values), place=cell.place, arm=cell.arm) for cell in found],
        left_out=list(left_out),
        circumstances=circumstances() if there is None else there.circumstances,
    )


# The record


def summarise(out: Path) -> Sweep:
    """The record of a sweep from its folder alone, with whatever has finished."""
    plan = SweepPlan.read(out / PLAN)
    records: dict[str, Comparison] = {}
    unfinished: list[LeftOut] = []
    for place in dict.fromkeys(cell.place for cell in plan.cells):
        try:
            records[place] = summary.read_record(out / place)
        except ValueError as error:
            if not isinstance(error, NothingFinished) and any((out / place).glob("*/seed-*")):
                raise  # damaged: to leave the place out would change what the sweep shows
            here = [cell.values for cell in plan.cells if cell.place == place]
            unfinished += [LeftOut(values=values, why=str(error)) for values in here]
    if not records:
        raise NothingFinished(f"no run in {out} is finished yet")
    first = next(iter(records.values()))
    found = _cells(out, plan, records)
    found = [_with_difference(cell, found, plan, first) for cell in found]
    return Sweep(
        name=plan.name,
        axes=plan.axes,
        equal_params=plan.equal_params,
        original=plan.original,
        task=plan.task,
        training=plan.training,
        usual=plan.usual,
        left_out=[*plan.left_out, *unfinished],
        seeds=sorted({int(seed) for cell in found for seed in cell.scores}),
        metric=first.metric,
        sources=sorted({record.source for record in records.values()}),
        cells=found,
        **{**fields_of(plan.circumstances), "commit": first.commit},
    )


def _cells(out: Path, plan: SweepPlan, records: Mapping[str, Comparison]) -> list[SweepCell]:
    ranks: dict[tuple[str, str], float | None] = {}
    found = []
    for cell in plan.cells:
        record = records.get(cell.place)
        if record is None or cell.arm not in record.arms:
            continue
        if (cell.place, cell.arm) not in ranks:
            seeds = [seed for seed in record.seeds if isinstance(seed, int) and plan.task is not None]
            runs = [folder_of(out / cell.place, cell.arm, seed) for seed in seeds]
            ranks[cell.place, cell.arm] = _effective_rank(runs, record.arms[cell.arm])
        arm = record.arms[cell.arm]
        found.append(
            SweepCell(
                **{name: getattr(arm, name) for name in type(arm).model_fields},
                values=cell.values,
                effective_rank=ranks[cell.place, cell.arm],
                baselines=record.baselines,
                diverged=[text for key, text in record.failures.items() if key.startswith(f"{cell.arm},")],
            )
        )
    return found


def _with_difference(cell: SweepCell, found: Sequence[SweepCell], plan: SweepPlan, first: Comparison) -> SweepCell:
    """The cell with its difference to the original's heads, all other axes alike, paired by seed."""
    axis, *others = plan.axes
    heads = plan.usual.get("heads") if plan.original is None else plan.original.stages[0].heads
    usual = heads if axis == "heads" else None
    for other in found:
        same = all(other.values[name] == cell.values[name] for name in others)
        if not same or other is cell or other.values[axis] != usual:
            continue
        estimate = paired(cell.scores, other.scores, first.metric.sign, first.metric.resolution)
        if estimate is None:
            return cell
        sure = estimate.seeds >= FEWEST_SEEDS and not cell.diverged and not other.diverged
        told = sure and estimate.t is not None and (estimate.t.low > 0 or estimate.t.high < 0)
        fields = {name: getattr(estimate, name) for name in type(estimate).model_fields}
        return cell.model_copy(update={"difference": Difference(**fields, told=told, against=other.name)})
    return cell


def _effective_rank(runs: Sequence[Path], arm: ArmResult) -> float | None:
    ranks: list[float] = []
    for place in (run / "model" for run in runs):
        if not place.is_dir():
            continue
        model = models.from_pretrained(place)
        planned = arm.architecture
        if planned and (different := planned.differences(models.describe(model), "planned", "saved")):
            raise ValueError(f"{place} holds another model than its run trained: {'; '.join(different)}")
        ranks += [rank for layer in query_key_ranks(model) for rank in layer.effective_rank]
    return statistics.median(ranks) if ranks else None


def is_sweep(path: Path) -> bool:
    return (path / PLAN).is_file() or (path / RECORD).is_file() or path.name == RECORD


def read_record(path: Path) -> Sweep:
    """The record of a sweep: made again from a folder with runs, or read where there is only the record."""
    if (path / PLAN).is_file():
        return summarise(path)
    file = path / RECORD if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no sweep: it has neither {PLAN} nor {RECORD}")
    return Sweep.read(file)
