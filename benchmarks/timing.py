"""Time several ways of doing one thing in turns, so that a change of the machine's load affects all of them."""

import time
from collections.abc import Callable, Mapping
from statistics import median


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
