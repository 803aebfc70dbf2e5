"""The paper's figures as commands: run at laptop scale by `lf.sweep`, or planned with cost at the paper's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost
from leanformer.experiments import recipes
from leanformer.experiments.cells import cells
from leanformer.experiments.comparison import place_of
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.grid import Grid
from leanformer.experiments.hooks import Say
from leanformer.experiments.judging.estimates import paired
from leanformer.experiments.summary import RECORD as COMPARISON
from leanformer.experiments.sweep import PLAN, sweep
from leanformer.experiments.sweep_records import Sweep, SweepCell, SweepPlan
from leanformer.foundation.formats import counted
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import publish
from leanformer.paper.drawn import FigurePoint, PaperFigure, Plan, PlannedDesign, Scale, sizes
from leanformer.paper.memory import lean_shares
from leanformer.paper.rates import RATE, best_rates
from leanformer.paper.scorecard import paper
from leanformer.paper.studies import STUDIES, Study
from leanformer.paper.training_costs import tokens_of

RECORD = "figure.json"
EACH_MODEL = "torchrun --nproc-per-node 8 -m leanformer compare imagenet-MODEL --data DIR, for each model"
PAIRS = {6: "Tab. 4", 7: "Tab. 5"}
"""Figures that show pairs of a table."""
NUMBERS = sorted((*STUDIES, *PAIRS))


def figure(
    number: int,
    *,
    scale: Scale = "laptop",
    recipe: str | None = None,
    seeds: int | Sequence[int] | None = None,
    steps: int | None = None,
    data: str | Path | None = None,
    on: str | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
) -> PaperFigure:
    """One figure of the paper: trained at laptop scale and drawn in the paper's form, or planned at the paper's scale.

    Args:
        number: 2 to 9.
        scale: "laptop" trains what is missing; "paper" counts what the paper's own grid would take. Every depth is
            trained at its best learning rate, which is searched first on seeds and samples that the figure does not
            use.
        recipe: another recipe than the figure's own, such as "cifar10-small"; sizes are to its original as here.
        out: the folder of the figure [default: runs/paper-figure-NUMBER, with the name of another recipe]. Beside it,
            paper-grid-RECIPE holds the trained designs and paper-rates-RECIPE the search; the figures of a recipe
            share both. The same call resumes what was stopped.
        report: whether to draw the figure too.
        seeds, steps, data, on, jobs, progress, say: as for `lf.sweep`; three seeds by default.
    """
    if number not in NUMBERS:
        raise ValueError(f"the figures are {', '.join(map(str, NUMBERS))}, got {number}")
    if scale not in ("laptop", "paper"):
        raise ValueError(f"scale must be laptop or paper, got {scale!r}")
    if recipe is not None and (number in PAIRS or scale == "paper"):
        raise ValueError("recipe is for figures that are trained here, at laptop scale")
    folder = place_of(out, f"paper-figure-{number}{f'-{recipe}' if recipe else ''}")
    if number in PAIRS:
        record = _pairs(number)
    elif scale == "paper":
        record = _planned(number, STUDIES[number])
    else:
        study = STUDIES[number] if recipe is None else STUDIES[number].on(recipe)
        arguments = dict(steps=steps, data=data, on=on, jobs=jobs, report=report, progress=progress, say=say)
        record = _trained(number, study, folder.parent, 3 if seeds is None else seeds, arguments)
    if is_first_process():
        publish(record, folder / RECORD, report=report, say=say or (lambda words: None))
    return record


def _trained(
    number: int, study: Study, folder: Path, seeds: int | Sequence[int], arguments: Mapping[str, Any]
) -> PaperFigure:
    """A figure at laptop scale: the best rate of every depth first, then the designs of each depth at its rate."""
    recipe = recipes.recipe(study.recipe)
    rates = best_rates(recipe, study.grid["depth"], folder / f"paper-rates-{study.recipe}", **arguments)
    grid = folder / f"paper-grid-{study.recipe}"
    for depth, rate in rates.items():
        vary = {**study.grid, "depth": (depth,), RATE: (rate,)}
        swept = sweep(recipe, vary=vary, equal_params=False, seeds=seeds, out=grid, **arguments)
    return drawn(number, study, swept, grid)


def drawn(number: int, study: Study, swept: Sweep, folder: Path | None = None) -> PaperFigure:
    """The figure of a sweep's record; Figure 2 needs the sweep's folder, which has the curves."""
    shown = _in_order(swept, study)
    base = next((cell for cell in shown if _is(cell, study.original)), None)
    made = (
        _kappa_points(_comparisons(folder), shown)
        if number == 2 and folder is not None
        else tuple(_score_point(study, cell, base, swept) for cell in shown if cell.score)
    )
    first = next(iter(study.axes))
    unit = f", {swept.metric.unit}" if swept.metric.unit else ""
    return PaperFigure(
        number=number,
        title=f"{study.title} ({study.recipe})",
        scale="laptop",
        x_label="MLP width / token width" if number == 4 else first,
        y_label="κ, mean and median over layers" if number == 2 else f"{swept.metric.name}{unit}",
        log_y=number == 2,
        points=made,
        original=base.score.mean if base and base.score and number != 2 else None,
        printed=study.printed,
        rates={cell.values["depth"]: cell.values[RATE] for cell in shown},
        **fields_of(circumstances()),
    )


def _comparisons(folder: Path) -> list[Comparison]:
    """One for each learning rate."""
    places = dict.fromkeys(cell.place for cell in SweepPlan.read(folder / PLAN).cells)
    return [Comparison.read(folder / place / COMPARISON) for place in places]


def _in_order(swept: Sweep, study: Study) -> list[SweepCell]:
    """The cells of a figure, in the order of its axes: the grid may hold those of other figures too."""
    axes = {**study.axes, **study.grid}
    own = [cell for cell in swept.cells if all(cell.values[name] in values for name, values in axes.items())]
    return sorted(own, key=lambda cell: [values.index(cell.values[name]) for name, values in axes.items()])


def _is(cell: SweepCell, values: Mapping[str, Any]) -> bool:
    return all(cell.values.get(name) == value for name, value in values.items())


def _score_point(study: Study, cell: SweepCell, base: SweepCell | None, swept: Sweep) -> FigurePoint:
    assert cell.score is not None
    sign = 1 if swept.metric.higher_is_better else -1
    found = paired(cell.scores, base.scores, sign, swept.metric.resolution) if base and cell is not base else None
    better = found is not None and found.t is not None and found.t.low > 0
    first, *others = study.axes
    x = float(cell.values[first])
    if first == "mlp_dim" and swept.original is not None:
        x /= swept.original.stages[0].width
    note, line = f"{(cell.params or 0) / 1e3:.0f}k", "ours"
    if "mlp_dim" in others:  # Figure 5: a line for each MLP, and by how much the parameters change
        line = f"MLP {cell.values['mlp_dim']}"
        if base is not None and cell.params and base.params:
            note = "" if cell is base else f"{round(100 * (cell.params / base.params - 1)):+d} %"
    panel = counted(cell.values["depth"], "layer") if "depth" in others else ""
    low, high = (cell.score.t.low, cell.score.t.high) if cell.score.t else (None, None)
    return FigurePoint(panel=panel, line=line, x=x, y=cell.score.mean, low=low, high=high, note=note, better=better)


def _kappa_points(records: Sequence[Comparison], shown: Sequence[SweepCell]) -> tuple[FigurePoint, ...]:
    """κ at each evaluation, over seeds: the mean over layers, as printed, and the median."""
    heads = {cell.name: cell.values["heads"] for cell in shown}
    found = []
    for panel, read in (
        ("mean over layers, as printed", "mean_over_layers"),
        ("median over layers", "median_over_layers"),
    ):
        for arm, runs in (item for record in records for item in record.runs.items()):
            by_step: dict[int, list[float]] = {}
            for run in runs.values():
                for point in run.evaluations:
                    if point.kappa is not None and arm in heads:
                        by_step.setdefault(point.step, []).append(getattr(point.kappa, read))
            found += [
                FigurePoint(panel=panel, line=f"step {step}", x=heads[arm], y=fmean(values))
                for step, values in by_step.items()
            ]
    return tuple(found)


def _pairs(number: int) -> PaperFigure:
    """Figures 6 and 7: printed gains of accuracy against reductions, printed and counted. Nothing is trained."""
    record = paper(table=PAIRS[number])
    rows = {(row.model, row.variant): row for row in record.rows}
    memory = lean_shares(record.rows)
    points = []
    for model in dict.fromkeys(row.model for row in record.rows):
        original, lean = rows[model, "original"], rows[model, "lean"]
        gain = _extra(lean.printed, "top1") - _extra(original.printed, "top1")
        saved = 100 * (1 - lean.params / original.params)
        points.append(FigurePoint(panel="fewer parameters, %", line="counted", x=saved, y=gain, note=model))
        if model in memory:
            for line, share in zip(("printed", "counted"), memory[model], strict=True):
                points.append(FigurePoint(panel="less memory, %", line=line, x=100 * (1 - share), y=gain, note=model))
    designs = tuple(
        PlannedDesign(design=f"{row.model}, {row.variant}", params=row.params, hours=row.training.hours)
        for row in record.rows
        if row.training is not None
    )
    plan = Plan(
        device="a100",
        data="ImageNet-1k",
        command=EACH_MODEL,
        designs=designs,
    )
    return PaperFigure(
        number=number,
        title=f"improvement in accuracy against reductions ({PAIRS[number].replace('Tab.', 'Table')})",
        scale="paper",
        x_label="reduction",
        y_label="gain in top-1, points, as printed",
        joined=False,
        points=tuple(points),
        original=0.0,
        printed=tuple(f"{p.note} {p.y:+.1f} points" for p in points if p.panel.startswith("fewer")),
        plan=plan,
        **fields_of(circumstances()),
    )


def _extra(printed: Any, key: str) -> float:
    return float(printed.__pydantic_extra__[key])


def _planned(number: int, study: Study) -> PaperFigure:
    """What the paper's own grid takes, by the cost model; no data are needed to know it."""
    recipe = recipes.recipe(study.paper_recipe)
    found, _ = cells(recipe, Grid(axes=study.paper_axes))
    samples = recipe.training.order(0, None).first(recipe.training.steps)
    setting = Setting(batch=1, tokens=tokens_of(recipe))
    designs = []
    for cell in found:
        cost = formula(cell.design, setting).cost(cell.design, setting)
        hours = run_cost(cost, setting, WholeRun(samples=samples, device=study.device)).device_hours
        design = sizes(dict(cell.values), cost.params.total)
        designs.append(PlannedDesign(design=design, params=cost.params.total, hours=hours))
    command = f"leanformer sweep {study.paper_recipe}"
    for name, values in study.paper_axes.items():
        command += f" --vary {name}=" + ",".join(map(str, values))
    command += " --any-params"
    if study.data == "ImageNet-1k":
        command = f"torchrun --nproc-per-node 8 -m {command} --data DIR"
    return PaperFigure(
        number=number,
        title=study.title,
        scale="paper",
        printed=study.printed,
        plan=Plan(device=study.device, data=study.data, command=command, designs=tuple(designs)),
        **fields_of(circumstances()),
    )
