"""The interval over seeds and samples: against the analysis of variance by hand, and its coverage by simulation."""

import numpy as np
import pytest
from scipy import stats

from leanformer.experiments.judging.samples import over_samples
from leanformer.experiments.judging.stopping_rules import ALWAYS, fixed


def test_without_variation_between_samples_it_is_the_interval_over_seeds() -> None:
    ours = np.repeat([[1.0], [3.0], [2.0]], 50, axis=1)
    found = over_samples(ours, np.zeros((3, 50)), fixed(3))
    low, high = stats.t.interval(0.95, 2, 2.0, stats.sem([1, 3, 2]))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.share_of_samples == 0


def test_without_variation_between_seeds_it_is_the_interval_over_samples() -> None:
    values = np.random.default_rng(0).normal(1, 1, 40)
    found = over_samples(np.tile(values, (4, 1)), np.zeros((4, 40)), fixed(4))
    low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.share_of_samples == pytest.approx(1)


@pytest.mark.parametrize(
    ("of_seeds", "of_samples", "rest"), [(0.1, 1.0, 1.0), (0.0, 0.5, 2.0), (0.3, 0.0, 1.0)], ids=str
)
def test_it_covers_the_truth_for_other_seeds_and_samples(of_seeds: float, of_samples: float, rest: float) -> None:
    draw, covered = np.random.default_rng(1), 0
    for _ in range(1500):
        values = (
            0.7
            + of_seeds * draw.standard_normal((5, 1))
            + of_samples * draw.standard_normal((1, 60))
            + rest * draw.standard_normal((5, 60))
        )
        found = over_samples(values, np.zeros((5, 60)), fixed(5)).interval
        covered += found.low <= 0.7 <= found.high
    assert covered / 1500 > 0.935


def test_flips_are_counted_for_right_and_wrong_answers_only() -> None:
    ours, theirs = np.asarray([[1, 1, 0, 0], [1, 1, 1, 0]]), np.asarray([[1, 0, 1, 0], [1, 0, 1, 0]])
    found = over_samples(ours, theirs, ALWAYS, scale=100)
    assert (found.gained, found.lost) == (1.0, 0.5)
    assert over_samples(ours + 0.5, theirs + 0.5, ALWAYS).gained is None
    assert over_samples(ours[:1], theirs[:1], ALWAYS).interval is None
    with pytest.raises(ValueError, match="need one shape"):
        over_samples(ours, theirs[:, :2], ALWAYS)


def test_where_less_is_better_the_sign_turns() -> None:
    losses = np.random.default_rng(0).normal(2, 0.1, (3, 30))
    more = over_samples(losses, losses - 0.5, fixed(3), sign=-1).interval
    assert more.high < 0
