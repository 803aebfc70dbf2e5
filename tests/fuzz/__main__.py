"""`python -m fuzz`: attack everything, print what came of it; exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import sys
import tempfile
from pathlib import Path

ATTACKERS = ("designs", "corruptions", "commands", "datasets", "matrices")
MEMORY = 6 << 30


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("attackers", nargs="*", help=f"Which: {', '.join(ATTACKERS)} [default: all].")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="A share of the usual number of attempts.")
    parser.add_argument("--minutes", type=float, default=60.0, help="The most time for one attacker.")
    parser.add_argument("--first", type=int, default=0, help="The number of the first attempt, to repeat one of them.")
    parser.add_argument("--count", type=int, default=None, help="So many attempts instead.")
    parser.add_argument("--verbose", action="store_true", help="Print every attempt.")
    given = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # a flood becomes a MemoryError

    from fuzz.isolation import isolated
    from fuzz.outcome import Tally, run, table

    tallies = []
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, isolated(Path(folder)):
        for name in given.attackers or ATTACKERS:
            attacker = importlib.import_module(f"fuzz.{name}")
            count = given.count or max(1, round(attacker.COUNT * given.scale))
            tally = Tally(name, given.seed, verbose=given.verbose)
            tallies.append(run(tally, count, attacker, given.minutes, given.first))
            print(f"{name}: {tally.tried:,} tried, {tally.bad} bad, {tally.seconds:.0f} s", file=sys.stderr, flush=True)
    print(table(tallies))
    for tally in tallies:
        for example in tally.findings.values():
            print(f"\n{tally.name}, {example}")
    sys.exit(1 if any(tally.bad for tally in tallies) else 0)


if __name__ == "__main__":
    main()
