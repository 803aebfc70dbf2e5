"""GLUE after pre-training: every task that is available, every arm, every seed, in one table (glue.json).

Tasks whose data are missing are named as missing. The average is over the others, the same for every arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pydantic import computed_field

from leanformer.data.glue import GLUE_TASKS
from leanformer.data.hub import NotAvailable
from leanformer.experiments import recipes, sentences
from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW, ArmName
from leanformer.experiments.comparison import place_of, run_comparison
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.hooks import Listener, Planned, Say, reporting
from leanformer.experiments.judging.estimates import Estimate, estimate
from leanformer.experiments.judging.verdicts import Pair, Verdict, judge_pairs
from leanformer.experiments.overrides import Settings, adjusted
from leanformer.experiments.summary import RECORD as COMPARISON
from leanformer.foundation import storage
from leanformer.foundation.arguments import check_types, names
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.base import Json, Migration, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.foundation.records.keeping import keep, publish
from leanformer.runners import Where
from leanformer.tasks.sentence_classes import SentenceClasses

RECORD = "glue.json"
MARGIN = 1.0
"""Points of the average that matter."""


class TaskScore(RecordPart):
    score: Estimate | None
    scores: dict[str, float]
    """By seed."""


class TaskScores(RecordPart):
    """One task of GLUE."""

    metric: str
    arms: dict[ArmName, TaskScore]
    words: list[str]
    failures: dict[str, str]


def _from_version_1(written: Json) -> Json:
    """0.1 stored the sentences of the average; now they are composed from the scores."""
    arms = {arm: [task["arms"][arm]["scores"] for task in written["tasks"].values()] for arm in written["params"]}
    averages = {arm: _averages(scores) for arm, scores in arms.items()}
    found = [verdict.model_dump() for verdict in _verdicts(averages)]
    return {**{key: value for key, value in written.items() if key != "words"}, "verdicts": found}


class Glue(DatedRecord):
    """GLUE's tasks by arm."""

    kind: ClassVar[str] = "glue"
    version: ClassVar[int] = 2
    migrations: ClassVar[Mapping[int, Migration]] = {1: _from_version_1}

    tasks: dict[str, TaskScores]
    average: dict[ArmName, Estimate]
    params: dict[ArmName, int]
    missing: dict[str, str]
    """Tasks without data here, and why."""
    verdicts: list[Verdict]
    """Lean's average against that of the original and of the control."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def words(self) -> list[str]:
        return [verdict.words for verdict in self.verdicts]

    def sentences(self) -> list[str]:
        return [*self.words, *(sentences.missing_task(name, why) for name, why in self.missing.items())]

    def __repr__(self) -> str:
        return f"Glue({', '.join(self.tasks)}: arms {', '.join(self.params)})"

    __str__ = __repr__


def glue(
    start: str | Path,
    *,
    tasks: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    data: str | Path | None = None,
    budget: str | None = None,
    settings: Settings = (),
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
) -> Glue:
    """Fine-tune the models of a pre-training comparison on GLUE; returns the record that glue.json keeps.

    Args:
        start: the folder of a finished comparison of masked language models.
        tasks: which of GLUE's, such as ["sst2", "rte"] or "sst2,rte" [default: all eight]. Those without data here are
            named in the record's `missing`.
        data: the folder that holds glue/ [default: LEANFORMER_DATA].
        out: the folder [default: START/glue].
        report: whether to write the table and the figure too.
        seeds, budget, settings, on, jobs, retries, cpus, gpus, memory, progress, say, planned, listen: as for
            `lf.compare`.
    """
    check_types(locals())
    where = Where.of(locals())
    wanted = names(tasks) or list(GLUE_TASKS)
    if unknown := [name for name in wanted if name not in GLUE_TASKS]:
        raise ValueError(f"there is no GLUE task {', '.join(unknown)}; there are {', '.join(GLUE_TASKS)}")
    chosen = {name: adjusted(recipes.recipe(f"glue-{name}"), start=start, settings=settings) for name in wanted}
    folder = place_of(Path(start) / "glue" if out is None else out, "")
    found: dict[str, Comparison] = {}
    missing: dict[str, str] = {}
    with reporting(progress, say, planned, listen) as hooks:
        for name, recipe in chosen.items():
            task = recipe.task if data is None else recipe.task.with_data(data)
            assert isinstance(task, SentenceClasses)
            try:
                task.find()
            except NotAvailable as error:
                missing[name] = str(error)
                hooks.say(f"{name} is left out: {error}")
                continue
            chosen_task = replace(recipe, name=name, task=task)
            compared = run_comparison(chosen_task, folder / name, seeds=seeds, budget=budget, where=where, hooks=hooks)
            assert compared is not None
            found[name] = compared
            if is_first_process():
                keep(found[name], folder / name / COMPARISON)
        if not found:
            raise ValueError("no task of GLUE is available here: " + "; ".join(missing.values()))
        record = _record(found, missing)
        if is_first_process():
            publish(record, folder / RECORD, report=report, say=hooks.say)
            storage.send(folder)
    return record


def _record(found: Mapping[str, Comparison], missing: Mapping[str, str]) -> Glue:
    arms = list(dict.fromkeys(arm for record in found.values() for arm in record.arms))
    averages = {arm: _averages([record.arms[arm].scores for record in found.values()]) for arm in arms}
    return Glue(
        tasks={
            name: TaskScores(
                metric=record.metric.name,
                arms={arm: TaskScore(score=row.score, scores=row.scores) for arm, row in record.arms.items()},
                words=record.verdict.all_words,
                failures=record.failures,
            )
            for name, record in found.items()
        },
        average={arm: estimate(list(values.values())) for arm, values in averages.items() if values},
        params={arm: row.params or 0 for arm, row in next(iter(found.values())).arms.items()},
        missing=dict(missing),
        verdicts=_verdicts(averages),
        **fields_of(circumstances()),
    )


def _verdicts(averages: Mapping[str, Mapping[int, float]]) -> list[Verdict]:
    pairs = [
        Pair(LEAN, against, averages[LEAN], averages[against])
        for against in (ORIGINAL, SHALLOW)
        if averages.get(LEAN, {}).keys() & averages.get(against, {}).keys()
    ]
    return judge_pairs(pairs, MARGIN, unit="%")


def _averages(scores: Sequence[Mapping[str, float]]) -> dict[int, float]:
    """For every seed that all tasks have, the mean over tasks."""
    seeds = set.intersection(*(set(by_seed) for by_seed in scores))
    return {int(seed): sum(by_seed[seed] for by_seed in scores) / len(scores) for seed in sorted(seeds, key=int)}
