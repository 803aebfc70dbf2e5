"""The plan of a comparison: a recipe with every choice made, written down before the first run (plan.json)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import Field

from leanformer import models, tasks
from leanformer.architecture import Architecture
from leanformer.experiments.arms import ArmName
from leanformer.experiments.budgets import Budget, steps_of
from leanformer.experiments.judging.stopping_rules import Rule, fixed
from leanformer.experiments.own_loop.records import PLAN as OWN_PLAN
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.registration import Amendment, amendments, first_plan, later_plan, seeds_of_next_look
from leanformer.experiments.tuning.records import TuningPlan, trained_with
from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, Record
from leanformer.foundation.records.circumstances import Circumstances, circumstances
from leanformer.foundation.records.files import write_texts
from leanformer.foundation.registry import without_folder
from leanformer.tasks.base import Data, Task
from leanformer.training.result import RESULT, Result, check_data, is_finished, with_current_task
from leanformer.training.run import RUN, PlainTraining, Run, differences, not_described, read_run
from leanformer.training.settings import Training

PLAN = "plan.json"

Seed = Annotated[int, Field(ge=0)]


def _with_a_rule(written: Json) -> Json:
    """Plans of version 2 do not say whether seeds were added. They are taken as chosen beforehand."""
    return {**written, "rule": fixed(len(written["seeds"])).model_dump()}


class ComparisonPlan(Record):
    """What will be run."""

    kind: ClassVar[str] = "plan"
    version: ClassVar[int] = 3
    migrations: ClassVar[Mapping[int, Migration]] = {1: with_current_task, 2: _with_a_rule}

    name: str
    task: Json
    """In plain form: a plan can be read where the task's code is not installed."""
    training: PlainTraining
    margin: float
    start: str = ""
    starts: dict[ArmName, str] = {}
    """By arm, the saved model that it begins with, where the comparison is one of trained models. A relative path
    starts at the plan's own folder."""
    pretrained: str = ""
    """The trained model that these were made of."""
    original: PlainArchitecture
    lean: PlainArchitecture
    architectures: dict[ArmName, PlainArchitecture]
    arms: list[ArmName]
    seeds: list[Seed]
    """Of the looks so far, where the comparison runs until its verdict is decided."""
    rule: Rule
    """At how many seeds the results are judged, as it was said before the first of them."""
    amendments: list[Amendment] = []
    """What was changed when there were results already."""
    budget: Budget
    steps: dict[ArmName, int]
    """Of each arm."""
    source: str
    """Where the data came from."""
    tokens: int | None = None
    """Length of a text."""
    samples: int | None = 0
    """For training; None where they have no end."""
    tuning: TuningPlan | None = None
    """What is tuned for every arm, if anything is."""
    settings: dict[ArmName, dict[str, float]] = {}
    """Of arms that are trained with other settings than `training` says: their best ones, if they were tuned."""
    lengths: list[float] = []
    """Shares of the steps at which the same comparison is made too."""
    circumstances: Circumstances
    """The command, the commit and the machine that began it."""

    def runs(self) -> list[tuple[str, int]]:
        """Seed by seed, so that a comparison that is cut short has whole pairs."""
        return [(arm, seed) for seed in self.seeds for arm in self.arms]

    def run(self, arm: str, seed: int, task: Task) -> Run:
        return Run(
            name=arm,
            architecture=self.architectures[arm],
            task=task,
            training=self.training_of(arm),
            seed=seed,
            **self.start_of(arm, seed),
        )

    def start_of(self, arm: str, seed: int, levels: int = 2) -> dict[str, Any]:
        """What a run begins with whose folder is so many levels below the plan's."""
        if arm in self.starts:
            return {"start": self.starts_below(levels)[arm], "start_with": "all"}
        return {"start": started_from(self.start, arm, seed)}

    def starts_below(self, levels: int) -> dict[str, str]:
        """The models that arms begin with, as a folder so many levels below sees them."""
        return {
            arm: start if os.path.isabs(start) else str(PurePosixPath(*[".."] * levels, start))
            for arm, start in self.starts.items()
        }

    def training_of(self, arm: str) -> Training:
        return replace(trained_with(self.training, self.settings.get(arm, {})), steps=self.steps[arm])

    def check_result(self, folder: Path, arm: str, seed: int, result: Result) -> None:
        """A `ValueError` if a folder holds the result of another run than was planned for it."""
        planned: dict[str, Any] = {"name": arm, "seed": seed, "architecture": self.architectures[arm].to_dict()}
        planned["training"] = self.training_of(arm).to_dict()
        planned["task"] = {key: value for key, value in self.task.items() if key in result.task}
        found = {key: value for key, value in result.to_dict().items() if key in planned}
        found["task"] = {key: value for key, value in result.task.items() if key in self.task}
        for task in (planned["task"], found["task"]):  # a file of code may have been moved since
            task["kind"] = without_folder(task["kind"])
        if found != planned:
            raise ValueError(
                f"{folder} holds the result of another run: {differences(found, planned)}; put it back in its place, "
                "or delete it and repeat the command"
            )


