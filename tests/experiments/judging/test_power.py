"""What seeds can show: against the noncentral t, with planned looks, and in words from earlier records."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import leanformer as lf
from leanformer.experiments.judging.power import decidable, earlier_spread, power_words
from leanformer.experiments.judging.stopping_rules import fixed, planned_looks
from support.tiny_run import recipe


@pytest.mark.parametrize("seeds", [3, 5, 10, 30])
def test_a_fixed_number_of_seeds_agrees_with_the_noncentral_t(seeds: int) -> None:
    distance, critical = decidable(fixed(seeds)), stats.t.ppf(0.975, seeds - 1)
    shift = distance * np.sqrt(seeds)
    chance = stats.nct.sf(critical, seeds - 1, shift) + stats.nct.cdf(-critical, seeds - 1, shift)
    assert chance == pytest.approx(0.8, abs=0.01)


def test_planned_looks_cost_little_at_the_same_limit() -> None:
    assert decidable(fixed(30)) < decidable(planned_looks(30)) < 1.3 * decidable(fixed(30))
    assert decidable(planned_looks(30)) < decidable(fixed(10))


def test_too_few_seeds_decide_nothing() -> None:
    assert "Fewer than 3 seeds decide nothing" in power_words(fixed(2), "%", None)


def test_it_is_said_before_training_from_the_spread_of_earlier_records(tmp_path: Path) -> None:
    forecast = lf.compare(recipe(), seeds=4, out=tmp_path / "new", dry_run=True)
    assert "no earlier record of this comparison says" in repr(forecast)
    lf.compare(recipe(), seeds=3, arms=["original", "lean"], out=tmp_path / "earlier", report=False, jobs=1, steps=2)
    spread = earlier_spread("small", "accuracy", tmp_path / "new", "comparison.json")
    assert spread is not None
    assert (spread.seeds, spread.source) == (3, str(tmp_path / "earlier"))
    said = repr(lf.compare(recipe(), seeds=4, out=tmp_path / "new", dry_run=True))
    assert f"4 seeds decide true differences that are {decidable(fixed(4)) * spread.deviation:.2f} points" in said
    assert not (tmp_path / "new").exists()
