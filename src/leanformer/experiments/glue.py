"""GLUE after pre-training: every task that is at hand, every arm, every seed, in one table.

Tasks whose data are missing are named as missing; the average is over the others, the same for every arm. May import
comparison, recipes, statistics, records and tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from leanformer.experiments import recipes
from leanformer.experiments.comparison import Listener, Planned, compare
from leanformer.experiments.overrides import adjusted
from leanformer.experiments.verdicts import compare_pairs, estimate
from leanformer.records.circumstances import circumstances
from leanformer.records.files import plain, write_text
from leanformer.tasks.sentence_classes import GLUE_TASKS, NotAvailable, SentenceClasses

MARGIN = 1.0
"""Points of the average that matter."""


def glue(
    start: str | Path,
    *,
    tasks: Sequence[str] = tuple(GLUE_TASKS),
    out: str | Path | None = None,
    seeds: int | None = None,
    data: str | None = None,
    settings: Sequence[str] = (),
    budget: str | None = None,
    jobs: int | None = None,
    say: Callable[[str], None] = lambda message: None,
    planned: Planned = lambda plan, runs: None,
    listen: Listener = lambda arm, seed, event: None,
) -> dict[str, Any]:
    """Fine-tune the models of a pre-training comparison on GLUE; returns the record that glue.json keeps.

    Args:
        start: the folder of a finished comparison of masked language models.
        tasks: which of GLUE's; those without data here are named in the record's `missing`.
        out, seeds, settings, budget, jobs, say, planned, listen: as for `compare`.
        data: the folder that holds glue/ [default: LEANFORMER_DATA].
    """
    if unknown := [name for name in tasks if name not in GLUE_TASKS]:
        raise ValueError(f"there is no GLUE task {', '.join(unknown)}; there are {', '.join(GLUE_TASKS)}")
    out = Path(out) if out is not None else Path(start) / "glue"
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for name in tasks:
        recipe = adjusted(recipes.recipe(f"glue-{name}"), start=str(start), data=data, settings=settings)
        assert isinstance(recipe.task, SentenceClasses)
        try:
            recipe.task.find()
        except NotAvailable as error:
            missing[name] = str(error)
            say(f"{name} is left out: {error}")
            continue
        shared = dict(seeds=seeds, budget=budget, jobs=jobs, say=say, planned=planned, listen=listen)
        found[name] = compare(replace(recipe, name=name), out=out / name, **shared)  # type: ignore[arg-type]
    if not found:
        raise ValueError("no task of GLUE is at hand: " + "; ".join(missing.values()))
    record = _record(found, missing)
    write_text(out / "glue.json", json.dumps(plain(record), indent=1, allow_nan=False) + "\n")
    return record


def _record(found: Mapping[str, Mapping[str, Any]], missing: Mapping[str, str]) -> dict[str, Any]:
    arms = list(dict.fromkeys(arm for record in found.values() for arm in record["arms"]))
    averages = {arm: _averages([record["arms"][arm]["scores"] for record in found.values()]) for arm in arms}
    words = [
        compare_pairs("lean", against, averages["lean"], averages[against], MARGIN, unit="%").words
        for against in ("original", "shallow")
        if averages.get("lean", {}).keys() & averages.get(against, {}).keys()
    ]
    return {
        "kind": "glue",
        "tasks": {
            name: {
                "metric": record["metric"]["name"],
                "arms": {arm: {key: row[key] for key in ("score", "scores")} for arm, row in record["arms"].items()},
                "words": record["verdict"]["all_words"],
                "failures": record["failures"],
            }
            for name, record in found.items()
        },
        "average": {arm: asdict(estimate(list(values.values()))) for arm, values in averages.items() if values},
        "params": {arm: row["params"] for arm, row in next(iter(found.values()))["arms"].items()},
        "missing": dict(missing),
        "words": words,
        **circumstances().model_dump(),
    }


def _averages(scores: Sequence[Mapping[str, float]]) -> dict[int, float]:
    """For every seed that all tasks have, the mean over tasks."""
    seeds = set.intersection(*(set(by_seed) for by_seed in scores))
    return {int(seed): sum(by_seed[seed] for by_seed in scores) / len(scores) for seed in sorted(seeds, key=int)}
