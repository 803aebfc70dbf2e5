"""`make bench`: run every benchmark, print the ratios, and write them to results/bench/.

`python -m benchmarks training nystrom` runs only these two.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import conditioning, cost, generators, heads, nystrom, runners, training
from leanformer.foundation.records.circumstances import circumstances
from leanformer.foundation.records.files import write_json

RESULTS = Path(__file__).parents[1] / "results" / "bench"


def run_conditioning(console: Console) -> dict[str, Any]:
    speeds, tracked = conditioning.speed(), conditioning.tracking()
    console.print(*conditioning.tables(speeds, tracked))
    return {"speed": speeds, "tracking": tracked}


def run_cost(console: Console) -> dict[str, Any]:
    console.print(cost.table(counted := cost.speed()))
    return counted


def run_training(console: Console) -> dict[str, Any]:
    console.print(training.table(trained := training.speed()))
    return trained


def run_nystrom(console: Console) -> dict[str, Any]:
    console.print(nystrom.table(rows := nystrom.speed()))
    return {"rows": rows}


def run_heads(console: Console) -> dict[str, Any]:
    console.print(heads.table(found := heads.speed()))
    return found


def run_generators(console: Console) -> dict[str, Any]:
    console.print(generators.table(rates := generators.speed()))
    return {"examples_per_second": rates}


def run_runners(console: Console) -> dict[str, Any]:
    planned, found = runners.planning(), runners.overhead()
    console.print(runners.table(found, planned))
    return {**found, **planned}


BENCHMARKS: dict[str, Callable[[Console], dict[str, Any]]] = {
    "conditioning": run_conditioning,
    "cost": run_cost,
    "training": run_training,
    "nystrom": run_nystrom,
    "heads": run_heads,
    "generators": run_generators,
    "runners": run_runners,
}


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        record = BENCHMARKS[name](console)
        command = "make bench" if len(names) == len(BENCHMARKS) else f"python -m benchmarks {' '.join(names)}"
        write_json(RESULTS / f"{name}.json", {**record, **circumstances().model_dump(), "command": command})


if __name__ == "__main__":
    main()
