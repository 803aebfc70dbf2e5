"""How fast the Long-Range Arena's data are drawn, on one core."""

import time
from collections.abc import Callable
from typing import Any

from rich.table import Table

from leanformer.data import listops as listops_data
from leanformer.data import pathfinder as pathfinder_data


def speed() -> dict[str, float]:
    """Examples a second, at the published sizes."""
    ways: dict[str, tuple[Callable[[int], Any], int]] = {
        "ListOps, 500 to 2,000 tokens": (
            lambda count: listops_data.generate(listops_data.ListOpsSettings(), count, seed=0),
            5000,
        ),
        "Pathfinder, 14 dashes": (
            lambda count: pathfinder_data.generate(pathfinder_data.PathfinderSettings(), count, seed=0),
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
    shown = Table("data", "examples a second", title="Drawing data on one core")
    for name, rate in rates.items():
        shown.add_row(name, f"{rate:,.0f}")
    return shown
