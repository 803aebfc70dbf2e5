"""All arms of a comparison judged together: which pairs, under one error rate, and how many runs failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import computed_field

from leanformer.experiments import sentences
from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW
from leanformer.experiments.judging.estimates import Effects, Scores, effects
from leanformer.experiments.judging.failures import BadRuns, bad_runs
from leanformer.experiments.judging.stopping_rules import Rule
from leanformer.experiments.judging.verdicts import Outcome, Outcomes, Pair, Verdict, judge_pairs
from leanformer.foundation.records.base import RecordPart
from leanformer.tasks.base import Metric


class ComparisonVerdict(RecordPart):
    """Lean against the original and against the control, other arms against the original, and where it comes from."""

    lean: dict[str, Verdict]
    """By the arm that lean is compared with."""
    others: dict[str, Verdict]
    """Other arms against the original, by name."""
    effects: Effects | None
    unit: str = ""
    bad_runs: dict[str, BadRuns] = {}
    """By arm, in records since 0.2."""

    @property
    def verdicts(self) -> list[Verdict]:
        return [*self.lean.values(), *self.others.values()]

    @property
    def main(self) -> Verdict | None:
        """Lean against the original; where there is no lean, the first other arm."""
        return self.lean.get(ORIGINAL) or next((found for found in self.others.values() if not self.lean), None)

    def between(self, arm: str, against: str) -> Verdict | None:
        """The verdict of one arm against another, if it was asked for."""
        return next((found for found in self.verdicts if (found.arm, found.against) == (arm, against)), None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Outcome | None:
        return self.main.outcome if self.main else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def words(self) -> str:
        return self.all_words[0] if self.all_words else sentences.NOTHING_TO_COMPARE

    @computed_field  # type: ignore[prop-decorator]
    @property
    def all_words(self) -> list[str]:
        found = [verdict.words for verdict in self.verdicts]
        if self.effects is not None and self.effects.total.t is not None:
            found.append(sentences.attribution(self.effects, self.unit))
        found += [sentences.over_samples(verdict) for verdict in self.verdicts if verdict.samples]
        found += [sentences.dominated(verdict) for verdict in self.verdicts if verdict.dominated_by is not None]
        if self.bad_runs:
            found.append(sentences.bad_runs(self.bad_runs))
        return found


def judge_arms(
    scores: Scores,
    margin: float,
    metric: Metric,
    *,
    against: str = ORIGINAL,
    rule: Rule | None = None,
    diverged: Sequence[str] = (),
    outcomes: Mapping[str, Outcomes] | None = None,
    controls: Sequence[str] = (SHALLOW,),
) -> ComparisonVerdict:
    """Lean against original and control, every other arm against the original, all under one error rate.

    Args:
        scores: by arm, the score of every seed that finished.
        margin: what difference would matter, in the metric's units.
        metric: what was scored.
        against: the arm that others are compared with.
        rule: when results are looked at [default: once, at the seeds that are there].
        diverged: the arm of each run that diverged.
        outcomes: by arm and seed, the outcome of every held-out sample, where they are known.
        controls: what lean is compared with beside the original; other arms are compared with the original.
    """
    usual = against == ORIGINAL and LEAN in scores
    others = [arm for arm in scores if arm not in ((ORIGINAL, *controls, LEAN) if usual else (against,))]
    asked = [(LEAN, other) for other in (ORIGINAL, *controls)] if usual else []
    known: Mapping[str, Outcomes] = outcomes or {}
    pairs = [
        Pair(arm, other, scores[arm], scores[other], known.get(arm, {}), known.get(other, {}))
        for arm, other in (*asked, *((arm, against) for arm in others))
        if scores.get(arm, {}).keys() & scores.get(other, {}).keys()
    ]
    found = judge_pairs(
        pairs,
        margin,
        rule=rule,
        sign=metric.sign,
        unit=metric.unit,
        resolution=metric.resolution,
        diverged=list(diverged),
    )
    return ComparisonVerdict(
        lean={verdict.against: verdict for verdict in found if usual and verdict.arm == LEAN},
        others={verdict.arm: verdict for verdict in found if not usual or verdict.arm != LEAN},
        effects=effects(scores, metric.sign, metric.resolution, rule) if usual else None,
        unit=metric.unit,
        bad_runs=bad_runs(
            {arm: list(runs.values()) for arm, runs in scores.items()}, list(diverged), margin, metric.sign
        ),
    )
