"""The main job: arms × seeds on one task, resumable, and a record that says what holds.

A comparison is a folder: plan.json, a folder for every run, and comparison.json, from which reports are drawn. Runs of
one seed see the same batches in every arm. The same call on the same folder resumes; more seeds or arms are added to
what is there.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.experiments.accepted import AnyRecipe, OfCompare
from leanformer.experiments.budgets import Budget
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.hooks import Hooks, Listener, Planned, Say, reporting
from leanformer.experiments.lengths import length_folder, shares_of, shortened
from leanformer.experiments.overrides import Settings, adjusted, arm_names, check_choices
from leanformer.experiments.own_loop.references import train_in_place_of_recipe
from leanformer.experiments.plan import ComparisonPlan, folder_of, make_plan, read_plan, to_next_look, write_plan
from leanformer.experiments.pretrained import starts_of
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import as_recipe
from leanformer.experiments.registration import wanted_rule
from leanformer.experiments.status import Status, status
from leanformer.experiments.summary import RECORD, TUNED, summarise
from leanformer.experiments.tuning.running import Trials, wanted_tuning
from leanformer.foundation import storage
from leanformer.foundation.arguments import ArgumentError, names, writable
from leanformer.foundation.machine import from_first_process, is_first_process
from leanformer.foundation.records.files import locked
from leanformer.foundation.records.keeping import publish
from leanformer.models.weights import is_saved
from leanformer.runners import Where, choose
from leanformer.runners.base import Event
from leanformer.runners.choice import findable
from leanformer.training.loop import check_tracker
from leanformer.training.result import is_finished
from leanformer.training.run import RUN

if TYPE_CHECKING:
    from leanformer.conditioning.watching import Rule as Projections
    from leanformer.experiments.forecast import Forecast
    from leanformer.experiments.own_loop.arms import Factory, Given, OtherArms
    from leanformer.experiments.own_loop.function import Train
    from leanformer.tasks.base import Data, Metric

DEFAULT = "digits"
"""The recipe that is run where none is named."""


@overload
def compare(recipe: AnyRecipe = ..., *, dry_run: Literal[True], **arguments: Unpack[OfCompare]) -> Forecast: ...


@overload
def compare(recipe: AnyRecipe = ..., *, plan_only: Literal[True], **arguments: Unpack[OfCompare]) -> Status: ...


@overload
def compare(
    recipe: AnyRecipe = ...,
    *,
    dry_run: Literal[False] | None = ...,
    plan_only: Literal[False] | None = ...,
    **arguments: Unpack[OfCompare],
) -> Comparison: ...


@overload
def compare(
    recipe: AnyRecipe = ..., *, dry_run: bool | None, plan_only: bool | None = ..., **arguments: Unpack[OfCompare]
) -> Comparison | Forecast | Status: ...


def compare(
    recipe: AnyRecipe = DEFAULT,
    *,
    arms: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    first_seed: int | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    margin: float | None = None,
    tune: str | Sequence[str] | None = None,
    tune_share: float | None = None,
    tune_seeds: int | None = None,
    budgets: str | Sequence[float] | None = None,
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
    dry_run: bool | None = None,
    plan_only: bool | None = None,
    model: Factory | str | Architecture | None = None,
    original: Given | None = None,
    lean: Given | None = None,
    arm: OtherArms = (),
    start: str | Path | None = None,
    pretrained: str | Path | None = None,
    layers: str | None = None,
    new_heads: str | None = None,
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
    log_with: str = "",
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
    planned: Planned | None = None,
    listen: Listener | None = None,
) -> Comparison | Forecast | Status:
    """Train every arm with every seed and say what holds; returns the record that comparison.json keeps.

    >>> record = lf.compare("digits", seeds=5)
    >>> record.verdict.words
    >>> lf.compare("images", data="photos", model="vit_small_patch16_224", lean={"depth": 7, "heads": 8})

    It takes the same arguments as `leanformer compare`, and writes the same files. Your own training loop can replace
    the recipe (docs/how_to/own_loop.md):

    >>> lf.compare(train=fine_tune, original="gpt2", lean="depth=6,heads=24", metric="perplexity", margin=0.5, seeds=5)

    Args:
        recipe: a recipe, the name of one (`leanformer recipes` lists them), or a function that returns one; also
            "file.py:name" of one. A function of model, seed and folder is taken as `train`.
        arms: which of original, lean, shallow, wide and the recipe's other arms [default: the recipe's choice].
        seeds: how many, or which.
        first_seed: number of the first seed [default: 0]; with another one, a comparison is repeated with other seeds.
        until: "decided" to add seeds at planned looks until lean against original is decided, instead of `seeds`. The
            intervals allow for the looks.
        max_seeds: upper limit of seeds with `until` [default: 30].
        margin: by how much the metric may be worse and the model still hold.
        tune: settings to tune for every arm alike, "lr" or "lr,weight_decay", on seeds and samples that the verdict
            never sees. The comparison is then made twice: with the recipe's settings and with each arm's best.
        tune_share: the share of a run's steps that a trial takes [default: 1].
        tune_seeds: seeds of a trial [default: 2].
        budgets: shares of the steps, "1/4,1/2,1", at each of which the same comparison is made.
        steps, batch, lr, precision: other settings of the training: optimizer steps of the original, samples per step,
            the peak learning rate; "float32", "bfloat16" or "float16".
        settings: any others, such as {"training.clip": 0.5, "task.shift": 2} or ["training.clip=0.5"].
        budget: what is held equal: steps, epochs, tokens, flops or time, with or without an amount ("time=10m"); the
            recipe's by default.
        data: your data, or the folder that holds the recipe's data sets (docs/how_to/own_data.md).
        text_column, label_column: names of these columns in a table; by default one of the usual names.
        held_out: which share is held out, if the data have no held-out part.
        skip_bad: whether to skip samples that cannot be read; by default they are an error.
        dry_run: whether to return a `Forecast` instead: parameters, time, memory and disk. Nothing is written.
        plan_only: whether to write the plan and the folders of its runs only, and return their `Status`. `leanformer
            jobs` then has a command for each run, and the same call without it finishes what is left.
        model: another original, by name or as an `Architecture`. The lean design is then what `lf.design` recommends.
        original, lean: other sizes of these two: {"depth": 4, "heads": 8, "regime": "split"}, the same as a text,
            "depth=4,heads=8,regime=split", or a whole `Architecture`.
        arm: further arms: {"narrow": {"heads": 2}} or ["narrow:heads=2"].
        start: a comparison from whose trained models these start.
        pretrained: a trained model, as a folder or .gguf file, from which `lf.inherit` makes the arms: the
            original as it is, lean with fewer layers and more heads, shallow with fewer layers. The arm `random` has
            lean's design and random weights. Lean has half the layers and twice the heads unless `lean` says otherwise.
        layers, new_heads: how `lf.inherit` makes them [default: influence, fresh].
        train: your own training loop instead of a recipe, also as "file.py:name": a function of a fresh model, the
            seed and the run's folder that trains the model and returns its score, or a mapping with it. `original` may
            then be a name or an `Architecture`, and `lean` sizes of it; or `model` is a function of sizes, `lambda
            depth, heads: …` or "file.py:name", and both are sizes; or each arm is a function without arguments that
            makes its model.
        command: the same as a command, "python train.py --model {model} --seed {seed} --out {folder}".
        score_file, score_key: the JSON file in the run's folder that a command writes, and the score's key in it
            [default: metrics.json and score].
        metric, unit, higher_is_better: describe the score of `train` or `command`: a name or an `lf.Metric`.
        example: what the models of `train` are called with, for MACs, memory and κ.
        projections: where their attention is, as for `lf.probe`.
        time_limit: limit for one run of `train` or `command`: seconds, or a text such as "30m".
        name: name of such a comparison [default: the function's or the script's].
        on: where to train: "local" (default), "ray" for the Ray cluster that runs on this machine or that RAY_ADDRESS
            names, or else for a new one of this machine, or "ray://HOST:10001" (docs/how_to/cluster.md).
        jobs: runs at a time [default: one per GPU or per core, on Ray as many as fit; 1 for `train` and `command`].
        retries: further attempts, from the last checkpoint, at a run whose process or node died [default: 2].
        cpus, gpus, memory: what one run takes of a Ray cluster, in numbers and bytes ("8GB") [default: its threads, a
            GPU where there are some, and what the cost model says].
        log_with: tensorboard, trackio or wandb.
        out: the comparison's folder [default: runs/compare-RECIPE], or a URL such as "s3://bucket/study".
        report: whether to write the page and the figures too.
        progress: whether to show progress; by default in a terminal and in a notebook.
        say, planned, listen: receive messages, the plan before it is run, and what the runs do.
    """
    arguments: dict[str, Any] = dict(locals())
    arguments |= train_in_place_of_recipe(arguments, DEFAULT)
    if arguments["train"] is not None or command is not None:
        from leanformer.experiments.own_loop.comparison import compare_own

        return compare_own(**arguments)
    designs = without_own_loop(arguments)
    check_choices(arguments)
    found = as_recipe(recipe)
    where = Where.of(arguments)
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
            pretrained=pretrained,
            layers=layers,
            new_heads=new_heads,
            steps=steps,
            batch=batch,
            lr=lr,
            precision=precision,
        )
        if dry_run:
            from leanformer.experiments.forecast import forecast

            return forecast(arguments, chosen, folder, hooks)
        listed = names(arms)
        record = run_comparison(
            chosen,
            folder,
            arms=None if listed is None else [*listed, *arm_names(designs["arm"])],
            seeds=seeds,
            first_seed=first_seed,
            until=until,
            max_seeds=max_seeds,
            budget=budget,
            margin=margin,
            where=where,
            log_with=log_with,
            tune=tune,
            tune_share=tune_share,
            tune_seeds=tune_seeds,
            budgets=budgets,
            plan_only=bool(plan_only),
            hooks=hooks,
        )
        if record is None:
            return status(folder)
        if is_first_process():
            publish(record, folder / RECORD, report=report, say=hooks.say)
            storage.send(folder)
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
    """The folder that was asked for or the usual one in runs/, if it can be written to; of a URL, its mirror here."""
    return from_first_process(lambda: writable(Path("runs") / usual if out is None else storage.local(out)))


def keep_others_out(stack: contextlib.ExitStack, out: Path, name: str = ".lock") -> None:
    """Lock a folder until the stack is closed; the first process does so for all."""

    def lock() -> None:
        stack.enter_context(locked(out, name))

    from_first_process(lock)


def run_comparison(
    recipe: Recipe,
    out: Path,
    *,
    arms: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    first_seed: int | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    budget: str | None = None,
    margin: float | None = None,
    where: Where = Where(),  # noqa: B008  it cannot be changed
    log_with: str = "",
    tune: str | Sequence[str] | None = None,
    tune_share: float | None = None,
    tune_seeds: int | None = None,
    budgets: str | Sequence[float] | None = None,
    plan_only: bool = False,
    hooks: Hooks = Hooks(),  # noqa: B008  it cannot be changed
) -> Comparison | None:
    """Train what a folder lacks of a recipe's comparison; returns the record, which the caller writes.

    None if the runs were only to be planned.
    """
    recipe = with_choices(recipe, arms, margin)
    chosen, equal = as_seeds(seeds, first_seed), Budget.parse(budget or recipe.budget)
    wanted = wanted_rule(chosen, until, max_seeds)
    where = findable(where, recipe.task, recipe.architectures().values(), hooks.say)
    check_tracker(log_with)
    if recipe.training.teacher and not is_saved(recipe.training.teacher):
        raise ValueError(f"training.teacher must be a saved model's folder, got {recipe.training.teacher}")
    with contextlib.ExitStack() as stack:
        keep_others_out(stack, out)
        data = tasks.load(recipe.task)
        if is_first_process():
            for line in data.contents().lines():
                hooks.say(line)
        fitted = recipe.fitted(data.options)
        for line in data.remarks(fitted.original) if is_first_process() else ():
            hooks.say(line)
        shorter = shares_of(budgets) if budgets is not None else []
        asked = wanted_tuning(tune, fitted.training, tune_share, tune_seeds)
        starts = from_first_process(lambda: starts_of(fitted, data, out, hooks.say))
        planned = partial(
            make_plan,
            fitted,
            chosen,
            wanted,
            equal,
            data=data,
            margin=margin,
            first_seed=first_seed or 0,
            starts=starts,
        )
        plan: ComparisonPlan = from_first_process(lambda: planned(out, tuning=asked, lengths=shorter))
        if plan_only:
            from_first_process(partial(storage.send, out))
            return None
        run = partial(_run_to_the_end, where=where, log_with=log_with, hooks=hooks)
        record = run(plan, out)
        if plan.tuning is not None:
            runner = choose(where, plan.training.threads, log_with)
            best = Trials(plan, plan.tuning, fitted.task, data.metric.higher_is_better, out).tune(runner, hooks).best
            again = from_first_process(partial(_plan_tuned, out, fitted, data, best))
            run(again, out / TUNED)
        for share in plan.lengths:
            short = shortened(read_plan(out), share)
            from_first_process(partial(write_plan, short, fitted.task, length_folder(out, share)))
            run(short, length_folder(out, share))
        return summarise(out) if plan.tuning is not None or plan.lengths else record


def _run_to_the_end(plan: ComparisonPlan, out: Path, *, where: Where, log_with: str, hooks: Hooks) -> Comparison:
    """Train a plan's open runs and, where it has looks, those of the next look until the verdict is decided."""
    following: ComparisonPlan | None = plan
    while following is not None:
        _run_open(following, out, where, log_with, hooks)
        record = summarise(out)
        following = None if is_decided(record) else from_first_process(partial(to_next_look, following, out))
        if following is not None and is_first_process():
            hooks.say(f"{record.verdict.words}; next look: {len(following.seeds)} seeds")
    return record


