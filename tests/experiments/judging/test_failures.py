"""Rare failures: bounds against the binomial distribution, and which runs count as bad."""

import numpy as np
import pytest
from scipy import stats

from leanformer.experiments.judging.failures import bad_runs, dominating, upper_bound


def test_the_bound_is_where_so_few_failures_become_improbable() -> None:
    assert upper_bound(0, 5) == pytest.approx(1 - 0.05 ** (1 / 5))  # 45 %
    for bad, runs in ((0, 3), (1, 5), (3, 10)):
        assert stats.binom.cdf(bad, runs, upper_bound(bad, runs)) == pytest.approx(0.05)
    assert upper_bound(3, 3) == 1


def test_runs_far_below_their_arm_and_diverged_runs_are_bad() -> None:
    scores = {"original": [90.0, 90.2, 89.9, 90.1], "lean": [90.0, 90.1, 89.8, 40.0]}
    found = bad_runs(scores, ["lean"], margin=1.0)
    assert (found["original"].bad, found["original"].runs) == (0, 4)
    assert (found["lean"].bad, found["lean"].runs) == (2, 5)
    turned = {arm: [-value for value in values] for arm, values in scores.items()}
    assert bad_runs(turned, ["lean"], margin=1.0, sign=-1) == found


def test_a_run_within_the_margin_is_not_bad() -> None:
    assert bad_runs({"lean": [90.0, 90.0, 90.0, 89.2]}, [], margin=1.0)["lean"].bad == 0
    assert bad_runs({"lean": [90.0, 90.0, 90.0, 88.2]}, [], margin=1.0)["lean"].bad == 1


def test_usual_spreads_raise_the_warning_rarely() -> None:
    draw = np.random.default_rng(0)
    warned = [dominating(dict(enumerate(draw.normal(size=6)))) is not None for _ in range(3000)]
    assert np.mean(warned) == pytest.approx(0.01, abs=0.006)
    assert dominating({0: 0.1, 1: 0.0, 2: -0.1, 5: 8.0}) == 5
    assert dominating({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}) is None
