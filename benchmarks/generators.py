"""Speed of the generators of Long-Range Arena data, on one core."""

import time
from collections.abc import Callable
from typing import Any

from rich.table import Table

from leanformer.data import listops, pathfinder


def speed() -> dict[str, float]:
    """Examples per second, at the published sizes."""
    ways: dict[str, tuple[Callable[[int], Any], int]] = {
        "ListOps, 500 to 2,000 tokens": (
            lambda count: listops.generate(listops.ListOpsSettings(), count, seed=0),
            5000,
        ),
        "Pathfinder, 14 dashes": (
            lambda count: pathfinder.generate(pathfinder.PathfinderSettings(), count, seed=0),
            1000,
        ),
    }
    found = {}
    for name, (draw, count) in ways.items():
        draw(100)
        began = time.perf_counter()
        draw(count)
        found[name] = count / (time.perf_counter() - began)
    return found


def table(rates: dict[str, float]) -> Table:
    shown = Table("data", "examples per second", title="Drawing data on one core")
    for name, rate in rates.items():
        shown.add_row(name, f"{rate:,.0f}")
    return shown
