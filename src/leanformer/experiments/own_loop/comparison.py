"""A comparison around a training loop of one's own: arms, seeds, resuming, verdict and record are those of `compare`.

The folder holds own-plan.json, a folder for every run with its result.json, and comparison.json. A finished run is not
repeated; one that failed is, when the comparison is run again.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture
from leanformer.conditioning.watching import Rule as Projections
from leanformer.conditioning.watching import check_rule
from leanformer.experiments.budgets import Budget
from leanformer.experiments.comparison import DEFAULT, as_seeds, is_decided, place_of
from leanformer.experiments.comparison_records import ArmResult, Comparison, RunCurves
from leanformer.experiments.failing import nothing_finished
from leanformer.experiments.hooks import Hooks, Listener, Planned, Say, reporting
from leanformer.experiments.judging.estimates import estimate
from leanformer.experiments.judging.judgement import judge_arms
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.arms import Factory, Given, OtherArms, arms_of
from leanformer.experiments.own_loop.command import SCORE_FILE, Command, CommandRuns
from leanformer.experiments.own_loop.costs import costed
from leanformer.experiments.own_loop.function import FunctionRuns, Train, code_of, described, name_of
from leanformer.experiments.own_loop.plan import Asked, make_plan, to_next_look
from leanformer.experiments.own_loop.records import PLAN, OwnPlan
from leanformer.experiments.own_loop.references import named_or_given
from leanformer.experiments.own_loop.result import OwnResult, is_finished, read_own_result
from leanformer.experiments.own_loop.returned import SCORE
from leanformer.experiments.own_loop.running import Places
from leanformer.experiments.plan import folder_of
from leanformer.experiments.registration import wanted_rule
from leanformer.experiments.summary import RECORD, thinned
from leanformer.foundation import machine
from leanformer.foundation.arguments import ArgumentError, names
from leanformer.foundation.formats import duration
from leanformer.foundation.records.circumstances import fields_of
from leanformer.foundation.records.files import locked
from leanformer.foundation.records.keeping import publish
from leanformer.foundation.storage import is_url
from leanformer.runners.base import Event, read_failure
from leanformer.runners.where import LOCAL, Where
from leanformer.tasks.base import Metric

LOWER_IS_BETTER = ("loss", "nll", "perplexity", "ppl", "error", "mse", "mae", "rmse", "wer", "cer", "bpb", "bpc", "fid")
"""Words in the name of a metric of which less is better, unless the user says otherwise."""
NO_KAPPA = "κ is not measured: the trained models of a command are not seen; `leanformer measure` takes saved ones"
OF_RECIPES = {
    *("recipe", "steps", "batch", "lr", "precision", "settings", "budget", "data", "start", "log_with", "equal_params"),
    *("pretrained", "layers", "new_heads"),
    "plan_only",
    *("text_column", "label_column", "held_out", "skip_bad", "dry_run", "tune", "tune_share", "tune_seeds", "budgets"),
}
"""Arguments of `leanformer.compare` and `leanformer.sweep` that a recipe takes."""


def compare_own(
    train: Train | None = None,
    *,
    command: str | Sequence[str] | None = None,
    score_file: str | None = None,
    score_key: str | None = None,
    original: Given | None = None,
    lean: Given | None = None,
    model: Factory | str | Architecture | None = None,
    arms: str | Sequence[str] | None = None,
    arm: OtherArms = (),
    out: str | Path | None = None,
    name: str | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
    planned: Planned | None = None,
    listen: Listener | None = None,
    **choices: Any,
) -> Comparison:
    """Train every arm with every seed by the user's function or command, and say what holds.

    `leanformer.compare` documents the arguments; the choices are those of `train_arms`, and those of a recipe, which
    are refused.
    """
    loop = loop_of(train, command, score_file, score_key)
    refuse_recipes_arguments(choices, DEFAULT)
    chosen = arms_of(original, lean, named_or_given(model), names(arms), arm)
    named = comparison_name(loop, name)
    folder = folder_here(out, f"compare-{named}")
    with reporting(progress, say, planned, listen) as hooks:
        record = train_arms(loop, chosen, folder, named, hooks=hooks, **choices)
        publish(record, folder / RECORD, report=report, say=hooks.say)
    return record


def folder_here(out: str | Path | None, usual: str) -> Path:
    """The folder of a comparison whose runs write into it themselves, and know of no URL."""
    if out is not None and is_url(out):
        raise ArgumentError("{out} must be a folder where {train} or {command} trains, got {given}", given=out)
    return place_of(out, usual)


def refuse_recipes_arguments(choices: dict[str, Any], usual: str) -> None:
    """Take what belongs to a recipe out of the choices; nothing that was given is ignored.

    Args:
        choices: by name.
        usual: the recipe where none was named.
    """
    for argument in OF_RECIPES & choices.keys():
        if choices.pop(argument) not in (None, "", (), [], usual):
            raise ArgumentError(f"{{{argument}}} does not go with {{train}} or {{command}}, which decide it themselves")


def loop_of(
    train: Train | None, command: str | Sequence[str] | None, score_file: str | None, score_key: str | None
) -> Train | Command:
    if command is None:
        if score_file is not None or score_key is not None:
            raise ArgumentError("{score_file} and {score_key} belong to a {command}; {train} returns its score")
        train = named_or_given(train)
        if not callable(train):
            raise ArgumentError("{train} must be a function of model, seed and folder, got {given!r}", given=train)
        return train
    if train is not None:
        raise ArgumentError("{train} and {command} exclude each other: give one of them")
    return Command(command, score_file or SCORE_FILE, score_key or SCORE)


def train_arms(
    train: Train | Command,
    arms: Mapping[str, OwnArm],
    out: Path,
    name: str,
    *,
    seeds: int | Sequence[int] | None = None,
    first_seed: int | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    margin: float | None = None,
    metric: Metric | str | None = None,
    unit: str | None = None,
    higher_is_better: bool | None = None,
    example: Any = None,
    projections: Projections | None = None,
    time_limit: float | str | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  it cannot be changed
    **where: Any,
) -> Comparison:
    """Train what a folder lacks of these arms and seeds; returns the record, which the caller writes."""
    if machine.process_count() > 1:
        raise ValueError("a training loop of one's own is run by one process: start others inside it")
    check_rule(projections)
    measured = _metric(metric, unit, higher_is_better, train)
    if margin is not None and not (isinstance(margin, Real) and 0 <= margin < float("inf")):
        raise ArgumentError("{margin} must be a number of at least 0, got {given!r}", given=margin)
    places = Places(_where(where), _seconds(time_limit))
    listed = as_seeds(seeds, first_seed)
    wanted = wanted_rule(listed, until, max_seeds)
    runs = _runs(train, arms, measured, example, projections, places.time_limit)
    with locked(out):
        planned_arms, notes = costed(arms, example)
        asked = Asked(
            name=name,
            trained_by=_described(train),
            command=train.words if isinstance(train, Command) else (),
            score_from=f"{train.score_key} of {train.score_file}" if isinstance(train, Command) else "",
            metric=measured,
            margin=margin,
            arms=planned_arms,
            seeds=listed,
            first_seed=first_seed or 0,
            wanted=wanted,
            notes=[*notes, NO_KAPPA] if isinstance(train, Command) else notes,
        )
        plan: OwnPlan | None = make_plan(asked, out)
        _introduce(hooks.say, asked, places, isinstance(train, Command))
        while plan is not None:
            _run_open(plan, arms, runs, places, out, hooks)
            record = summarise(out)
            plan = None if is_decided(record) else to_next_look(plan, out)
            if plan is not None:
                hooks.say(f"{record.verdict.words}; next look: {len(plan.seeds)} seeds")
        return record


def _where(given: Mapping[str, Any]) -> Where:
    found = Where.of(given)
    if found.on == LOCAL and given.get("retries") is not None:
        raise ArgumentError('{retries} needs {on}="ray": on this machine, the same call runs again what has failed')
    return found


def comparison_name(train: Train | Command, given: str | None = None) -> str:
    """What a comparison is called: also a part of its folder's name."""
    name = given or (train.name if isinstance(train, Command) else name_of(train))
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "own"


