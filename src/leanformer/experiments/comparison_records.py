"""The record of a comparison: what each arm costs and scores, the verdict, and every run's curves (comparison.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from leanformer.experiments import sentences
from leanformer.experiments.arms import LEAN, ORIGINAL, ArmLabel
from leanformer.experiments.budgets import Budget
from leanformer.experiments.judging.estimates import Estimate
from leanformer.experiments.judging.judgement import ComparisonVerdict
from leanformer.experiments.judging.stopping_rules import FEWEST_SEEDS
from leanformer.experiments.judging.verdicts import decide
from leanformer.experiments.lengths import Trend
from leanformer.experiments.registration import Amendment
from leanformer.experiments.tuning.records import Tuning
from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, PossiblyInfinite, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord
from leanformer.tasks.base import Metric
from leanformer.training.result import Evaluation, with_current_task
from leanformer.training.run import PlainTraining


class ArmResult(RecordPart):
    """What an arm costs and what it scored."""

    name: ArmLabel
    architecture: PlainArchitecture | None
    """None for a model of the user's own, of which only `sizes` are known."""
    sizes: dict[str, Any] = {}
    """What the user's own function or command was given to make the model."""
    params: int | None
    forward_macs: float | None
    """Multiply-accumulates of a forward pass, per sample."""
    memory_bytes: float | None
    """Training memory: parameters, optimizer states, and the more of activations and gradients."""
    step_seconds: float | None
    run_seconds: float | None = None
    """A whole run in the user's own training loop, whose steps are not seen: the median over seeds."""
    steps: int | None
    score: Estimate | None
    """None as long as no run has finished."""
    scores: dict[str, float]
    """By seed."""
    kappa: PossiblyInfinite | None
    """κ of the attention at the end: the median over layers, samples and seeds."""


class Variant(RecordPart):
    """The same comparison under other conditions: with every arm at its own best settings, or at another length."""

    seeds: Sequence[int | str]
    arms: dict[ArmLabel, ArmResult]
    verdict: ComparisonVerdict
    failures: dict[str, str]


class RunCurves(RecordPart):
    """One run along its training."""

    evaluations: list[Evaluation]
    losses: list[tuple[int, float]]


def _from_version_1(written: Json) -> Json:
    """0.1 stored sentences; now they are composed from the facts, for which a verdict needs its unit."""
    verdict, unit = written["verdict"], written["metric"]["unit"]
    failed = [key.rpartition(", seed ")[0] for key in written["failures"]]

    def upgraded(found: Json) -> Json:
        estimate = Estimate.model_validate(found["difference"])
        enough = estimate.seeds >= FEWEST_SEEDS
        return {
            **{key: found[key] for key in ("arm", "against", "difference", "margin", "more_seeds")},
            "outcome_of_finished": decide(estimate.t, found["margin"]) if enough else "cannot tell",
            "unit": unit,
            "diverged": {arm: failed.count(arm) for arm in (found["arm"], found["against"]) if arm in failed},
        }

    return {
        **with_current_task(written),
        "verdict": {
            "lean": {against: upgraded(found) for against, found in verdict["lean"].items()},
            "others": {arm: upgraded(found) for arm, found in verdict["others"].items()},
            "effects": verdict["effects"],
            "unit": unit,
        },
    }


def _from_version_2(written: Json) -> Json:
    """Version 2 took "better" and "lower" from the interval of each pair; now they are facts of their own."""

    def upgraded(found: Json) -> Json:
        interval = found["difference"]["t"]
        return {
            **found,
            "better": interval is not None and interval["low"] > 0,
            "lower": interval is not None and interval["high"] < 0,
        }

    verdict = written["verdict"]
    judged = {group: {name: upgraded(found) for name, found in verdict[group].items()} for group in ("lean", "others")}
    return {**written, "verdict": {**verdict, **judged}}


