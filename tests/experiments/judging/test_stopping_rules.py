"""Critical values: against published ones, by simulation, and for every number of looks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from leanformer.experiments.judging.stopping_rules import (
    ALWAYS,
    PRIOR_DEVIATION,
    Rule,
    always_valid,
    boundaries,
    fixed,
    planned_looks,
    t_statistics,
)


def test_one_look_is_students_t() -> None:
    for seeds in (3, 5, 12):
        assert fixed(seeds).critical(seeds) == pytest.approx(stats.t.ppf(0.975, seeds - 1))
        assert boundaries((seeds,), 0.025)[0] == pytest.approx(stats.t.ppf(0.975, seeds - 1), rel=0.01)


def test_with_many_seeds_boundaries_are_those_of_the_normal_theory() -> None:
    """Linear spending, five equal looks, both sides 5 %: 2.576, 2.490, 2.411, 2.344, 2.289 by exact integration."""
    assert boundaries((400, 800, 1200, 1600, 2000), 0.025) == pytest.approx(normal_boundaries(5), rel=0.006)


def normal_boundaries(looks: int) -> list[float]:
    """By integration over the density of the sum of so many looks, of those that were not stopped before."""
    grid = np.linspace(-9, 9, 1801) * math.sqrt(looks)
    step, found = grid[1] - grid[0], []
    density = stats.norm.pdf(grid)
    for look in range(1, looks + 1):
        tail = np.cumsum(density[::-1])[::-1] * step
        found.append(float(np.interp(-0.025 / looks, -tail, grid)) / math.sqrt(look))
        inside = np.where(np.abs(grid) < found[-1] * math.sqrt(look), density, 0)
        density = np.convolve(inside, stats.norm.pdf(grid), mode="same") * step
    return found


@pytest.mark.parametrize("looks", [(4, 6, 9, 13, 19, 30), (3, 5), (4, 5, 6, 7, 8, 9, 10)], ids=str)
def test_all_looks_together_are_wrong_as_often_as_promised(looks: tuple[int, ...]) -> None:
    statistics = t_statistics(looks, 400_000, np.random.default_rng(7))
    crossed = np.any([found > limit for found, limit in zip(statistics, boundaries(looks, 0.025), strict=True)], axis=0)
    assert np.mean(crossed) == pytest.approx(0.025, abs=0.001)


def test_statistics_at_looks_are_those_of_whole_samples() -> None:
    drawn = t_statistics((3, 7), 200_000, np.random.default_rng(0), effect=0.5)
    sample = np.random.default_rng(1).normal(0.5, 1, (200_000, 7))
    for found, seeds in zip(drawn, (3, 7), strict=True):
        t = stats.ttest_1samp(sample[:, :seeds], 0, axis=1).statistic
        assert np.quantile(found, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(t, [0.1, 0.5, 0.9]), abs=0.02)


def test_the_confidence_sequence_is_the_bayes_factor_it_says_it_is() -> None:
    """The critical value is where the Bayes factor, integrated over the prior, is 1/α."""
    for seeds in (5, 12):
        t = always_valid(seeds, 0.05)
        assert bayes_factor(t, seeds) == pytest.approx(20, rel=1e-5)


def bayes_factor(t: float, seeds: int) -> float:
    def marginal(effect: float) -> float:
        return float(
            stats.nct.pdf(t, seeds - 1, math.sqrt(seeds) * effect) * stats.norm.pdf(effect, 0, PRIOR_DEVIATION)
        )

    return integrate.quad(marginal, -8, 8, limit=200)[0] / float(stats.t.pdf(t, seeds - 1))


def test_adding_seeds_one_by_one_is_wrong_less_often_than_promised() -> None:
    looks = tuple(range(3, 61))
    statistics = t_statistics(looks, 50_000, np.random.default_rng(3))
    crossed = np.any([found > ALWAYS.critical(look) for found, look in zip(statistics, looks, strict=True)], axis=0)
    assert np.mean(crossed) < 0.0225


@settings(deadline=None)
@given(st.integers(4, 500))
def test_looks_grow_up_to_the_limit(most: int) -> None:
    looks = planned_looks(most).looks
    assert looks[0] == 4
    assert looks[-1] == most
    assert all(later > earlier for earlier, later in itertools.pairwise(looks))


def test_bad_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a limit of at least 4 seeds, got 3"):
        planned_looks(3)
    with pytest.raises(ValueError, match="looks must be growing numbers of seeds"):
        Rule(kind="looks", looks=[5, 4])
    assert fixed(1).critical(1) == math.inf
    assert always_valid(2, 0.05) == math.inf
