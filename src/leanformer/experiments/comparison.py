"""The main job: arms × seeds on one task, resumable, and a record that says what holds.

A comparison is a folder: plan.json, a folder for every run, and comparison.json, from which reports are drawn. Runs of
one seed see the same batches in every arm. The same call on the same folder resumes; more seeds or arms are added to
what is there.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.experiments.budgets import Budget
from leanformer.experiments.comparison_records import ArmResult, Comparison, RunCurves
from leanformer.experiments.hooks import Hooks, Listener, Planned, Say, reporting
from leanformer.experiments.judging.estimates import estimate
from leanformer.experiments.judging.judgement import judge_arms
from leanformer.experiments.overrides import Settings, adjusted, arm_names, check_choices
from leanformer.experiments.own_loop.records import PLAN as OWN_PLAN
from leanformer.experiments.plan import PLAN, ComparisonPlan, folder_of, make_plan, read_plan, to_next_look
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import as_recipe
from leanformer.experiments.registration import wanted_rule
from leanformer.foundation.arguments import ArgumentError, names, writable
from leanformer.foundation.machine import from_first_process, is_first_process
from leanformer.foundation.records.circumstances import fields_of
from leanformer.foundation.records.files import locked
from leanformer.foundation.records.keeping import publish
from leanformer.runners import choose
from leanformer.runners.base import Event, read_failure
from leanformer.runners.choice import findable_jobs
from leanformer.training.loop import check_tracker
from leanformer.training.monitoring import step_seconds
from leanformer.training.outcomes import read_outcomes
from leanformer.training.result import Result, check_data, is_finished, read_result

if TYPE_CHECKING:
    from leanformer.conditioning.watching import Rule as Projections
    from leanformer.experiments.own_loop.arms import Factory, Given, OtherArms
    from leanformer.experiments.own_loop.function import Train
    from leanformer.tasks.base import Metric

RECORD = "comparison.json"
DEFAULT = "digits"
"""The recipe that is run where none is named."""


class NothingFinished(ValueError):  # noqa: N818
    """No run of a comparison has a result."""


def compare(
    recipe: Recipe | str = DEFAULT,
    *,
    arms: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    margin: float | None = None,
    steps: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    precision: str | None = None,
    settings: Settings = (),
    budget: str | None = None,
    data: str | Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    held_out: float | None = None,
    skip_bad: bool | None = None,
    model: Factory | str | Architecture | None = None,
    original: Given | None = None,
    lean: Given | None = None,
    arm: OtherArms = (),
    start: str | Path | None = None,
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
    jobs: int | None = None,
    log_with: str = "",
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
    planned: Planned | None = None,
    listen: Listener | None = None,
) -> Comparison:
    """Train every arm with every seed and say what holds; returns the record that comparison.json keeps.

    >>> record = lf.compare("digits", seeds=5)
    >>> record.verdict.words
    >>> lf.compare("images", data="photos", model="vit_small_patch16_224", lean={"depth": 7, "heads": 8})

    It takes what `leanformer compare` takes, and writes the same files. A training loop of one's own takes the place of
    the recipe (docs/own_loop.md):

    >>> lf.compare(train=fine_tune, original="gpt2", lean="depth=6,heads=24", metric="perplexity", margin=0.5, seeds=5)

    Args:
        recipe: a recipe, or the name of one (`leanformer recipes` lists them).
        arms: of original, lean, shallow, wide and the recipe's others; the recipe's choice by default.
        seeds: how many, or which.
        until: "decided" to add seeds at planned looks until lean against original is decided, instead of `seeds`. The
            intervals allow for the looks.
        max_seeds: the most seeds of such a comparison [default: 30].
        margin: by how much the metric may be worse and the model still hold.
        steps, batch, lr, precision: other settings of the training: optimizer steps of the original, samples per step,
            the peak learning rate; "float32", "bfloat16" or "float16".
        settings: any others, such as {"training.clip": 0.5, "task.shift": 2} or ["training.clip=0.5"].
        budget: what is held equal: steps, epochs, tokens, flops or time, with or without an amount ("time=10m"); the
            recipe's by default.
        data: your data, or the folder that holds the recipe's data sets (docs/own_data.md).
        text_column, label_column: where a table has the texts and the labels; by default one of the usual names.
        held_out: which share is held out, where the data have no held-out part.
        skip_bad: whether to train without what cannot be read; by default it is an error.
        model: another original, by name or as an `Architecture`. The lean design is then what `lf.design` recommends.
        original, lean: other sizes of these two: {"depth": 4, "heads": 8, "regime": "split"}, the same as a text,
            "depth=4,heads=8,regime=split", or a whole `Architecture`.
        arm: further arms: {"narrow": {"heads": 2}} or ["narrow:heads=2"].
        start: a comparison whose trained models these begin with.
        train: a training loop of one's own, instead of a recipe: a function of a fresh model, the seed and the run's
            folder that trains the model and returns its score, or a mapping with it. `original` may then be a name or
            an `Architecture`, and `lean` sizes of it; or `model` is a function of sizes, `lambda depth, heads: …`, and
            both are sizes; or each arm is a function without arguments that makes its model.
        command: the same as a command, "python train.py --model {model} --seed {seed} --out {folder}".
        score_file, score_key: the JSON file in the run's folder that a command writes, and the score's key in it
            [default: metrics.json and score].
        metric, unit, higher_is_better: of the score that `train` or `command` gives: a name or an `lf.Metric`.
        example: what the models of `train` are called with, for MACs, memory and κ.
        projections: where their attention is, as for `lf.probe`.
        time_limit: of a run of `train` or `command`: seconds, or a text such as "30m".
        name: of such a comparison [default: the function's or the script's].
        jobs: runs at a time [default: one per GPU or per core; 1 for `train` and `command`].
        log_with: tensorboard, trackio or wandb.
        out: the comparison's folder [default: runs/compare-RECIPE].
        report: whether to write the page and the figures too.
        progress: whether to show progress; by default in a terminal and in a notebook.
        say, planned, listen: receive messages, the plan before it is run, and what the runs do.
    """
    arguments: dict[str, Any] = dict(locals())
    if train is not None or command is not None:
        from leanformer.experiments.own_loop.comparison import compare_own

        return compare_own(**arguments)
    designs = without_own_loop(arguments)
    check_choices(arguments)
    found = as_recipe(recipe)
    folder = place_of(out, f"compare-{found.name}")
    with reporting(progress, say, planned, listen) as hooks:
        chosen = adjusted(
            found,
            **designs,
            data=data,
            text_column=text_column,
            label_column=label_column,
            held_out=held_out,
            skip_bad=skip_bad,
            settings=settings,
            start=start,
            steps=steps,
            batch=batch,
            lr=lr,
            precision=precision,
        )
        listed = names(arms)
        record = run_comparison(
            chosen,
            folder,
            arms=None if listed is None else [*listed, *arm_names(designs["arm"])],
            seeds=seeds,
            until=until,
            max_seeds=max_seeds,
            budget=budget,
            margin=margin,
            jobs=jobs,
            log_with=log_with,
            hooks=hooks,
        )
        if is_first_process():
            publish(record, folder / RECORD, report=report, say=hooks.say)
    return record


OWN_LOOP = ("score_file", "score_key", "metric", "unit", "higher_is_better", "example", "projections", "time_limit")
"""Arguments that belong to a training loop of one's own."""


