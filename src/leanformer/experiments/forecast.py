"""What a comparison, a sweep or a run will take: parameters, time, memory and disk, before anything is trained.

Time is measured by a few steps of each design on this machine, memory comes from the cost model, disk from the sizes of
the weights and of the optimizer's state. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import formula
from leanformer.costs.tracing import id_of
from leanformer.data.order import Share
from leanformer.experiments.budgets import FIRST_STEPS, Budget, step_seconds, timing
from leanformer.experiments.comparison import as_seeds, with_choices
from leanformer.experiments.hooks import Hooks
from leanformer.experiments.judging.power import earlier_spread, power_words
from leanformer.experiments.overrides import arm_names
from leanformer.experiments.plan import ComparisonPlan, folder_of, make_plan
from leanformer.experiments.pretrained import check_starts
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.registration import wanted_rule
from leanformer.experiments.summary import RECORD
from leanformer.foundation import formats
from leanformer.foundation.arguments import names
from leanformer.models.families import build
from leanformer.runners.choice import default_jobs, findable
from leanformer.runners.where import Where
from leanformer.tasks.base import Data
from leanformer.training.result import is_finished
from leanformer.training.run import Run
from leanformer.training.settings import Training

STEPS = FIRST_STEPS + 5
"""Steps of each design that are taken to measure its time; the first ones do not count."""
EVALUATED = 64
"""Held-out samples, at most twice as many, by which the time of an evaluation is measured."""
SHOWN_ARMS = 8
"""Arms that the `repr` of a forecast shows."""


@dataclass(frozen=True, kw_only=True)
class ArmForecast:
    """What the runs of one arm take."""

    name: str
    params: int
    steps: int
    """Of one run."""
    step_seconds: float
    """Measured on this machine."""
    evaluation_seconds: float
    """One pass over the held-out samples; measured on some of them."""
    run_seconds: float
    """Steps and evaluations of one run."""
    memory_bytes: int
    """Training memory of one run: weights, gradients, the optimizer's state and activations."""
    disk_bytes: int
    """What one finished run keeps: the model and its checkpoints. Records and tokenizers are small beside it."""
    training_disk_bytes: int
    """What one run needs on the disk while it trains."""
    runs: int
    """How many are still to be trained."""

    def words(self) -> str:
        """In one line."""
        return (
            f"{self.name}: {self.params:,} parameters, {formats.counted(self.steps, 'step')} of "
            f"{formats.milliseconds(self.step_seconds)}, {formats.duration(self.run_seconds)} per run, "
            f"{formats.size(self.memory_bytes)} of memory, {formats.size(self.disk_bytes)} of disk"
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class Forecast:
    """What training will take, arm by arm and as a whole."""

    name: str
    arms: tuple[ArmForecast, ...]
    jobs: int
    """Runs at a time."""
    finished: int = 0
    """Runs that the folder has results of already."""
    notes: tuple[str, ...] = ()
    """What else is known before training, a sentence each: about looks, or what these seeds can show."""

    @property
    def runs(self) -> int:
        """How many are still to be trained."""
        return sum(arm.runs for arm in self.arms)

    @property
    def seconds(self) -> float:
        """Of the whole, if runs at a time do not slow each other."""
        longest = max((arm.run_seconds for arm in self.arms if arm.runs), default=0.0)
        return max(sum(arm.runs * arm.run_seconds for arm in self.arms) / self.jobs, longest)

    @property
    def memory_bytes(self) -> int:
        """Of the largest runs that can be trained at a time."""
        return sum(self._largest("memory_bytes"))

    @property
    def disk_bytes(self) -> int:
        """What all runs that are still to be trained keep."""
        return sum(arm.runs * arm.disk_bytes for arm in self.arms)

    @property
    def training_disk_bytes(self) -> int:
        """The most that they need on the disk, while the last of them are trained."""
        return self.disk_bytes + sum(self._largest("training_disk_bytes")) - sum(self._largest("disk_bytes"))

    def _largest(self, what: str) -> list[int]:
        return sorted((getattr(arm, what) for arm in self.arms for _ in range(arm.runs)), reverse=True)[: self.jobs]

    def words(self) -> list[str]:
        """The forecast in plain words: a line for each arm, then the whole."""
        there = f"; {formats.counted(self.finished, 'run')} finished already" if self.finished else ""
        disk = f"{formats.size(self.disk_bytes)} of disk ({formats.size(self.training_disk_bytes)} while it trains)"
        return [
            *(arm.words() for arm in self.arms),
            f"in all: {formats.counted(self.runs, 'run')}, {self.jobs} at a time: {formats.duration(self.seconds)}, "
            f"{formats.size(self.memory_bytes)} of memory, {disk}{there}",
            f"Time is measured by {STEPS - FIRST_STEPS} steps of each arm on this machine, without the loading of data "
            "and κ, and as if runs did not slow each other. Memory is the cost model's, without libraries and data.",
            *self.notes,
            "No run was started, and no file of results was written.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        whole = ("runs", "seconds", "memory_bytes", "disk_bytes", "training_disk_bytes")
        return {**asdict(self), **{name: getattr(self, name) for name in whole}}

    def __repr__(self) -> str:
        lines, more = self.words(), len(self.arms) - SHOWN_ARMS
        shown = [*lines[:SHOWN_ARMS], f"… {formats.counted(more, 'arm')} more"] if more > 0 else lines[: len(self.arms)]
        return "\n".join([f"Forecast of {self.name}", *shown, lines[len(self.arms)], *self.notes])


def forecast(arguments: Mapping[str, Any], recipe: Recipe, out: Path, hooks: Hooks = Hooks()) -> Forecast:  # noqa: B008
    """What a comparison will take that `lf.compare` is asked for by these arguments.

    Args:
        arguments: those of `lf.compare` that choose arms, seeds, the budget and jobs.
        recipe: with what else was asked for changed.
        out: the comparison's folder. Runs that it has results of are not counted.
        hooks: where the data are described.
    """
    asked, listed = arguments.get, names(arguments.get("arms"))
    arms = None if listed is None else [*listed, *arm_names(asked("arm") or ())]
    recipe = with_choices(recipe, arms, asked("margin"))
    seeds = as_seeds(asked("seeds"), asked("first_seed"))
    wanted = wanted_rule(seeds, asked("until"), asked("max_seeds"))
    data = tasks.load(recipe.task)
    for line in data.contents().lines():
        hooks.say(line)
    budget = Budget.parse(asked("budget") or recipe.budget)
    fitted = recipe.fitted(data.options)
    check_starts(fitted)
    for line in data.remarks(fitted.original):
        hooks.say(line)
    plan = make_plan(
        fitted, seeds, wanted, budget, out, data, asked("margin"), first_seed=asked("first_seed") or 0, write=False
    )
    open_runs = [(arm, seed) for arm, seed in plan.runs() if not is_finished(folder_of(out, arm, seed))]
    counts = {arm: sum(arm == other for other, _ in open_runs) for arm in plan.arms}
    found = Forecast(
        name=plan.name,
        arms=tuple(
            arm_forecast(arm, plan.architectures[arm], plan.training_of(arm), data, counts[arm]) for arm in plan.arms
        ),
        jobs=jobs_of(asked("jobs"), recipe),
        finished=len(plan.runs()) - len(open_runs),
    )
    spread = earlier_spread(plan.name, data.metric.name, out, RECORD)
    power = power_words(plan.rule, data.metric.unit, spread)
    return replace(found, notes=(*_notes(plan, bool(asked("tune")), bool(asked("budgets"))), power))


def _notes(plan: ComparisonPlan, tuned: bool, lengths: bool) -> tuple[str, ...]:
    """What else is known of a plan before it is trained."""
    found = []
    if plan.rule.kind == "looks":
        seeds, last = formats.counted(len(plan.seeds), "seed"), plan.rule.looks[-1]
        found.append(f"This is for {seeds}, up to the next look; there may be up to {last} seeds.")
    if tuned or plan.tuning is not None:
        found.append("Trials that tune settings, and runs at the best settings, come on top of it.")
    if lengths or plan.lengths:
        found.append("Runs at other lengths come on top of it.")
    return tuple(found)


def forecast_run(run: Run) -> Forecast:
    """What one run will take."""
    arm = arm_forecast(run.name, run.architecture, run.training, tasks.load(run.task))
    return Forecast(name=f"{run.name}, seed {run.seed}", arms=(arm,), jobs=1)


def jobs_of(jobs: int | None, recipe: Recipe) -> int:
    """How many runs are trained at a time."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    where = findable(Where(jobs=jobs), recipe.task, recipe.architectures().values(), lambda message: None)
    return default_jobs(recipe.training.threads) if where.jobs is None else where.jobs


def joined(name: str, parts: Mapping[str, Forecast]) -> Forecast:
    """The forecast of several comparisons, one after another, by their places."""
    arms = [
        replace(arm, name=f"{place}/{arm.name}" if place else arm.name)
        for place, part in parts.items()
        for arm in part.arms
    ]
    notes = dict.fromkeys(note for part in parts.values() for note in part.notes)
    return Forecast(
        name=name,
        arms=tuple(arms),
        jobs=max(part.jobs for part in parts.values()),
        finished=sum(part.finished for part in parts.values()),
        notes=tuple(notes),
    )


def arm_forecast(name: str, design: Architecture, training: Training, data: Data, runs: int = 1) -> ArmForecast:
    """What runs of a design take. Some steps of it are trained."""
    setting = training.cost_setting(data.tokens)
    cost = formula(design, setting).cost(design, setting)
    seconds = step_seconds({name: design}, data, training, STEPS)[name]
    evaluation = _evaluation_seconds(design, data, training)
    kept, while_training = _disk(design, training)
    return ArmForecast(
        name=name,
        params=cost.params.total,
        steps=training.steps,
        step_seconds=seconds,
        evaluation_seconds=evaluation,
        run_seconds=training.steps * seconds + (training.evaluations + 1) * evaluation,
        memory_bytes=cost.memory_bytes,
        disk_bytes=kept,
        training_disk_bytes=while_training,
        runs=runs,
    )


def _evaluation_seconds(design: Architecture, data: Data, training: Training) -> float:
    """Seconds of a pass over the held-out samples, from a share of them where there are many."""
    shares = max(1, (data.contents().held_out or 0) // EVALUATED)
    with timing(training) as accelerator, torch.no_grad(), accelerator.autocast():
        model = build(design).to(accelerator.device).eval()
        began = time.perf_counter()
        data.evaluate(model, Share(0, shares), accelerator.device)
        return (time.perf_counter() - began) * shares


def _disk(design: Architecture, training: Training) -> tuple[int, int]:
    """Bytes that a finished run keeps, and the most that a run needs while it trains."""
    model = build(design, "meta")
    weights = sum({id_of(tensor): tensor.nbytes for tensor in model.state_dict().values()}.values())
    average = 0 if training.ema is None else weights
    state = 2 * sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    whole = weights + average + state
    saved = training.evaluations if training.save_every is None else training.steps // training.save_every + 1
    checkpoints = min(training.keep + 1, saved)  # the last ones and the best
    kept = weights + (checkpoints * whole if training.keep_checkpoints else weights)
    return kept, max(kept, weights + (checkpoints + 1) * whole)  # one more while it is written
