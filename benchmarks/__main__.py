"""`make bench`: run every benchmark, print the ratios, write them to results/bench/."""

import sys
from pathlib import Path

from rich.console import Console

from benchmarks import conditioning, cost, training
from leanformer.records import circumstances, write_json

RESULTS = Path(__file__).parents[1] / "results" / "bench"


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    with console.status("condition numbers"):
        speeds, tracked = conditioning.speed(), conditioning.tracking()
    console.print(*conditioning.tables(speeds, tracked))
    record = {"speed": speeds, "tracking": tracked, **circumstances(), "command": "make bench"}
    write_json(RESULTS / "conditioning.json", record)
    counting = cost.speed()
    console.print(cost.table(counting))
    write_json(RESULTS / "cost.json", {**counting, **circumstances(), "command": "make bench"})
    with console.status("training"):
        trained = training.speed()
    console.print(training.table(trained))
    write_json(RESULTS / "training.json", {**trained, **circumstances(), "command": "make bench"})


if __name__ == "__main__":
    main()
