"""One arm against another: holds, loses or cannot tell, against a margin that was stated before.

An arm **holds** if it is worse by at most the margin (non-inferiority). It is **better** if its difference is above
zero, and **equivalent** if it is neither better nor worse by more than the margin. Where several pairs are judged, each
claim is made only if it survives Holm's correction, so that one error rate covers all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import computed_field
from scipy import special

from leanformer.experiments import sentences
from leanformer.experiments.judging.estimates import Estimate, Interval, differences, estimate, interval
from leanformer.experiments.judging.failures import dominating
from leanformer.experiments.judging.samples import SampleInterval, over_samples
from leanformer.experiments.judging.stopping_rules import ALWAYS, ERROR, FEWEST_SEEDS, MOST_SEEDS, Rule, fixed
from leanformer.foundation.records.base import RecordPart

POWER = 0.8

Outcome = Literal["holds", "loses", "cannot tell"]


Outcomes = Mapping[Any, Float[ndarray, " samples"]]
"""By seed, the outcome of every held-out sample."""


class Pair(NamedTuple):
    """What is judged: the scores of two arms, by seed."""

    arm: str
    against: str
    ours: Mapping[Any, float]
    theirs: Mapping[Any, float]
    our_outcomes: Outcomes = {}
    """Where they are known, for the interval over samples."""
    their_outcomes: Outcomes = {}


class Question(RecordPart):
    """Under which conditions a verdict was reached."""

    rule: Rule
    """When the results were looked at."""
    questions: int = 1
    """How many pairs were judged together."""
    error: float = ERROR
    """How often the truth may lie beyond one end of the interval: less than 2.5 % where several pairs are judged."""
    planned: int | None = None
    """Seeds of the next look, where it is not complete yet."""


class Verdict(RecordPart):
    """One arm against another. Differences are signed so that more is better."""

    arm: str
    against: str
    outcome_of_finished: Outcome
    """By the runs that finished."""
    difference: Estimate
    margin: float
    more_seeds: int | None
    """About how many more seeds would decide it, where it is undecided; None if more than anyone would run."""
    unit: str = ""
    """Of the score."""
    diverged: dict[str, int] = {}
    """Runs that diverged, by arm. An arm is not judged by its luckier runs."""
    question: Question | None = None
    """None in records that were judged once, by seeds whose number nobody wrote down before."""
    better: bool = False
    """Above zero, also after correction for several questions."""
    lower: bool = False
    """Below zero, likewise."""
    equivalent: bool = False
    """Neither better nor worse by more than the margin, likewise."""
    dominated_by: int | str | None = None
    """The seed that makes most of the spread, if one does."""
    samples: SampleInterval | None = None
    """For samples like the held-out ones, where the outcome of every sample is known."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> Outcome:
        return "cannot tell" if self.diverged else self.outcome_of_finished

    @computed_field  # type: ignore[prop-decorator]
    @property
    def words(self) -> str:
        return sentences.verdict(self)


def judge_pairs(
    pairs: Sequence[Pair],
    margin: float,
    *,
    rule: Rule | None = None,
    sign: int = 1,
    unit: str = "",
    resolution: float = 0.0,
    diverged: Sequence[str] = (),
) -> list[Verdict]:
    """A verdict for every pair, over the seeds that both arms have finished, all under one error rate.

    Args:
        pairs: what is judged.
        margin: what difference would matter, in the score's units.
        rule: when results are looked at [default: once, at the seeds that are there].
        sign: 1 where more is better, −1 where less is.
        unit: of the score, for the words.
        resolution: the smallest step between two scores.
        diverged: the arm of each run that diverged.
    """
    if not margin >= 0:
        raise ValueError(f"the margin must be a number of at least 0, got {margin}")
    judged = [_Judged(pair, margin, rule, sign, resolution, diverged) for pair in pairs]
    levels = holm(len(judged), lambda index, error: judged[index].outcome(error) != "cannot tell")

    def claimed(claim: Callable[[Interval], bool]) -> list[bool]:
        return [level.survived for level in holm(len(judged), lambda index, error: judged[index].claims(claim, error))]

    better = claimed(lambda interval: interval.low > 0)
    lower = claimed(lambda interval: interval.high < 0)
    equivalent = claimed(lambda interval: interval.low >= -margin and interval.high <= margin)
    return [
        found.verdict(levels[index].error, len(judged), unit, better[index], lower[index], equivalent[index])
        for index, found in enumerate(judged)
    ]


