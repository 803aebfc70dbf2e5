"""The record of a comparison, made from its folder alone: costs and scores by arm, verdicts, and every run's curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from numpy import ndarray

from leanformer import tasks
from leanformer.costs.closed_forms import formula
from leanformer.experiments.arms import RANDOM, SHALLOW
from leanformer.experiments.comparison_records import ArmResult, Comparison, RunCurves, Variant
from leanformer.experiments.failing import NothingFinished, nothing_finished
from leanformer.experiments.judging.estimates import estimate
from leanformer.experiments.judging.judgement import judge_arms
from leanformer.experiments.lengths import Trend, length_folder, trends
from leanformer.experiments.own_loop.records import PLAN as OWN_PLAN
from leanformer.experiments.plan import PLAN, ComparisonPlan, folder_of, read_plan
from leanformer.experiments.status import judged
from leanformer.experiments.tuning.records import Tuning
from leanformer.experiments.tuning.running import Trials
from leanformer.foundation.records.circumstances import fields_of
from leanformer.runners.base import read_failure
from leanformer.tasks.base import Metric
from leanformer.training.monitoring import step_seconds
from leanformer.training.outcomes import read_outcomes
from leanformer.training.result import Result, check_data, is_finished, read_result

RECORD = "comparison.json"
TUNED = "tuned"
"""The folder, within a comparison's, of the same comparison at each arm's best settings."""


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
    failures = _failures(out, plan)
    results = {arm: _results(out, arm, plan) for arm in plan.arms}
    finished = [result for runs in results.values() for result in runs.values()]
    if not finished:
        raise nothing_finished(out, [(arm, seed) for arm in plan.arms for seed in plan.seeds], failures)
    _check_same_data(out, results)
    metric = finished[0].metric
    scores = {arm: {seed: result.score for seed, result in runs.items()} for arm, runs in results.items()}
    shorter = _shorter(out, plan)
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
            controls=(SHALLOW, RANDOM) if plan.pretrained else (SHALLOW,),
        ),
        failures={f"{arm}, seed {seed}": text for (arm, seed), text in failures.items()},
        open_runs={
            f"{arm}, seed {seed}": judged(folder_of(out, arm, seed)).words for arm, seed in open_runs(out, plan)
        },
        tuning=_tuning(out, plan, metric),
        tuned=_variant(out / TUNED) if plan.tuning is not None else None,
        lengths=shorter,
        trends=_trends(shorter, scores, metric),
        task=plan.task,
        training=plan.training,
        runs=_curves(results),
        **fields_of(plan.circumstances),
    )


def open_runs(out: Path, plan: ComparisonPlan) -> list[tuple[str, int]]:
    """Planned runs that have neither a result nor a reason why not."""
    folders = {(arm, seed): folder_of(out, arm, seed) for arm, seed in plan.runs()}
    return [run for run, folder in folders.items() if not is_finished(folder) and read_failure(folder) is None]


def _failures(out: Path, plan: ComparisonPlan) -> dict[tuple[str, int], str]:
    """Why runs did not finish, by arm and seed."""
    return {
        (arm, seed): text
        for arm in plan.arms
        for seed in plan.seeds
        if (text := read_failure(folder_of(out, arm, seed))) is not None
    }


def _curves(results: Mapping[str, Mapping[int, Result]]) -> dict[str, dict[str, RunCurves]]:
    return {
        arm: {
            str(seed): RunCurves(evaluations=result.evaluations, losses=thinned(result.losses))
            for seed, result in runs.items()
        }
        for arm, runs in results.items()
    }


def _shorter(out: Path, plan: ComparisonPlan) -> dict[str, Variant]:
    """The same comparison at other lengths, as far as it is finished."""
    return {f"{share:g}": found for share in plan.lengths if (found := _variant(length_folder(out, share)))}


def _trends(shorter: Mapping[str, Variant], scores: Mapping[str, Mapping[int, float]], metric: Metric) -> list[Trend]:
    if not shorter:
        return []
    by_length = {float(share): {arm: row.scores for arm, row in found.arms.items()} for share, found in shorter.items()}
    by_length[1.0] = {arm: {str(seed): score for seed, score in runs.items()} for arm, runs in scores.items()}
    return trends(by_length, metric.sign, metric.resolution)


def _tuning(out: Path, plan: ComparisonPlan, metric: Metric) -> Tuning | None:
    if plan.tuning is None:
        return None
    return Trials(plan, plan.tuning, tasks.read(plan.task), metric.higher_is_better, out).read()


def _variant(out: Path) -> Variant | None:
    """A comparison within another one's folder, as far as it is finished."""
    if not (out / PLAN).is_file():
        return None
    try:
        record = summarise(out)
    except NothingFinished:
        return None
    return Variant(seeds=record.seeds, arms=record.arms, verdict=record.verdict, failures=record.failures)


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
    architecture, training = plan.architectures[arm], plan.training_of(arm)
    setting = training.cost_setting(plan.tokens)
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