def _plan_tuned(out: Path, recipe: Recipe, data: Data, best: Mapping[str, Mapping[str, float]]) -> ComparisonPlan:
    """The plan of the comparison at the best settings: seeds, looks and margin are those of the shared settings."""
    shared, folder = read_plan(out), out / TUNED
    looks = shared.rule if shared.rule.kind == "looks" else None
    seeds = None if looks is not None else shared.seeds
    first = min(shared.seeds)
    recipe = replace(recipe, margin=shared.margin)
    plan = make_plan(
        recipe,
        seeds,
        looks,
        shared.budget,
        folder,
        data,
        shared.margin,
        settings=best,
        first_seed=first,
        starts=shared.starts_below(1),
    )
    take_over(shared, out, plan, folder)
    return plan


def take_over(shared: ComparisonPlan, folder: Path, tuned: ComparisonPlan, out: Path) -> None:
    """Copy runs whose best settings are the shared ones: training them again gives the same bits."""
    for arm, seed in set(shared.runs()) & set(tuned.runs()):
        there, here = folder_of(folder, arm, seed), folder_of(out, arm, seed)
        if shared.training_of(arm) == tuned.training_of(arm) and is_finished(there) and not is_finished(here):
            shutil.copytree(there, here, dirs_exist_ok=True, ignore=shutil.ignore_patterns(RUN))  # it is written