def without_own_loop(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The models of a recipe's comparison. What belongs to a training loop of one's own is refused, not ignored."""
    for name in (*OWN_LOOP, "name"):
        if arguments[name] is not None:
            raise ArgumentError(f"{{{name}}} needs {{train}} or {{command}}: a recipe has its own")
    models = {name: arguments[name] for name in ("model", "original", "lean", "arm")}
    others = models["arm"].values() if isinstance(models["arm"], Mapping) else ()
    if any(callable(model) for model in (*models.values(), *others)):
        raise ArgumentError("functions that make models need {train}: a recipe takes designs and sizes")
    return models


def place_of(out: str | Path | None, usual: str) -> Path:
    """The folder that was asked for or the usual one in runs/, if it can be written to."""
    return from_first_process(lambda: writable(Path("runs") / usual if out is None else Path(out)))


def run_comparison(
    recipe: Recipe,
    out: Path,
    *,
    arms: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    budget: str | None = None,
    margin: float | None = None,
    jobs: int | None = None,
    log_with: str = "",
    hooks: Hooks = Hooks(),  # noqa: B008  it cannot be changed
) -> Comparison:
    """Train what a folder lacks of a recipe's comparison; returns the record, which the caller writes."""
    recipe = _with_choices(recipe, arms, margin)
    chosen, equal = None if seeds is None else as_seeds(seeds), Budget.parse(budget or recipe.budget)
    wanted = wanted_rule(chosen, until, max_seeds)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    jobs = findable_jobs(jobs, recipe.task, recipe.architectures().values(), hooks.say)
    check_tracker(log_with)
    with contextlib.ExitStack() as stack:
        from_first_process(lambda: stack.enter_context(locked(out)))
        data = tasks.load(recipe.task)
        if is_first_process():
            for line in data.contents().lines():
                hooks.say(line)
        fitted = recipe.fitted(data.options)
        plan: ComparisonPlan | None = from_first_process(
            lambda: make_plan(fitted, chosen, wanted, equal, out, data, margin)
        )
        while plan is not None:
            _run_open(plan, out, jobs, log_with, hooks)
            record = summarise(out)
            plan = None if is_decided(record) else from_first_process(partial(to_next_look, plan, out))
            if plan is not None and is_first_process():
                hooks.say(f"{record.verdict.words}; next look: {len(plan.seeds)} seeds")
        return record


def is_decided(record: Comparison) -> bool:
    """Whether more seeds have nothing to decide: the main verdict is there, or runs that diverged forbid one."""
    main = record.verdict.main
    return main is None or bool(main.diverged) or main.outcome != "cannot tell"


def _run_open(plan: ComparisonPlan, out: Path, jobs: int | None, log_with: str, hooks: Hooks) -> None:
    """Train the runs of a plan that have no result yet."""
    open_runs = {
        folder: (arm, seed) for arm, seed in plan.runs() if not is_finished(folder := folder_of(out, arm, seed))
    }
    hooks.planned(plan, list(open_runs.values()))
    if not open_runs and is_first_process():
        hooks.say(f"{out} is complete: nothing to train; another folder, more seeds or more arms would run more")

    def hear(folder: Path, event: Event) -> None:
        if is_first_process():
            hooks.listen(*open_runs[folder], event)

    choose(jobs, plan.training.threads, log_with).run(list(open_runs), hear)


def _with_choices(recipe: Recipe, arms: Sequence[str] | None, margin: float | None) -> Recipe:
    chosen = (*(recipe.arms if arms is None else arms), *(recipe.others if arms is None else ()))
    recipe = replace(recipe, arms=tuple(dict.fromkeys(chosen)), margin=recipe.margin if margin is None else margin)
    if not recipe.arms:
        raise ValueError("arms must name at least one arm")
    if not recipe.margin >= 0 or recipe.margin == float("inf"):
        raise ValueError(f"margin must be a number of at least 0, got {recipe.margin}")
    recipe.architectures()  # an unknown arm is reported here
    return recipe


def as_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, Integral):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return tuple(range(int(seeds)))
    listed = list(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else []
    if not listed or not all(isinstance(seed, Integral) and seed >= 0 for seed in listed):
        raise ValueError(f"seeds must be a number of seeds, or whole numbers from 0 on, got {seeds!r}")
    return tuple(sorted({int(seed) for seed in listed}))


# The record


def read_record(path: Path) -> Comparison:
    """The record of a comparison: made again from a folder with runs, or read where there is only the record."""
    if (path / PLAN).is_file():
        return summarise(path)
    if (path / OWN_PLAN).is_file():
        from leanformer.experiments.own_loop import comparison as own_loop

        return own_loop.summarise(path)
    file = path / RECORD if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no comparison: it has neither {PLAN} nor {RECORD}")
    return Comparison.read(file)


def summarise(out: Path) -> Comparison:
    """The record of a comparison from its folder alone: costs and scores by arm, verdicts, and every run's curves."""
    plan = read_plan(out)
    failures = {
        (arm, seed): text
        for arm in plan.arms
        for seed in plan.seeds
        if (text := read_failure(folder_of(out, arm, seed))) is not None
    }
    results = {arm: _results(out, arm, plan) for arm in plan.arms}
    finished = [result for runs in results.values() for result in runs.values()]
    if not finished:
        reasons = "".join(f"; {text}" for text in failures.values())
        raise NothingFinished(f"no run in {out} is finished yet{reasons}")
    _check_same_data(out, results)
    metric = finished[0].metric
    scores = {arm: {seed: result.score for seed, result in runs.items()} for arm, runs in results.items()}
    return Comparison(
        name=plan.name,
        source=plan.source,
        seeds=plan.seeds,
        budget=plan.budget,
        margin=plan.margin,
        amendments=plan.amendments,
        metric=metric,
        baselines=finished[0].baselines,
        arms={arm: _arm(out, arm, plan, results[arm]) for arm in plan.arms},
        verdict=judge_arms(
            scores,
            plan.margin,
            metric,
            rule=plan.rule,
            diverged=[arm for arm, _ in failures],
            outcomes=_outcomes(out, results),
        ),
        failures={f"{arm}, seed {seed}": text for (arm, seed), text in failures.items()},
        task=plan.task,
        training=plan.training,
        runs={
            arm: {
                str(seed): RunCurves(evaluations=result.evaluations, losses=thinned(result.losses))
                for seed, result in runs.items()
            }
            for arm, runs in results.items()
        },
        **fields_of(plan.circumstances),
    )


def _outcomes(out: Path, results: Mapping[str, Mapping[int, Result]]) -> dict[str, dict[int, ndarray]]:
    """By arm and seed, the outcome of every held-out sample, where runs have kept them."""
    return {
        arm: {
            seed: found
            for seed, result in runs.items()
            if (found := read_outcomes(folder_of(out, arm, seed), result)) is not None
        }
        for arm, runs in results.items()
    }


def thinned(curve: Sequence[tuple[int, float]], most: int = 100) -> list[tuple[int, float]]:
    """A curve with no more points than a figure shows, the last one among them."""
    every = -(-len(curve) // most) if curve else 1
    return list(reversed(list(reversed(curve))[::every]))


def _results(out: Path, arm: str, plan: ComparisonPlan) -> dict[int, Result]:
    found = {seed: read_result(folder_of(out, arm, seed)) for seed in plan.seeds}
    for seed, result in found.items():
        if result is not None:
            plan.check_result(folder_of(out, arm, seed), arm, seed, result)
    return {seed: result for seed, result in found.items() if result is not None}


def _check_same_data(out: Path, results: Mapping[str, Mapping[int, Result]]) -> None:
    """All runs must have been trained on the same data, as far as they say it."""
    known = [
        (folder_of(out, arm, seed), result)
        for arm, runs in results.items()
        for seed, result in runs.items()
        if result.data
    ]
    for folder, result in known[1:]:
        check_data(folder, result, known[0][1].data, str(known[0][0]))


def _arm(out: Path, arm: str, plan: ComparisonPlan, runs: Mapping[int, Result]) -> ArmResult:
    architecture, training = plan.architectures[arm], plan.training
    setting = Setting(
        batch=training.batch // training.accumulate,
        tokens=plan.tokens,
        precision="float32" if training.precision == "float32" else "bfloat16",
    )
    cost = formula(architecture, setting).cost(architecture, setting)
    kappas = [last.median_over_layers for result in runs.values() if (last := result.evaluations[-1].kappa)]
    scores = [result.score for result in runs.values()]
    return ArmResult(
        name=arm,
        architecture=architecture,
        params=cost.params.total,
        forward_macs=cost.forward_macs / setting.batch,
        memory_bytes=cost.memory_bytes,
        step_seconds=_step_seconds([folder_of(out, arm, seed) for seed in runs]),
        steps=plan.steps[arm],
        score=estimate(scores) if scores else None,
        scores={str(seed): score for seed, score in zip(runs, scores, strict=True)},
        kappa=statistics.median(kappas) if kappas else None,
    )


def _step_seconds(folders: Sequence[Path]) -> float | None:
    """Median over stretches of steps of all seeds."""
    times = [seconds for folder in folders for seconds in step_seconds(folder)]
    return statistics.median(times) if times else None