class Comparison(DatedRecord):
    """A comparison, finished or still running."""

    kind: ClassVar[str] = "comparison"
    version: ClassVar[int] = 3
    migrations: ClassVar[Mapping[int, Migration]] = {1: _from_version_1, 2: _from_version_2}

    name: str
    source: str
    """Where the data came from."""
    seeds: Sequence[int | str]
    """Numbers; names where others trained the runs."""
    budget: Budget | None
    """None, as `task` and `training` are, where the user's own loop trained."""
    margin: float
    amendments: list[Amendment] = []
    """What was changed when there were results already."""
    metric: Metric
    baselines: dict[str, float] = {}
    """What trivial answers score."""
    arms: dict[ArmLabel, ArmResult]
    verdict: ComparisonVerdict
    failures: dict[str, str]
    """Runs that diverged or crashed, and why."""
    open_runs: dict[str, str] = {}
    """Runs without a result while the comparison is under way: what is known of each."""
    tuning: Tuning | None = None
    """What was found when settings were tuned for every arm."""
    tuned: Variant | None = None
    """With every arm at its own best settings; None as long as no such run has finished."""
    lengths: dict[str, Variant] = {}
    """The same comparison with fewer steps, by their share of the whole."""
    trends: list[Trend] = []
    """How the difference of lean against the original changes from each length to the next."""
    task: Json | None
    training: PlainTraining | None
    notes: list[str] = []
    """What could not be counted or measured, and why."""
    runs: dict[ArmLabel, dict[str, RunCurves]]
    """By arm and seed."""

    def sentences(self) -> list[str]:
        """The verdict first, then what follows from it."""
        failures = [sentences.did_not_finish(text) for text in self.failures.values()]
        amended = [change.words for change in self.amendments]
        found = [
            *([sentences.under_way(self.open_runs)] if self.open_runs else []),
            *self.verdict.all_words,
            *self._tuned_words(),
            *self._length_words(),
            *amended,
            *self._savings(),
            *failures,
        ] or [self.verdict.words]
        if self.baselines:
            trivial = {name: [value] for name, value in self.baselines.items()}
            found.append(sentences.baselines(self.metric.name, trivial))
        return [*found, *self.notes]

    def _tuned_words(self) -> list[str]:
        if self.tuning is None:
            return []
        found = [sentences.best_settings(self.tuning)]
        if self.tuned is not None:
            found.append(sentences.tuned(self.tuned.verdict.words))
            found.append(sentences.robustness(self.robust, self.verdict.outcome, self.tuned.verdict.outcome))
            found += [sentences.did_not_finish(text) for text in self.tuned.failures.values()]
        return found

    def _length_words(self) -> list[str]:
        found = [
            sentences.at_length(float(share), variant.verdict.words)
            for share, variant in self.lengths.items()
            if variant.verdict.main is not None
        ]
        return [*found, *(sentences.trend(trend, self.metric.unit) for trend in self.trends[-1:])]

    @property
    def robust(self) -> bool | None:
        """Whether the verdicts at the shared settings and at each arm's best agree; None if either cannot tell."""
        found = (self.verdict.outcome, self.tuned.verdict.outcome if self.tuned is not None else None)
        return None if None in found or "cannot tell" in found else found[0] == found[1]

    def _savings(self) -> list[str]:
        if not {LEAN, ORIGINAL} <= self.arms.keys():
            return []
        lean, original = self.arms[LEAN], self.arms[ORIGINAL]
        pairs = {
            "parameters": (lean.params, original.params),
            "training memory": (lean.memory_bytes, original.memory_bytes),
            "MACs": (lean.forward_macs, original.forward_macs),
            "time per step": (lean.step_seconds, original.step_seconds),
            "time per run": (lean.run_seconds, original.run_seconds),
        }
        shares = {name: ours / theirs for name, (ours, theirs) in pairs.items() if ours and theirs}
        return [sentences.savings(shares)] if shares else []

    def __repr__(self) -> str:
        return f"Comparison({self.name!r}, arms {', '.join(self.arms)}, {len(self.seeds)} seeds: {self.verdict.words})"

    __str__ = __repr__
