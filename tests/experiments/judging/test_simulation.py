"""Verdicts are wrong as rarely as they promise, and what is simulated is what verdicts say."""

import numpy as np
import pytest

from leanformer.experiments.judging.simulation import DISTRIBUTIONS, RESOLUTION, _stop, simulate
from leanformer.experiments.judging.stopping_rules import ALWAYS, fixed, planned_looks
from leanformer.experiments.judging.verdicts import Pair, judge_pairs


def test_promised_error_rates_hold_and_a_plain_interval_does_not_keep_them() -> None:
    found = simulate(4000, seed=3)
    assert found.within_bounds()
    assert {row.scores for row in found.rows} == set(DISTRIBUTIONS)
    looked = [row for row in found.rows if not row.promised]
    assert len(looked) == 3
    assert all(row.wrong_holds > 0.08 for row in looked)
    planned = next(row for row in found.rows if row.way.startswith("planned") and row.scores == "normal")
    assert planned.seeds["2.0"] < planned.seeds["1.0"] < planned.seeds["0.5"] < 30
    assert found.better_by_chance["corrected"] < 0.035 < found.better_by_chance["not corrected"]


@pytest.mark.parametrize("rule", [fixed(5), planned_looks(12), ALWAYS], ids=lambda rule: rule.kind)
def test_what_is_simulated_is_what_verdicts_say(rule) -> None:
    looks = rule.looks or [3, 4, 5, 6]
    draw = np.random.default_rng(0)
    for name in DISTRIBUTIONS:
        differences = DISTRIBUTIONS[name](draw, (60, looks[-1])) + 0.8
        resolution = RESOLUTION if name == "rounded" else 0.0
        outcomes, seeds = _stop(differences, rule, looks, resolution)
        for values, outcome, stopped_at in zip(differences, outcomes, seeds, strict=True):
            words = {1: "holds", -1: "loses", 0: "cannot tell"}
            pair = Pair("lean", "original", dict(enumerate(values[:stopped_at])), dict.fromkeys(range(stopped_at), 0.0))
            assert judge_pairs([pair], 0.0, rule=rule, resolution=resolution)[0].outcome == words[outcome]


def test_too_few_are_refused() -> None:
    with pytest.raises(ValueError, match="sequences must be at least 100, got 5"):
        simulate(5)
