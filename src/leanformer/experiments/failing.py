"""What is said of a comparison of which no run has a result: equal reasons once, with the runs that they ended."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from leanformer.foundation.formats import counted

MOST_REASONS = 3
"""Reasons that are said; of more, only their number."""


class NothingFinished(ValueError):  # noqa: N818
    """No run of a comparison has a result."""


Runs = Sequence[tuple[str, int]]
"""Arms and seeds."""


def nothing_finished(out: Path, runs: Runs, failures: Mapping[tuple[str, int], str]) -> NothingFinished:
    """The error of a comparison whose planned runs have no result, with the reasons of those that failed."""
    if not failures:
        return NothingFinished(f"no run in {out} is finished yet")
    grouped: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for run, text in failures.items():
        grouped[_kind(_reason(run, text))].append(run)
    reasons = [(_reason(found[0], failures[found[0]]), found) for found in grouped.values()]
    all_failed = len(failures) == len(runs)
    of_all = "all" if all_failed else f"{len(failures)} of"
    head = f"no run in {out} is finished{'' if all_failed else ' yet'}: {of_all} {_counted(runs)} failed"
    if len(reasons) == 1:
        return NothingFinished(f"{head}: {reasons[0][0]}")
    said = [f"{_counted(found)}: {reason}" for reason, found in reasons[:MOST_REASONS]]
    more = len(reasons) - len(said)
    return NothingFinished("; ".join([head, *said, *([f"and {counted(more, 'other reason')}"] if more else [])]))


def _reason(run: tuple[str, int], text: str) -> str:
    """A reason without the run's name before it."""
    return text.removeprefix(f"{run[0]}, seed {run[1]}: ")


def _kind(reason: str) -> str:
    """Equal reasons may differ in numbers (steps, addresses) and in what stands in brackets (files, batches)."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", re.sub(r"\([^()]*\)", "", reason))


def _counted(runs: Runs) -> str:
    arms, seeds = dict.fromkeys(arm for arm, _ in runs), {seed for _, seed in runs}
    named = next(iter(arms)) if len(arms) == 1 else counted(len(arms), "arm")
    of = f"{named} × {counted(len(seeds), 'seed')}" if len(runs) == len(arms) * len(seeds) else f"of {named}"
    return f"{counted(len(runs), 'run')} ({of})"