def _runs(
    train: Train | Command,
    arms: Mapping[str, OwnArm],
    metric: Metric,
    example: Any,
    projections: Projections | None,
    time_limit: float | None,
) -> FunctionRuns | CommandRuns:
    if isinstance(train, Command):
        if example is not None or projections is not None:
            raise ArgumentError("{example} and {projections} are for a function: the models of a command are not seen")
        train.check(arms)
        return CommandRuns(train, arms, metric, time_limit)
    if unmade := [arm.name for arm in arms.values() if arm.make is None]:
        raise ArgumentError(
            "the sizes of {given} need {model}, a function of them that makes the model",
            given=" and ".join(unmade[:2]),
        )
    return FunctionRuns(train, arms, metric, example, projections, code_of(train))


def _metric(
    given: Metric | str | None, unit: str | None, higher_is_better: bool | None, train: Train | Command
) -> Metric:
    if isinstance(given, Metric):
        if higher_is_better not in (None, given.higher_is_better) or unit not in (None, given.unit):
            raise ArgumentError("the {metric} says by itself what {unit} and {higher_is_better} say otherwise")
        return given
    name = given or (train.score_key if isinstance(train, Command) else SCORE)
    if not isinstance(name, str):
        raise ArgumentError("{metric} must be a name or an lf.Metric, got {given!r}", given=given)
    words = re.split(r"[^a-z]+", name.lower())
    usual = not any(word in LOWER_IS_BETTER for word in words)
    return Metric(name, unit or "", usual if higher_is_better is None else higher_is_better)


def _seconds(given: float | str | None) -> float | None:
    """A limit of time: seconds, or a text such as "30m"."""
    if given is None:
        return None
    try:
        seconds = Budget.parse(f"time={given}").amount
    except ValueError:
        seconds = None
    if seconds is None or isinstance(given, bool):
        raise ArgumentError('{time_limit} is a time, such as 90, "30m" or "2h", got {given!r}', given=given)
    return seconds


