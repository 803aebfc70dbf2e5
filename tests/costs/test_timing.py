"""Timing in turns, on a clock that tests move by hand."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from leanformer.costs import timing
from leanformer.costs.timing import FEWEST, MOST, in_turns, paired_ratio, ratio_of, side_by_side


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float], list[str], str], Callable[[], None]]:
    """Makes functions that take a given time on a clock of their own, and list their calls."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def made(seconds: Callable[[], float], calls: list[str], name: str) -> Callable[[], None]:
        def way() -> None:
            now[0] += seconds()
            calls.append(name)

        return way

    return made


def test_every_order_is_taken_equally_often(work) -> None:  # type: ignore[no-untyped-def]
    calls: list[str] = []
    ways = {name: work(lambda took=took: took, calls, name) for name, took in {"a": 2.0, "b": 1.0, "c": 4.0}.items()}
    times = in_turns(ways, seconds=60.0)
    assert times == {"a": [2.0] * 12, "b": [1.0] * 12, "c": [4.0] * 12}, "42 seconds are too few, 84 end a whole cycle"
    assert calls[:6] == ["a", "a", "b", "b", "c", "c"], "two calls of each are not counted"
    rounds = [tuple(calls[start : start + 3]) for start in range(6, len(calls), 3)]
    assert Counter(map("".join, rounds)) == dict.fromkeys(["abc", "bca", "cab", "cba", "acb", "bac"], 2)
    for place in range(3):
        assert Counter(order[place] for order in rounds) == {"a": 4, "b": 4, "c": 4}
    assert ratio_of(times["c"], times["a"]) == (2.0, 2.0, 2.0)
    assert len(in_turns(ways, seconds=0.0)["a"]) == FEWEST
    pair = {name: ways[name] for name in ("a", "b")}
    assert len(in_turns(pair, seconds=0.0)["a"]) == 8, "whole cycles of four"


def test_what_another_way_leaves_behind_does_not_count(work) -> None:  # type: ignore[no-untyped-def]
    """Two ways alike, of which the first call after the other takes ten times as long."""
    calls: list[str] = []

    def cold(name: str) -> float:
        return 0.01 if calls and calls[-1] == name else 0.1

    ways = {name: work(lambda name=name: cold(name), calls, name) for name in ("a", "b")}
    times = in_turns(ways, seconds=1.0)
    assert times["a"] == pytest.approx([0.01] * len(times["a"]))
    assert ratio_of(times["a"], times["b"]) == pytest.approx((1.0, 1.0, 1.0))


def test_short_calls_are_repeated_and_there_is_an_end(work) -> None:  # type: ignore[no-untyped-def]
    calls: list[str] = []
    times = in_turns({"a": work(lambda: 0.003, calls, "a")}, seconds=1e9)
    assert len(times["a"]) == MOST
    assert times["a"] == pytest.approx([0.003] * MOST)
    assert len(calls) == 2 + MOST * (math.ceil(timing.SHORTEST / 0.003) + timing.SETTLING)


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
    medians = side_by_side(drifting)
    assert medians["lean"] / medians["original"] == pytest.approx(0.6, rel=0.1)