def folder_of(out: Path, arm: str, seed: int) -> Path:
    return out / arm / f"seed-{seed}"


def read_planned_run(folder: Path) -> Run:
    """The run that a folder describes. If a comparison has planned another one for the folder, it is refused."""
    run = read_run(folder)
    _check_in_place(folder, run)
    return run


def _check_in_place(folder: Path, run: Run) -> None:
    whole = folder.resolve()
    out, arm = whole.parent.parent, whole.parent.name
    try:
        plan = read_plan(out)
    except ValueError:  # the folder of no comparison, or a damaged one, which is reported where it is used
        return
    seed = next((seed for seed in plan.seeds if folder_of(out, arm, seed) == whole), None)
    if seed is None or arm not in plan.arms:
        return
    planned = {"name": arm, "seed": seed, "architecture": plan.architectures[arm].to_dict()}
    planned["training"] = plan.training_of(arm).to_dict()
    found = {key: value for key, value in run.to_dict().items() if key in planned}
    if found != planned:
        raise ValueError(
            f"{folder} describes another run than its comparison has planned: {differences(found, planned)}; put its "
            f"run.json back, or delete the folder and repeat the comparison's command"
        )


def read_plan(out: Path) -> ComparisonPlan:
    if not (out / PLAN).is_file():
        raise ValueError(f"{out} is not the folder of a comparison: it has no {PLAN}")
    return ComparisonPlan.read(out / PLAN)


def started_from(folder: str, arm: str, seed: int) -> str:
    """The trained run that this one begins with. Seeds beyond those that were trained begin again with the first."""
    if not folder:
        return ""
    seeds = read_plan(Path(folder)).seeds
    trained = folder_of(Path(folder), arm, seeds[seed % len(seeds)])
    if not (trained / RESULT).is_file():
        raise ValueError(f"{trained} is not finished: repeat its comparison's command, then this one")
    return str(trained)


def make_plan(
    recipe: Recipe,
    seeds: Sequence[int] | None,
    wanted: Rule | None,
    budget: Budget,
    out: Path,
    data: Data,
    margin: float | None,
    tuning: TuningPlan | None = None,
    settings: Mapping[str, Mapping[str, float]] | None = None,
    lengths: Sequence[float] = (),
    first_seed: int = 0,
    starts: Mapping[str, str] | None = None,
    write: bool = True,
) -> ComparisonPlan:
    """The plan, joined with the one that the folder holds already, written down with a folder for every run.

    Args:
        recipe: with the options that the data need.
        seeds: those that are asked for; None for the recipe's number, or what the folder has.
        wanted: planned looks, if the comparison is to run until its verdict is decided.
        budget: what is held equal between arms.
        out: the comparison's folder.
        data: of the recipe's task.
        margin: as it was asked for; None leaves the margin of a folder as it is.
        tuning: what is tuned for every arm; None leaves it as it is in a folder.
        settings: of arms that are trained with settings of their own.
        lengths: shares of the steps at which the same comparison is made too, beside those that a folder has.
        first_seed: where only the number of seeds is known.
        starts: by arm, the saved model that it begins with.
        write: whether to write it down.
    """
    for arm, design in recipe.architectures().items():
        _check_fit(arm, design, data)
    if (out / OWN_PLAN).is_file():
        raise ValueError(f"{out} holds the comparison of a training loop of one's own: choose another folder")
    there = ComparisonPlan.read(out / PLAN) if (out / PLAN).is_file() else None
    steps: dict[str, int] = {}
    changed: list[Amendment] = []
    chosen, rule = first_plan(seeds, wanted, recipe.seeds, recipe.max_seeds, first_seed)
    if there is not None:
        _check_same(there, recipe, budget, out, data)
        steps = dict(there.steps)
        recipe = replace(recipe, margin=there.margin if margin is None else margin)
        results = finished_runs(out, there)
        if results:
            chosen, rule = later_plan(there.rule, there.seeds, seeds, wanted, str(out))
        tuning, lengths = tuning or there.tuning, sorted({*there.lengths, *lengths})
        if there.settings != (settings or {}):
            tuned = differences(there.settings, settings or {})
            raise ValueError(f"{out} was trained with other settings: {tuned}; choose another folder")
        changes = {
            "tuning": (_tuned(there.tuning), _tuned(tuning)),
            "margin": (there.margin, recipe.margin),
            "number of seeds": (len(there.seeds), len(chosen)),
            "arms": (", ".join(there.arms), ", ".join(dict.fromkeys((*there.arms, *recipe.arms)))),
        }
        changed = [*there.amendments, *amendments(changes, results)]
        kept = {arm: there.architectures[arm] for arm in there.arms if arm not in recipe.arms}
        recipe = replace(recipe, arms=(*recipe.arms, *kept), others={**recipe.others, **kept})
    architectures = recipe.architectures()
    if missing := {arm: design for arm, design in architectures.items() if arm not in steps}:
        steps |= steps_of(budget, missing, recipe.original, data, recipe.training)
    plan = ComparisonPlan(
        name=recipe.name,
        task=recipe.task.to_dict(),
        training=recipe.training,
        margin=recipe.margin,
        start=recipe.start,
        starts={**(there.starts if there is not None else {}), **(starts or {})},
        pretrained=recipe.pretrained,
        original=recipe.original,
        lean=recipe.lean,
        architectures=architectures,
        arms=list(recipe.arms),
        seeds=chosen,
        rule=rule,
        amendments=changed,
        budget=budget,
        steps=steps,
        source=data.source,
        tokens=data.tokens,
        samples=data.size,
        tuning=tuning,
        settings={arm: dict(values) for arm, values in (settings or {}).items()},
        lengths=list(lengths),
        circumstances=there.circumstances if there is not None else circumstances(),
    )
    if write:
        write_plan(plan, recipe.task, out)
    return plan