def _described(train: Train | Command) -> str:
    return f"the command {' '.join(train.words)}" if isinstance(train, Command) else described(train)


def _introduce(say: Callable[[str], None], asked: Asked, places: Places, is_command: bool) -> None:
    """What a person should know before the first run."""
    for note in asked.notes:
        say(note)
    better = "higher" if asked.metric.higher_is_better else "lower"
    say(f"training by {asked.trained_by}; {asked.metric.name}: {better} is better")
    if places.in_this_process and not is_command:
        say("runs in this process, one after the other; a time_limit, or jobs above 1, gives each its own process")
    elif places.time_limit is not None:
        say(f"each run has {duration(places.time_limit)}")


def _run_open(
    plan: OwnPlan,
    arms: Mapping[str, OwnArm],
    runs: FunctionRuns | CommandRuns,
    places: Places,
    out: Path,
    hooks: Hooks,
) -> None:
    """Train the runs of a plan that have no result yet, of the arms that were asked for."""
    open_runs = {
        folder: (arm, seed)
        for arm, seed in plan.runs()
        if arm in arms and not is_finished(folder := folder_of(out, arm, seed))
    }
    hooks.planned(plan, list(open_runs.values()))
    if not open_runs:
        hooks.say(f"{out} is complete: nothing to train; another folder, more seeds or more arms would run more")

    def hear(folder: Path, event: Event) -> None:
        arm, seed = open_runs[folder]
        if event["event"] == "done" and (result := read_own_result(folder)) is not None:
            hooks.say(f"{arm}, seed {seed}: {result.metric} {result.score:.5g} in {duration(result.seconds)}")
        hooks.listen(arm, seed, event)

    places.run(runs, open_runs, hear)


# The record


def summarise(out: Path) -> Comparison:
    """The record of a comparison from its folder alone."""
    plan = OwnPlan.read(out / PLAN)
    failures = {
        (arm, seed): text for arm, seed in plan.runs() if (text := read_failure(folder_of(out, arm, seed))) is not None
    }
    results = {arm: _results(out, arm, plan.seeds) for arm in plan.arms}
    finished = [result for runs in results.values() for result in runs.values()]
    if not finished:
        raise nothing_finished(out, plan.runs(), failures)
    scores = {arm: {seed: result.score for seed, result in runs.items()} for arm, runs in results.items()}
    return Comparison(
        name=plan.name,
        source=f"those of {plan.trained_by}",
        seeds=plan.seeds,
        budget=None,
        margin=plan.margin,
        metric=plan.metric,
        arms={arm: _arm(arm, plan, runs) for arm, runs in results.items()},
        verdict=judge_arms(scores, plan.margin, plan.metric, rule=plan.rule, diverged=[arm for arm, _ in failures]),
        failures={f"{arm}, seed {seed}": text for (arm, seed), text in failures.items()},
        amendments=plan.amendments,
        task=None,
        training=None,
        notes=[*plan.notes, *_notes(finished)],
        runs={
            arm: {
                str(seed): RunCurves(evaluations=result.evaluations, losses=thinned(result.losses))
                for seed, result in runs.items()
            }
            for arm, runs in results.items()
        },
        **fields_of(plan.circumstances),
    )


def _results(out: Path, arm: str, seeds: Sequence[int]) -> dict[int, OwnResult]:
    found = {seed: read_own_result(folder_of(out, arm, seed)) for seed in seeds}
    for seed, result in found.items():
        if result is not None and (result.name, result.seed) != (arm, seed):
            raise ValueError(
                f"{folder_of(out, arm, seed)} holds the result of {result.name}, seed {result.seed}: "
                "put it back in its place, or delete it and repeat the command"
            )
    return {seed: result for seed, result in found.items() if result is not None}


def _arm(arm: str, plan: OwnPlan, runs: Mapping[int, OwnResult]) -> ArmResult:
    known, scores = plan.arms[arm], [result.score for result in runs.values()]
    kappas = [last.median_over_layers for result in runs.values() if (last := result.evaluations[-1].kappa)]
    steps = [result.steps for result in runs.values() if result.steps is not None]
    return ArmResult(
        name=arm,
        architecture=known.architecture,
        sizes=known.sizes,
        params=known.params,
        forward_macs=known.forward_macs,
        memory_bytes=known.memory_bytes,
        step_seconds=None,
        run_seconds=statistics.median(result.seconds for result in runs.values()) if runs else None,
        steps=int(statistics.median(steps)) if steps else None,
        score=estimate(scores) if scores else None,
        scores={str(seed): score for seed, score in zip(runs, scores, strict=True)},
        kappa=statistics.median(kappas) if kappas else None,
    )


def _notes(finished: Sequence[OwnResult]) -> list[str]:
    """What runs have to say, each thing once, with the number of runs if not all say it."""
    counts = Counter(note for result in finished for note in dict.fromkeys(result.notes))
    notes = [
        note if count == len(finished) else f"in {count} of {len(finished)} runs: {note}"
        for note, count in counts.items()
    ]
    if (versions := len({result.code for result in finished})) > 1:
        notes.append(f"the results come from {versions} versions of the training function")
    return notes