def is_decided(record: Comparison) -> bool:
    """Whether more seeds have nothing to decide: the main verdict is there, or runs that diverged forbid one."""
    main = record.verdict.main
    return main is None or bool(main.diverged) or main.outcome != "cannot tell"


def _run_open(plan: ComparisonPlan, out: Path, where: Where, log_with: str, hooks: Hooks) -> None:
    """Train the runs of a plan that have no result yet."""
    open_runs = {
        folder: (arm, seed) for arm, seed in plan.runs() if not is_finished(folder := folder_of(out, arm, seed))
    }
    hooks.planned(plan, list(open_runs.values()))
    if not open_runs and is_first_process():
        hooks.say(
            f"{storage.shown(out)} is complete: nothing to train; "
            "another folder, more seeds or more arms would run more"
        )

    def hear(folder: Path, event: Event) -> None:
        if is_first_process():
            hooks.listen(*open_runs[folder], event)

    from_first_process(partial(storage.send, out))
    choose(where, plan.training.threads, log_with).run(list(open_runs), hear)


def with_choices(recipe: Recipe, arms: Sequence[str] | None, margin: float | None) -> Recipe:
    chosen = (*(recipe.arms if arms is None else arms), *(recipe.others if arms is None else ()))
    recipe = replace(recipe, arms=tuple(dict.fromkeys(chosen)), margin=recipe.margin if margin is None else margin)
    if not recipe.arms:
        raise ValueError("arms must name at least one arm")
    if not recipe.margin >= 0 or recipe.margin == float("inf"):
        raise ValueError(f"margin must be a number of at least 0, got {recipe.margin}")
    recipe.architectures()  # an unknown arm is reported here
    return recipe


def as_seeds(seeds: int | Sequence[int] | None, first: int | None = None) -> tuple[int, ...] | None:
    """Seeds one by one; None if none are asked for.

    Args:
        seeds: how many, or which.
        first: the first one, where only their number is given.
    """
    if first is not None and (not isinstance(first, Integral) or first < 0):
        raise ArgumentError("{first_seed} must be a whole number of at least 0, got {given!r}", given=first)
    if seeds is None:
        return None
    if isinstance(seeds, Integral):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return tuple(range(first or 0, (first or 0) + int(seeds)))
    if first is not None:
        raise ArgumentError("{first_seed} goes with a number of {seeds}; here the seeds are listed")
    listed = list(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else []
    if not listed or not all(isinstance(seed, Integral) and seed >= 0 for seed in listed):
        raise ValueError(f"seeds must be a number of seeds, or whole numbers from 0 on, got {seeds!r}")
    return tuple(sorted({int(seed) for seed in listed}))
