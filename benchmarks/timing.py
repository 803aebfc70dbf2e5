"""Time several ways of doing one thing in turns, so that a change of the machine's load affects all of them."""

import math
import time
from collections.abc import Callable, Mapping
from statistics import fmean, median, stdev

from scipy.stats import t as student


def paired_ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 15) -> dict[str, float]:
    """Time of ours over time of theirs, round by round: the geometric mean with its 95 % interval, and both medians."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for place in order:
            start = time.perf_counter()
            (ours, theirs)[place]()
            if number:  # the first round is a warm-up
                times[place].append(time.perf_counter() - start)
    logs = [math.log(a / b) for a, b in zip(*times, strict=True)]
    half = float(student.ppf(0.975, rounds - 1)) * stdev(logs) / math.sqrt(rounds)
    ratio, low, high = (math.exp(fmean(logs) + shift) for shift in (0, -half, half))
    return {"ratio": ratio, "low": low, "high": high, "ours_s": median(times[0]), "theirs_s": median(times[1])}


def side_by_side(ways: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Median seconds of each way, after one round of warm-up."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}
