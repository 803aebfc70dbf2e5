"""Intervals against SciPy and by simulation; verdicts that follow from them; how many seeds are still needed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leanformer.experiments.judging.estimates import effects, estimate, interval
from leanformer.experiments.judging.stopping_rules import ALWAYS, fixed, planned_looks
from leanformer.experiments.judging.verdicts import Pair, decide, holm, judge_pairs, more_seeds

scores = st.lists(st.floats(-100, 100), min_size=3, max_size=12)


def verdict(differences: list[float], margin: float = 1.0, sign: int = 1):
    theirs = {seed: 10.0 + seed for seed in range(len(differences))}
    ours = {seed: theirs[seed] + sign * value for seed, value in enumerate(differences)}
    return judge_pairs([Pair("lean", "original", ours, theirs)], margin, sign=sign, unit="%")[0]


@given(scores)
def test_the_interval_is_scipys(values: list[float]) -> None:
    found = estimate(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    if found.deviation > 1e-6:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert (found.t.low, found.t.high) == pytest.approx((low, high), rel=1e-6, abs=1e-9)
        assert found.bootstrap.low <= found.mean + 1e-9
        assert min(values) - 1e-9 <= found.bootstrap.low <= found.bootstrap.high <= max(values) + 1e-9


def test_the_t_interval_covers_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    covered = [(found := interval(draw.normal(2, 3, 4), fixed(4))).low <= 2 <= found.high for _ in range(2000)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_equal_scores_do_not_pretend_to_be_exact() -> None:
    assert estimate([1.0, 1.0, 1.0]).deviation == 0
    found = estimate([1.0, 1.0, 1.0], resolution=0.3)
    assert found.deviation == pytest.approx(0.3 / math.sqrt(12))
    assert found.t.low < 1 < found.t.high


def test_verdicts() -> None:
    assert verdict([0.1, 0.0, -0.1]).outcome == "holds"
    assert verdict([0.1, 0.0, -0.1]).words == (
        "lean holds against original and is equivalent: +0.00 points [-0.25, +0.25] over 3 seeds, margin 1"
    )
    assert verdict([2.1, 2.0, 1.9]).words.startswith("lean holds against original and is better: +2.00")
    assert "measurably lower but within the margin" in verdict([-0.51, -0.5, -0.49]).words
    assert verdict([-3.1, -3.0, -2.9]).words.startswith("lean loses against original: -3.00 points")
    undecided = verdict([-2.0, 0.0, 2.0])
    assert undecided.outcome == "cannot tell"
    assert undecided.words.startswith(f"cannot tell: about {undecided.more_seeds} more seeds needed for lean against")


def test_where_less_is_better_the_sign_turns() -> None:
    assert verdict([-3.1, -3.0, -2.9], sign=-1).outcome == "loses"
    assert verdict([2.1, 2.0, 1.9], sign=-1).difference.mean == pytest.approx(2.0)


def test_few_seeds_decide_nothing() -> None:
    assert verdict([5.0]).words == (
        "cannot tell: at least 2 more seeds needed for lean against original "
        "(+5.00 points in one seed, which has no interval, margin 1)"
    )
    assert verdict([5.0, 5.0]).words.startswith("cannot tell: at least 1 more seed needed")
    assert verdict([-1.0, -1.5, -0.5], margin=1.0).words.startswith("cannot tell: more than 1000 seeds needed")


@given(scores, st.floats(0, 10))
def test_a_wider_margin_never_turns_holds_into_something_else(values: list[float], margin: float) -> None:
    if verdict(values, margin).outcome == "holds":
        assert verdict(values, margin + 1).outcome == "holds"
    if verdict(values, margin + 1).outcome == "loses":
        assert verdict(values, margin).outcome == "loses"


def test_the_seeds_asked_for_are_enough_four_times_in_five() -> None:
    draw = np.random.default_rng(1)
    seen = estimate([-0.8, 0.6, 0.2])  # as if these were the true mean and spread
    count = seen.seeds + (more_seeds(seen, margin=0.5) or 0)
    drawn = (interval(draw.normal(seen.mean, seen.deviation, count), ALWAYS) for _ in range(2000))
    decided = [found is not None and decide(found, 0.5) == "holds" for found in drawn]
    assert 0.75 < np.mean(decided) < 0.9


def test_only_common_seeds_are_paired() -> None:
    found = judge_pairs([Pair("lean", "original", {0: 1.0, 1: 2.0, 2: 3.0, 9: 99.0}, {0: 1.0, 1: 2.0, 2: 3.0})], 1.0)[0]
    assert found.difference.seeds == 3
    assert found.difference.mean == 0
    with pytest.raises(ValueError, match="lean and original have no seed in common"):
        judge_pairs([Pair("lean", "original", {0: 1.0}, {1: 1.0})], 1.0)
    with pytest.raises(ValueError, match="the margin must be a number of at least 0, got -1"):
        judge_pairs([Pair("lean", "original", {0: 1.0}, {0: 1.0})], -1)
    with pytest.raises(ValueError, match="an estimate needs finite values"):
        estimate([1.0, math.nan])


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 4), min_size=2, max_size=6))
def test_depth_and_heads_add_up_to_the_whole(rows: list[tuple[float, ...]]) -> None:
    arms = ("original", "lean", "shallow", "wide")
    found = effects({arm: {seed: row[place] for seed, row in enumerate(rows)} for place, arm in enumerate(arms)})
    assert found is not None
    assert found.depth.mean + found.heads.mean == pytest.approx(found.total.mean, abs=1e-9)
    assert found.heads_at_full_depth.mean + found.interaction.mean == pytest.approx(found.heads.mean, abs=1e-9)


def test_parts_are_of_the_seeds_that_all_arms_have() -> None:
    found = effects({"original": {0: 1.0, 1: 2.0}, "lean": {0: 2.0, 1: 9.0, 2: 4.0}, "shallow": {0: 1.5}})
    assert found is not None
    assert (found.total.mean, found.depth.mean, found.heads.mean) == (1.0, 0.5, 0.5)
    assert found.total.seeds == 1


def test_without_the_control_nothing_is_attributed() -> None:
    assert effects({"original": {0: 1.0}, "lean": {0: 2.0}}) is None


# Several questions


def test_holm_tests_the_clearest_claim_first_and_stops_at_the_first_that_fails() -> None:
    p_values = [0.02, 0.001, 0.03, 0.009]
    levels = holm(4, lambda index, error: p_values[index] <= error)
    assert [level.survived for level in levels] == [False, True, False, False]
    assert [level.error for level in levels] == pytest.approx([0.025 / 3, 0.025 / 4, 0.025 / 3, 0.025 / 3])
    assert all(level.survived for level in holm(4, lambda index, error: True))


def test_better_is_said_only_where_it_survives_all_questions() -> None:
    barely = [0.2, 0.5, 0.9, 0.4, 0.25]
    alone = judge_pairs([pair("lean", barely)], 5.0)[0]
    assert alone.better
    several = judge_pairs([pair("lean", barely), *(pair(f"other-{n}", [-3.0, 3, -2, 2, 0.1]) for n in range(8))], 5.0)
    assert not several[0].better
    assert several[0].outcome == "holds"
    assert "9 questions under one error rate" in several[0].words


def pair(arm: str, differences: list[float]) -> Pair:
    return Pair(arm, "original", dict(enumerate(differences)), dict.fromkeys(range(len(differences)), 0.0))


def test_equivalent_is_neither_better_nor_worse_by_more_than_the_margin() -> None:
    assert verdict([0.1, 0.0, -0.1]).equivalent
    assert not verdict([2.1, 2.0, 1.9]).equivalent
    assert "holds against original and is better by less than the margin" in verdict([0.5, 0.51, 0.49]).words


# Looks


def test_results_are_judged_at_planned_looks_only() -> None:
    clear = [3.0, 3.1, 2.9, 3.05, 3.0, 2.95]
    for seeds in range(1, 4):
        early = judge_pairs([pair("lean", clear[:seeds])], 1.0, rule=planned_looks(30))[0]
        assert early.outcome == "cannot tell"
        assert f"{seeds} of 4 planned seeds are finished" in early.words
        assert not early.better
    at_look = judge_pairs([pair("lean", clear[:4])], 1.0, rule=planned_looks(30))[0]
    assert at_look.outcome == "holds"
    assert "look 1 of 6" in at_look.words
    between = judge_pairs([pair("lean", [*clear[:4], -1e9])], 1.0, rule=planned_looks(30))[0]
    assert between.difference == at_look.difference, (
        "a seed of the next look does not count before the look is complete"
    )
    before_the_end = judge_pairs([pair("lean", clear[:4])], 1.0, rule=fixed(5))[0]
    assert before_the_end.words.startswith("cannot tell: 4 of 5 planned seeds are finished for lean")


def test_intervals_widen_with_the_number_of_looks() -> None:
    values = pair("lean", [0.1, -0.2, 0.3, 0.0, 0.2, -0.1])
    once, looked, always = (
        judge_pairs([values], 1.0, rule=rule)[0].difference.t.half for rule in (fixed(6), planned_looks(30), ALWAYS)
    )
    assert once < looked < always


def test_a_seed_that_makes_most_of_the_spread_is_named() -> None:
    assert verdict([0.1, 0.0, -0.1, 0.05, 9.0]).dominated_by == 4
    assert verdict([0.1, 0.0, -0.1, 0.05, 0.2]).dominated_by is None
