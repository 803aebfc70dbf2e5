"""Studies and runs as the page shows them, finished or while they train.

A study under way is judged from its plan and from the runs that have finished, by the rules of `compare`. Nothing of a
user's task is imported, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leanformer.app.folders import RESULT, RUN, Folder
from leanformer.architecture import Architecture
from leanformer.experiments.arms import RANDOM, SHALLOW
from leanformer.experiments.comparison_records import ArmResult, Comparison, RunCurves
from leanformer.experiments.glue import Glue
from leanformer.experiments.judging.estimates import Estimate, estimate
from leanformer.experiments.judging.judgement import ComparisonVerdict, judge_arms
from leanformer.experiments.judging.verdicts import Verdict
from leanformer.experiments.own_loop.records import PLAN as OWN_PLAN
from leanformer.experiments.own_loop.records import OwnPlan
from leanformer.experiments.own_loop.result import OwnResult
from leanformer.experiments.plan import PLAN, ComparisonPlan, folder_of
from leanformer.experiments.sentences import as_sentence
from leanformer.experiments.status import RunStatus, Status, status
from leanformer.experiments.summary import RECORD, thinned
from leanformer.experiments.sweep import PLAN as SWEEP_PLAN
from leanformer.experiments.sweep import RECORD as SWEEP
from leanformer.experiments.sweep_records import Sweep, SweepPlan
from leanformer.foundation import formats
from leanformer.foundation.records.files import read_lines
from leanformer.report import cells, comparison, glue, sweep
from leanformer.tasks.base import Metric
from leanformer.training.result import Evaluation, KappaOverLayers, Result

Json = dict[str, Any]
GLUE = "glue.json"


def study(folder: Folder, place: str) -> Json:
    """A study: its record or what is known so far, and the state of its runs."""
    path = folder.inside(place)
    folder.check_links(path)
    runs = _status(path)
    shown: Json = {"place": place, "runs": [run.model_dump() for run in runs.runs] if runs else []}
    shown["over"] = runs is None or runs.is_over
    shown["states"] = runs.sentences() if runs else []
    if (path / SWEEP).is_file() or (path / SWEEP_PLAN).is_file():
        return shown | _sweep(folder, path)
    if (path / GLUE).is_file():
        return shown | _glue(folder, path)
    return shown | _comparison(folder, path, runs)


def _status(path: Path) -> Status | None:
    try:
        return status(path)
    except ValueError:  # a record without runs
        return None


# Comparisons


def _comparison(folder: Folder, path: Path, runs: Status | None) -> Json:
    record, plan = path / RECORD, path / PLAN
    newest = max((_changed(path / run.place / RESULT) for run in runs.of("done")), default=0.0) if runs else 0.0
    if record.is_file() and _changed(record) >= newest:
        return recorded_comparison(Comparison.parse(folder.plain(record), RECORD))
    if plan.is_file():
        return _comparison_so_far(folder, path, runs)
    if (path / OWN_PLAN).is_file():
        return _own_comparison_so_far(folder, path)
    return recorded_comparison(Comparison.parse(folder.plain(record), RECORD))


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def recorded_comparison(record: Comparison) -> Json:
    """A record as the page shows it."""
    return {
        "kind": "comparison",
        "name": record.name,
        "source": record.source,
        "metric": asdict(record.metric),
        "margin": record.margin,
        "outcome": record.verdict.outcome,
        "sentences": [as_sentence(phrase) for phrase in record.sentences()],
        "table": {"head": comparison.headings(record), "rows": comparison.rows(record)},
        "differences": _differences(record.verdict),
        "scores": {name: arm.scores for name, arm in record.arms.items()},
        "curves": {arm: {seed: _curve(run) for seed, run in runs.items()} for arm, runs in record.runs.items()},
        "command": record.command,
        "complete": True,
    }


def _differences(verdict: ComparisonVerdict) -> list[Json]:
    return [_difference(found) for found in verdict.verdicts]


def _difference(found: Verdict) -> Json:
    interval = found.difference.t
    return {
        "title": f"{found.arm} against {found.against}",
        "outcome": found.outcome,
        "mean": found.difference.mean,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": found.difference.seeds,
        "margin": found.margin,
        "unit": found.unit,
    }


def _curve(run: RunCurves | Result | OwnResult) -> Json:
    return {
        "evaluations": [_evaluation(point) for point in run.evaluations],
        "losses": thinned(run.losses),
    }


def _evaluation(point: Evaluation) -> Json:
    kappa: KappaOverLayers | None = point.kappa
    return {
        "step": point.step,
        "scores": point.scores,
        "kappa": kappa.median_over_layers if kappa else None,
        "layers": kappa.layers if kappa else None,
    }


def _comparison_so_far(folder: Folder, path: Path, runs: Status | None) -> Json:
    plan = ComparisonPlan.parse(folder.plain(path / PLAN), PLAN)
    results: dict[str, dict[int, Result]] = {arm: {} for arm in plan.arms}
    failed = []
    for arm, seed in plan.runs():
        state = _state_of(runs, path, arm, seed)
        if state == "done":
            results[arm][seed] = Result.parse(folder.plain(folder_of(path, arm, seed) / RESULT), RESULT)
        elif state == "failed":
            failed.append(arm)
    known = next((result for found in results.values() for result in found.values()), None)
    curves: Json = {
        arm: {
            str(seed): _curve_so_far(folder, folder_of(path, arm, seed), results[arm].get(seed)) for seed in plan.seeds
        }
        for arm in plan.arms
    }
    head = {"kind": "comparison", "name": plan.name, "source": plan.source, "margin": plan.margin, "curves": curves}
    head |= {"command": plan.circumstances.command, "complete": False}
    if known is None:
        return head | _nothing_yet()
    scores = {arm: {seed: result.score for seed, result in found.items()} for arm, found in results.items()}
    verdict = judge_arms(
        scores,
        plan.margin,
        known.metric,
        rule=plan.rule,
        diverged=failed,
        controls=(SHALLOW, RANDOM) if plan.pretrained else (SHALLOW,),
    )
    arms = {arm: _arm(arm, plan.architectures[arm], plan.steps[arm], found) for arm, found in results.items()}
    return head | _judged(known.metric, verdict, arms, scores)


def _state_of(runs: Status | None, path: Path, arm: str, seed: int) -> str:
    place = str(folder_of(path, arm, seed).relative_to(path))
    return next((run.state for run in runs.runs if run.place == place), "queued") if runs else "queued"


def _nothing_yet() -> Json:
    words = ["No run has finished yet."]
    return {"metric": None, "outcome": None, "sentences": words, "table": None, "differences": [], "scores": {}}


def _arm(name: str, architecture: Architecture | None, steps: int | None, found: Mapping[int, Result]) -> ArmResult:
    scores = [result.score for result in found.values()]
    kappas = [last.median_over_layers for result in found.values() if (last := result.evaluations[-1].kappa)]
    return ArmResult(
        name=name,
        architecture=architecture,
        params=next((result.params for result in found.values()), None),
        forward_macs=None,
        memory_bytes=None,
        step_seconds=None,
        steps=steps,
        score=estimate(scores) if scores else None,
        scores={str(seed): result.score for seed, result in found.items()},
        kappa=sorted(kappas)[len(kappas) // 2] if kappas else None,
    )


def _judged(
    metric: Metric, verdict: ComparisonVerdict, arms: Mapping[str, ArmResult], scores: Mapping[str, Any]
) -> Json:
    head = ["arm", "layers", "heads", "MLP", "params", cells.metric_with_unit(metric), "κ"]
    rows = [
        [
            arm.name,
            *(cell(arm) for cell in (cells.layers, cells.heads, cells.mlp)),
            formats.parameters(arm.params),
            cells.score(arm.score, metric.unit),
            formats.significant(arm.kappa),
        ]
        for arm in arms.values()
    ]
    return {
        "metric": asdict(metric),
        "outcome": verdict.outcome,
        "sentences": [
            "So far, by the runs that have finished:",
            *map(as_sentence, verdict.all_words or [verdict.words]),
        ],
        "table": {"head": head, "rows": rows},
        "differences": _differences(verdict),
        "scores": {arm: {str(seed): score for seed, score in found.items()} for arm, found in scores.items()},
    }


def _own_comparison_so_far(folder: Folder, path: Path) -> Json:
    plan = OwnPlan.parse(folder.plain(path / OWN_PLAN), OWN_PLAN)
    results: dict[str, dict[int, OwnResult]] = {arm: {} for arm in plan.arms}
    for arm, seed in plan.runs():
        file = folder_of(path, arm, seed) / RESULT
        if file.is_file():
            results[arm][seed] = OwnResult.parse(folder.plain(file), RESULT)
    head: Json = {"kind": "comparison", "name": plan.name, "source": plan.trained_by, "margin": plan.margin}
    head["curves"] = {arm: {str(seed): _curve(run) for seed, run in found.items()} for arm, found in results.items()}
    head |= {"command": plan.circumstances.command, "complete": False}
    if not any(results.values()):
        return head | _nothing_yet()
    scores = {arm: {seed: run.score for seed, run in found.items()} for arm, found in results.items()}
    verdict = judge_arms(scores, plan.margin, plan.metric, rule=plan.rule)
    arms = {}
    for arm, found in scores.items():
        known = _arm(arm, plan.arms[arm].architecture, None, {})
        values = list(found.values())
        extra: Json = {"sizes": plan.arms[arm].sizes, "params": plan.arms[arm].params}
        arms[arm] = known.model_copy(update=extra | {"score": estimate(values) if values else None})
    return head | _judged(plan.metric, verdict, arms, scores)


# Sweeps and GLUE


def _sweep(folder: Folder, path: Path) -> Json:
    if (path / SWEEP).is_file():
        record = Sweep.parse(folder.plain(path / SWEEP), SWEEP)
        return {
            "kind": "sweep",
            "name": record.name,
            "metric": asdict(record.metric),
            "axes": record.axes,
            "varied": record.varied,
            "sentences": [as_sentence(phrase) for phrase in record.sentences()],
            "table": {"head": sweep.headings(record), "rows": sweep.rows(record)},
            "cells": [
                {"title": record.title(cell), "values": cell.values, **_interval(cell.score)} for cell in record.cells
            ],
            "differences": [
                {"title": record.title(cell), "outcome": None, "margin": None, "unit": record.metric.unit}
                | _interval(cell.difference)
                for cell in record.cells
                if cell.difference
            ],
            "command": record.command,
            "complete": True,
        }
    plan = SweepPlan.parse(folder.plain(path / SWEEP_PLAN), SWEEP_PLAN)
    found = []
    for cell in plan.cells:
        home = path / cell.place if cell.place else path
        files = sorted((home / cell.arm).glob("seed-*/" + RESULT))
        scores = [Result.parse(folder.plain(file), RESULT).score for file in files]
        score = estimate(scores) if scores else None
        found.append({"title": cell.arm, "values": cell.values, **_interval(score)})
    done = sum(cell["seeds"] > 0 for cell in found)
    words = [f"{done} of {formats.counted(len(found), 'cell')} have results so far."]
    head: Json = {"kind": "sweep", "name": plan.name, "metric": None, "axes": plan.axes, "varied": list(plan.axes)}
    return head | {"sentences": words, "table": None, "cells": found, "differences": [], "complete": False}


def _interval(found: Estimate | None) -> Json:
    if found is None:
        return {"mean": None, "low": None, "high": None, "seeds": 0}
    low, high = (found.t.low, found.t.high) if found.t else (None, None)
    return {"mean": found.mean, "low": low, "high": high, "seeds": found.seeds}


def _glue(folder: Folder, path: Path) -> Json:
    record = Glue.parse(folder.plain(path / GLUE), GLUE)
    return {
        "kind": "glue",
        "name": "GLUE",
        "sentences": [as_sentence(phrase) for phrase in record.sentences()],
        "table": {"head": glue.headings(record), "rows": glue.rows(record)},
        "differences": [_difference(found) for found in record.verdicts],
        "complete": True,
    }


# Runs


def run(folder: Folder, place: str) -> Json:
    """One run: what it is, and what is known of it so far."""
    path = folder.inside(place)
    folder.check_links(path)
    shown: Json = {"place": place, "model": (path / "model").is_dir()}
    result = _result(folder, path)
    described = folder.plain(path / RUN) if (path / RUN).is_file() else {}
    if not isinstance(described, dict):
        raise ValueError(f"{RUN} is damaged: it holds no JSON object")
    now = _run_status(path)
    shown |= {"state": now.state, "step": now.step, "steps": now.steps, "where": now.where, "reason": now.reason}
    shown |= {"seconds_left": now.seconds_left, "step_seconds": now.step_seconds}
    settings = {key: described[key] for key in ("task", "training", "start") if described.get(key)}
    if isinstance(result, Result):
        shown |= {"metric": asdict(result.metric), "params": result.params, "source": result.source}
        shown |= {"baselines": result.baselines, "architecture": str(result.architecture)}
    elif result is not None:
        shown |= {"metric": {"name": result.metric, "unit": "", "higher_is_better": True}, "params": None}
    else:
        shown |= {"metric": None, "params": None, "architecture": _architecture(described.get("architecture"))}
    return shown | {
        "name": str(result.name if result else described.get("name", path.name)),
        "seed": result.seed if result else described.get("seed"),
        "final": result.final if result else None,
        "settings": settings,
        **_curve_so_far(folder, path, result),
    }


def _architecture(written: Any) -> str:
    try:
        return str(Architecture.from_dict(written))
    except (ValueError, TypeError, AttributeError):
        return ""


def _run_status(path: Path) -> RunStatus:
    runs = _status(path)
    found = next((run for run in runs.runs if run.place == "."), None) if runs else None
    if found is not None:
        return found
    done = (path / RESULT).is_file()
    return RunStatus(place=".", name="", seed=0, state="done" if done else "queued", step=int(done), steps=1)


def _result(folder: Folder, path: Path) -> Result | OwnResult | None:
    if not (path / RESULT).is_file():
        return None
    written = folder.plain(path / RESULT)
    is_own = isinstance(written, dict) and written.get("kind") == OwnResult.kind
    return OwnResult.parse(written, RESULT) if is_own else Result.parse(written, RESULT)


def _curve_so_far(folder: Folder, path: Path, result: Result | OwnResult | None) -> Json:
    """The curve of a result, or of the evaluations that a run has written down until now."""
    if result is not None:
        return _curve(result)
    points, file = [], path / "records.jsonl"
    if file.is_file() and file.resolve().is_relative_to(folder.root):
        for line in read_lines(file):
            try:
                points.append(_evaluation(Evaluation.model_validate(line)))
            except ValidationError:
                continue
    return {"evaluations": points, "losses": []}
