"""The search for the best settings: fair to all arms, never ending at the end of a grid, and a function of results."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanformer.experiments.tuning.search import FULL, SCREENING, Axis, Point, Trial, next_trials, outcomes

RATE = Axis("lr", shared=1e-3, factor=2, reach=2, limit=6)
DECAY = Axis("weight_decay", shared=0.05, factor=4, reach=1, limit=3)

Score = Callable[[Trial], float]


def search(arms: list[str], axes: list[Axis], score: Score, most: int | None = None) -> dict[Trial, float]:
    """Run a whole search on a function; with `most`, at most so many trials of a round are finished at a time."""
    scores: dict[Trial, float] = {}
    while trials := next_trials(arms, axes, scores):
        assert not set(trials) & scores.keys()
        for trial in trials[:most]:
            scores[trial] = score(trial)
    return scores


def peaks(at: dict[str, float]) -> Score:
    return lambda trial: -((trial.point[0] - at[trial.arm]) ** 2)


def counts(scores: dict[Trial, float], arm: str) -> tuple[int, int]:
    return tuple(sum(trial.arm == arm and trial.stage == stage for trial in scores) for stage in (SCREENING, FULL))  # type: ignore[return-value]


def test_values_are_a_logarithmic_grid() -> None:
    assert [RATE.value(place) for place in (-2, -1, 0, 1, 2)] == [0.00025, 0.0005, 0.001, 0.002, 0.004]


def test_a_best_rate_inside_the_grid_needs_no_more_values() -> None:
    scores = search(["original", "lean"], [RATE], peaks({"original": 0, "lean": 1}))
    found = outcomes(["original", "lean"], [RATE], scores)
    assert (found["original"].best, found["lean"].best) == ((0,), (1,))
    assert all(outcome.inside for outcome in found.values())
    assert counts(scores, "original") == counts(scores, "lean") == (5, 3)


def test_the_grid_grows_for_all_arms_until_the_best_lies_inside() -> None:
    scores = search(["original", "lean"], [RATE], peaks({"original": 0, "lean": 4}))
    found = outcomes(["original", "lean"], [RATE], scores)
    assert found["lean"].best == (4,)
    assert found["lean"].inside
    assert counts(scores, "original") == counts(scores, "lean")
    assert Trial("original", (5,), SCREENING) in scores


def test_a_best_rate_beyond_the_limit_is_said() -> None:
    scores = search(["lean"], [RATE], peaks({"lean": 20}))
    outcome = outcomes(["lean"], [RATE], scores)["lean"]
    assert outcome.best == (6,)
    assert not outcome.inside


def test_the_screening_may_mislead_and_the_full_length_corrects_it() -> None:
    def score(trial: Trial) -> float:
        return -abs(trial.point[0] - (2 if trial.stage == SCREENING else -1))

    scores = search(["lean"], [RATE], score)
    assert outcomes(["lean"], [RATE], scores)["lean"].best == (-1,)


def test_rates_at_which_training_diverges_lose() -> None:
    scores = search(["lean"], [RATE], lambda trial: -math.inf if trial.point[0] > 0 else float(trial.point[0]))
    assert outcomes(["lean"], [RATE], scores)["lean"] == outcomes(["lean"], [RATE], scores)["lean"]
    assert outcomes(["lean"], [RATE], scores)["lean"].best == (0,)
    with pytest.raises(ValueError, match="lean diverged at every point that was tried; set a smaller learning rate"):
        outcomes(["lean"], [RATE], search(["lean"], [RATE], lambda _: -math.inf))


def test_of_equal_scores_the_shared_value_is_taken() -> None:
    scores = search(["lean"], [RATE], lambda _: 1.0)
    assert outcomes(["lean"], [RATE], scores)["lean"].best == (0,)


def test_two_settings_are_tuned_together() -> None:
    def score(trial: Trial) -> float:
        rate, decay = trial.point
        return -((rate - 1) ** 2) - (decay + 2) ** 2 - 0.3 * (rate - 1) * (decay + 2)

    scores = search(["lean"], [RATE, DECAY], score)
    outcome = outcomes(["lean"], [RATE, DECAY], scores)["lean"]
    assert outcome.best == (1, -2)
    assert outcome.inside


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.tuples(st.integers(-6, 6), st.sampled_from([SCREENING, FULL])), st.floats(-5, 5), max_size=26),
    st.integers(1, 3),
)
def test_any_scores_end_in_a_local_optimum_with_equal_effort_however_often_it_is_stopped(
    noise: dict[tuple[int, str], float], most: int
) -> None:
    def score(trial: Trial) -> float:
        sign = 1 if trial.arm == "lean" else -1
        return sign * noise.get((trial.point[0], trial.stage), 0.0)

    arms = ["original", "lean"]
    scores = search(arms, [RATE], score)
    assert search(arms, [RATE], score, most) == scores
    assert counts(scores, "original") == counts(scores, "lean")
    for arm, outcome in outcomes(arms, [RATE], scores).items():
        full: dict[Point, float] = {t.point: s for t, s in scores.items() if t.arm == arm and t.stage == FULL}
        assert full[outcome.best] == max(full.values())
        beside = [(outcome.best[0] + step,) for step in (-1, 1)]
        assert all(point in full or abs(point[0]) > RATE.limit for point in beside)
        assert outcome.inside == (abs(outcome.best[0]) < RATE.limit)