def _tuned(plan: TuningPlan | None) -> str:
    return "nothing" if plan is None else f"{plan.names}, {plan.share:g} of the steps, {len(plan.seeds)} seeds"


def to_next_look(plan: ComparisonPlan, out: Path) -> ComparisonPlan | None:
    """The plan with the seeds of the next planned look, written down; None if there is none."""
    seeds = seeds_of_next_look(plan.rule, plan.seeds)
    if seeds is None:
        return None
    extended = plan.changed(seeds=seeds)
    write_plan(extended, tasks.read(plan.task), out)
    return extended


def write_plan(plan: ComparisonPlan, task: Task, out: Path) -> None:
    """Write a plan down, with a folder for every run. A run that is there already must be the planned one."""
    missing = not_described(_run_texts(plan, task, out))
    plan.write(out / PLAN, indent=2)
    write_texts({folder / RUN: text for folder, text in missing.items()})


def _run_texts(plan: ComparisonPlan, task: Task, out: Path) -> dict[Path, str]:
    """By folder, what run.json says, seed by seed. Runs of one arm differ in what depends on the seed alone."""
    of_arms = {arm: plan.run(arm, plan.seeds[0], task).to_texts(_of_seeds(plan, arm), indent=2) for arm in plan.arms}
    return {folder_of(out, arm, seed): next(of_arms[arm]) for arm, seed in plan.runs()}


def _of_seeds(plan: ComparisonPlan, arm: str) -> list[dict[str, Any]]:
    return [{"seed": seed, **plan.start_of(arm, seed)} for seed in plan.seeds]


def finished_runs(out: Path, plan: ComparisonPlan) -> int:
    return sum(is_finished(folder_of(out, arm, seed)) for arm, seed in plan.runs())


def _check_fit(arm: str, design: Architecture, data: Data) -> None:
    try:
        data.check_model(design)
        if data.tokens is not None:
            models.example_inputs(design, 1, data.tokens)
    except ValueError as error:
        raise ValueError(f"{arm}: {error}") from error
    for option, wanted in data.options.items():
        found = design.options.get(option, wanted)
        if found != wanted and not (option == "vocab_size" and found > wanted):  # trained models round it up
            raise ValueError(f"{arm} is built with {option}={design.options[option]!r}, but the data need {wanted!r}")


def _check_same(there: ComparisonPlan, recipe: Recipe, budget: Budget, out: Path, data: Data) -> None:
    """What was planned before must be what is asked for now, except for seeds, further arms and the margin."""
    common = [arm for arm in recipe.architectures() if arm in there.architectures]
    planned, asked = (
        _settled(there, tasks.read(there.task), there.budget, there.samples, common, there.architectures),
        _settled(recipe, recipe.task, budget, data.size, common, recipe.architectures()),
    )
    if planned != asked:
        raise ValueError(f"{out} holds another comparison: {differences(planned, asked)}; choose another folder")
    for arm, seed in there.runs():
        if is_finished(folder := folder_of(out, arm, seed)):
            check_data(folder, Result.read(folder / RESULT), data.identity, f"{data.source} holds now")


def _settled(
    of: ComparisonPlan | Recipe,
    task: Task,
    budget: Budget,
    samples: int | None,
    arms: list[str],
    architectures: Mapping[str, Architecture],
) -> dict[str, Any]:
    """What of a plan cannot change once it is begun."""
    return {
        "name": of.name,
        "task": task.to_dict(),
        "training": of.training.to_dict(),
        "budget": budget.model_dump(),
        "start": of.start,
        "pretrained": of.pretrained,
        "samples": samples,
        "original": of.original.to_dict(),
        "lean": of.lean.to_dict(),
        "architectures": {arm: architectures[arm].to_dict() for arm in arms},
    }
