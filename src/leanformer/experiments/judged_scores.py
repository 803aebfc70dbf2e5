"""Verdicts on anybody's scores: what a comparison says, for runs that were trained elsewhere."""

from __future__ import annotations

from typing import Any

from leanformer.experiments.arms import ORIGINAL
from leanformer.experiments.comparison_records import ArmResult, Comparison
from leanformer.experiments.judging.estimates import estimate
from leanformer.experiments.judging.judgement import judge_arms
from leanformer.experiments.judging.scores import ScoreTable, unpaired
from leanformer.experiments.judging.sources import read_scores
from leanformer.experiments.judging.stopping_rules import ALWAYS, Rule, fixed
from leanformer.experiments.registration import wanted_rule
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.tasks.base import Metric


def judge(
    scores: Any,
    *,
    margin: float,
    against: str | None = None,
    metric: str = "score",
    unit: str = "",
    higher_is_better: bool = True,
    resolution: float = 0.0,
    until: str | None = None,
    max_seeds: int | None = None,
    unplanned: bool = False,
    key: str = "",
    name: str = "",
) -> Comparison:
    """Whether arms hold against one of them, from their scores alone; returns the record of a comparison.

    >>> lf.judge("scores.csv", margin=0.5).verdict.words

    Args:
        scores: a .csv, .tsv, .jsonl or .json file with arm, seed and score (and sample, if each row is the outcome of
            one held-out sample); a folder of runs of timm's script or of transformers' Trainer; a pandas data frame;
            rows as dictionaries; or {arm: {seed: score}}.
        margin: by how much an arm may be worse and still hold, in the score's units.
        against: the arm that others are compared with [default: "original" if there is one, else the first].
        metric: what the score is called.
        unit: "%" shows differences in points, and turns samples that are right or wrong into percentages.
        higher_is_better: False for losses and errors.
        resolution: the smallest step between two scores, such as 100 / number of held-out samples.
        until: "decided" if seeds are added at planned looks until the verdict is decided.
        max_seeds: upper limit of seeds with `until` [default: 30].
        unplanned: whether seeds were added after looking at results. The interval is then valid at any number of seeds.
        key: which number is the score, in folders of runs: a column of timm's summary.csv [default: eval_top1] or a key
            of the Trainer's log history [default: eval_accuracy].
        name: name of the comparison in the report.
    """
    if unplanned and until is not None:
        raise ValueError("seeds are added by a plan (until='decided') or without one (unplanned=True), not both")
    planned = wanted_rule(None, until, max_seeds)
    found = read_scores(scores, key=key, unit=unit)
    reference = against or (ORIGINAL if ORIGINAL in found.scores else found.arms[0])
    if reference not in found.scores:
        raise ValueError(f"{found.source} has no arm {reference!r}; it has {', '.join(found.arms)}")
    if len(found.scores) < 2:
        raise ValueError(f"{found.source} has one arm, {found.arms[0]}; a verdict needs at least two")
    asked = Metric(metric, unit, higher_is_better, resolution)
    rule = planned or (ALWAYS if unplanned else None)
    failed = [f"{arm}, seed {seed}" for arm, seed in found.failed]
    return Comparison(
        name=name or found.source,
        source=found.source,
        seeds=found.seeds,
        budget=None,
        margin=margin,
        metric=asked,
        arms={arm: _arm(arm, found, rule) for arm in found.arms},
        verdict=judge_arms(
            found.scores,
            margin,
            asked,
            against=reference,
            rule=rule,
            diverged=[arm for arm, _ in found.failed],
            outcomes=found.outcomes,
        ),
        failures={run: f"{run} has no finite score and counts as a run that failed" for run in failed},
        task=None,
        training=None,
        notes=[*found.notes, *unpaired(found, reference)],
        runs={},
        **fields_of(circumstances()),
    )


def _arm(arm: str, found: ScoreTable, rule: Rule | None) -> ArmResult:
    scores = found.scores[arm]
    return ArmResult(
        name=arm,
        architecture=None,
        params=None,
        forward_macs=None,
        memory_bytes=None,
        step_seconds=None,
        steps=None,
        score=estimate(list(scores.values()), rule=rule or fixed(len(scores))) if scores else None,
        scores={str(seed): score for seed, score in scores.items()},
        kappa=None,
    )
