"""Time several ways of doing one thing in turns, so that a change of the machine's load affects all of them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple

from scipy.stats import t as student

Way = Callable[[], object]
Times = dict[str, list[float]]
"""Seconds of one call, by way, round by round."""
SHORTEST = 0.02
"""Seconds that a timed span takes at least: shorter calls are repeated, since clocks are coarse."""
SETTLING = 2
"""Calls before such a span that are not timed: the first ones pay for what the way before it left in the caches."""
FEWEST, MOST = 6, 1000
"""Rounds."""


class Ratio(NamedTuple):
    """A geometric mean of ratios, one per round, with its 95 % interval."""

    mean: float
    low: float
    high: float


def in_turns(ways: Mapping[str, Way], seconds: float, wait: Way = lambda: None) -> Times:
    """Time every way in every round, for about so many seconds in all, and for six rounds at least.

    Rounds go through all orders of `_orders` equally often, so that no way gains from its place. One round is not
    counted, and says how often a short call has to be repeated.

    Args:
        ways: what is timed, by name.
        seconds: how long all rounds together may take.
        wait: returns when the device has done its work.
    """
    repeats = {}
    for name, way in ways.items():
        way()
        repeats[name] = max(1, math.ceil(SHORTEST / max(_timed(way, 1, wait), 1e-9)))
    times: Times = {name: [] for name in ways}
    orders = list(_orders(list(ways)))
    begun = time.perf_counter()
    for number, order in enumerate(itertools.cycle(orders)):
        is_balanced = number % len(orders) == 0
        if is_balanced and (number >= MOST or (number >= FEWEST and time.perf_counter() - begun > seconds)):
            return times
        for name in order:
            times[name].append(_timed(ways[name], repeats[name], wait))
    raise AssertionError("the rounds have no end")


def _orders(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Each name is equally often at each place, and after the name on either side of it."""
    for turn in range(len(names)):
        order = (*names[turn:], *names[:turn])
        yield order
        yield order[::-1]


def _timed(way: Way, repeats: int, wait: Way) -> float:
    """Seconds of one call, from several in a row if it is short."""
    for _ in range(SETTLING if repeats > 1 else 0):
        way()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        way()
    wait()
    return (time.perf_counter() - start) / repeats


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Times of ours over times of theirs, round by round."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    half = float(student.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(*(math.exp(fmean(logs) + shift) for shift in (0, -half, half)))


def paired_ratio(ours: Way, theirs: Way, rounds: int = 15, wait: Way = lambda: None) -> dict[str, float]:
    """Time of ours over time of theirs, in so many rounds: the ratio with its interval, and both medians."""
    times = _in_rounds({"ours": ours, "theirs": theirs}, rounds, wait)
    ratio, low, high = ratio_of(times["ours"], times["theirs"])
    return {
        **{"ratio": ratio, "low": low, "high": high},
        **{f"{name}_s": median(values) for name, values in times.items()},
    }


def side_by_side(ways: Mapping[str, Way], rounds: int = 7) -> dict[str, float]:
    """Median seconds of each way."""
    return {name: median(values) for name, values in _in_rounds(ways, rounds).items()}


def _in_rounds(ways: Mapping[str, Way], rounds: int, wait: Way = lambda: None) -> Times:
    """Every call once in each round, in the orders of `_orders`; one call of each before does not count."""
    for way in ways.values():
        way()
    times: Times = {name: [] for name in ways}
    for order in itertools.islice(itertools.cycle(_orders(list(ways))), rounds):
        for name in order:
            times[name].append(_timed(ways[name], 1, wait))
    return times
