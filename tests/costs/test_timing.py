"""Timing in turns, on a clock that tests move by hand."""

import math
import random
import time
from collections.abc import Callable

import pytest

from leanformer.costs import timing
from leanformer.costs.timing import FEWEST, MOST, in_turns, paired_ratio, ratio_of, side_by_side


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float], list[str], str], Callable[[], None]]:
    """Makes ways that take as long as they are told to, and note that they were called."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def made(seconds: Callable[[], float], calls: list[str], name: str) -> Callable[[], None]:
        def way() -> None:
            now[0] += seconds()
            calls.append(name)

        return way

    return made


def test_long_calls_are_timed_once_a_round_and_each_round_begins_with_another(work) -> None:  # type: ignore[no-untyped-def]
    calls: list[str] = []
    ways = {name: work(lambda took=took: took, calls, name) for name, took in {"a": 2.0, "b": 1.0, "c": 4.0}.items()}
    times = in_turns(ways, seconds=60.0)
    assert times == {"a": [2.0] * 9, "b": [1.0] * 9, "c": [4.0] * 9}, "nine rounds of seven seconds are over a minute"
    assert calls[:6] == ["a", "a", "b", "b", "c", "c"], "two calls of each are not counted"
    assert calls[6:15] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert ratio_of(times["c"], times["a"]) == (2.0, 2.0, 2.0)
    assert len(in_turns(ways, seconds=0.0)["a"]) == FEWEST


def test_short_calls_are_repeated_and_there_is_an_end(work) -> None:  # type: ignore[no-untyped-def]
    calls: list[str] = []
    times = in_turns({"a": work(lambda: 0.003, calls, "a")}, seconds=1e9)
    assert len(times["a"]) == MOST
    assert times["a"] == pytest.approx([0.003] * MOST)
    assert len(calls) == 2 + MOST * math.ceil(timing.SHORTEST / 0.003)


def test_a_ratio_holds_on_a_machine_that_changes_its_speed(work) -> None:  # type: ignore[no-untyped-def]
    """One that gets slower all the time, with noise: medians of one way alone would be far off."""
    draw = random.Random(0)
    done: list[str] = []
    drifting = {
        name: work(lambda took=took: took * (1 + len(done) / 20) * draw.uniform(0.95, 1.05), done, name)
        for name, took in {"lean": 0.6, "original": 1.0}.items()
    }
    times = in_turns(drifting, seconds=120.0)
    found = ratio_of(times["lean"], times["original"])
    assert found.mean == pytest.approx(0.6, rel=0.03)
    assert found.low < found.mean < found.high < 0.65
    assert max(times["lean"]) > 2 * min(times["lean"])
    pair = paired_ratio(*drifting.values())
    assert pair["ratio"] == pytest.approx(0.6, rel=0.03)
    assert side_by_side(drifting).keys() == {"lean", "original"}