class _Judged:
    """One pair while it is judged."""

    def __init__(
        self, pair: Pair, margin: float, rule: Rule | None, sign: int, resolution: float, diverged: Sequence[str]
    ) -> None:
        if not pair.ours.keys() & pair.theirs.keys():
            raise ValueError(f"{pair.arm} and {pair.against} have no seed in common")
        self.pair, self.margin, self.sign = pair, margin, sign
        self.resolution = math.sqrt(2) * resolution  # of a difference
        self.diverged = {arm: diverged.count(arm) for arm in (pair.arm, pair.against) if arm in diverged}
        self.values = dict(
            zip(sorted(pair.ours.keys() & pair.theirs.keys()), differences(pair.ours, pair.theirs, sign), strict=True)
        )
        self.rule = rule or fixed(len(self.values))
        self.seeds = self.rule.judged(len(self.values))
        self.planned = self.rule.following(len(self.values) + sum(self.diverged.values()))
        looked = self.rule.kind == "looks" and len(self.values) >= self.rule.looks[0]
        self.may_be_judged = self.seeds >= FEWEST_SEEDS and (self.planned is None or looked)

    def interval(self, error: float) -> Interval | None:
        return interval(np.asarray(list(self.values.values())[: self.seeds]), self.rule, error, self.resolution)

    def claims(self, claim: Callable[[Interval], bool], error: float) -> bool:
        return self.may_be_judged and (found := self.interval(error)) is not None and claim(found)

    def outcome(self, error: float) -> Outcome:
        return decide(self.interval(error), self.margin) if self.may_be_judged else "cannot tell"

    def verdict(self, error: float, questions: int, unit: str, better: bool, lower: bool, equivalent: bool) -> Verdict:
        difference = estimate(list(self.values.values()), rule=self.rule, error=error, resolution=self.resolution)
        outcome = self.outcome(error)
        return Verdict(
            arm=self.pair.arm,
            against=self.pair.against,
            outcome_of_finished=outcome,
            difference=difference,
            margin=self.margin,
            more_seeds=0 if outcome != "cannot tell" else more_seeds(difference, self.margin, self.rule, error),
            unit=unit,
            diverged=self.diverged,
            question=Question(rule=self.rule, questions=questions, error=error, planned=self.planned),
            better=better,
            lower=lower,
            equivalent=equivalent,
            dominated_by=dominating(self.values, self.margin / 2),
            samples=self.over_samples(error, unit),
        )

    def over_samples(self, error: float, unit: str) -> SampleInterval | None:
        """Over the seeds that are judged, if the outcomes of all of them are known, on the same samples."""
        seeds = list(self.values)[: self.seeds]
        ours, theirs = self.pair.our_outcomes, self.pair.their_outcomes
        if not all(seed in ours and seed in theirs for seed in seeds):
            return None
        if len({len(outcomes[seed]) for outcomes in (ours, theirs) for seed in seeds}) != 1:
            return None
        return over_samples(
            np.stack([ours[seed] for seed in seeds]),
            np.stack([theirs[seed] for seed in seeds]),
            self.rule,
            error=error,
            sign=self.sign,
            scale=100 if unit == "%" else 1,
            resolution=self.resolution / math.sqrt(2),
        )


class Level(NamedTuple):
    """What became of one claim of several."""

    survived: bool
    """Whether the claim may be made."""
    error: float
    """The error at which it was tested last."""


def holm(claims: int, survives: Callable[[int, float], bool]) -> list[Level]:
    """Holm's correction: the clearest claim is tested at 1/n of the error, the next at 1/(n − 1), until one fails.

    Args:
        claims: how many there are.
        survives: whether a claim can be made at an error, by its number. A claim that survives a small error survives
            every larger one.
    """
    found: dict[int, Level] = {}
    while len(found) < claims:
        error = ERROR / (claims - len(found))
        passed = [index for index in range(claims) if index not in found and survives(index, error)]
        if not passed:
            return [found.get(index, Level(False, error)) for index in range(claims)]
        found[passed[0]] = Level(True, error)
    return [found[index] for index in range(claims)]


def decide(interval: Interval | None, margin: float) -> Outcome:
    if interval is None:
        return "cannot tell"
    if interval.low >= -margin:
        return "holds"
    return "loses" if interval.high < -margin else "cannot tell"


def more_seeds(difference: Estimate, margin: float, rule: Rule | None = None, error: float = ERROR) -> int | None:
    """About how many more seeds decide it with a probability of 80 %, if mean and spread are as seen so far.

    Seeds that are added to a fixed number need the wider interval that is always valid, and so more of them.
    """
    if difference.seeds < FEWEST_SEEDS or difference.deviation is None:
        return FEWEST_SEEDS - difference.seeds
    later = rule if rule is not None and rule.kind == "looks" else ALWAYS
    counts = np.asarray([look for look in later.looks or range(MOST_SEEDS + 1) if look > difference.seeds])
    reach = np.asarray([later.critical(count, error) for count in counts]) + special.stdtrit(counts - 1, POWER)
    counts, reach = counts[np.isfinite(reach)], reach[np.isfinite(reach)]
    enough = np.flatnonzero(reach * difference.deviation / np.sqrt(counts) <= abs(difference.mean + margin))
    return int(counts[enough[0]]) - difference.seeds if enough.size else None
