"""What an attempt can end in, how it is watched, and the table of counts."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

REFUSED, HEALED, WORKED = "refused", "healed", "worked"
RIDDLE, TRACEBACK, HANG, SILENT = "riddle", "traceback", "hang", "silent"
GOOD = (REFUSED, HEALED, WORKED)
BAD = (RIDDLE, TRACEBACK, HANG, SILENT)
"""A riddle is a refusal in several lines, or one that does not name what it is about."""


class Wrong(Exception):  # noqa: N818
    """An attempt that was neither refused nor answered with the truth."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why


class Overdue(BaseException):
    """Raised by the alarm. Not an `Exception`, so that no handler of the package swallows it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Overdue("".join(traceback.format_stack(frame)[-2:]))

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Tally:
    """Counts of one attacker, and what was found."""

    name: str
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, str] = field(default_factory=dict)
    """One example for each kind of finding."""
    seconds: float = 0.0
    verbose: bool = False

    @property
    def tried(self) -> int:
        return self.counts.total()

    @property
    def bad(self) -> int:
        return sum(self.counts[kind] for kind in BAD)

    def attempt(self, number: int, trial: Callable[[random.Random], tuple[str, str]], limit: float = 30) -> None:
        """One attempt. `trial` takes a generator of its own and returns an outcome and what was tried."""
        draw = random.Random(f"{self.name} {self.seed} {number}")
        try:
            with at_most(limit):
                outcome, tried = trial(draw)
        except Wrong as error:
            outcome, tried = error.kind, error.why
        except Overdue as error:
            outcome, tried = HANG, f"more than {limit:g} s at {' '.join(str(error).split())}"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            notes = " ".join(getattr(error, "__notes__", ()))
            outcome = TRACEBACK
            tried = f"{type(error).__name__}: {str(error)[:200]} at {last.filename}:{last.lineno} {notes}"
        self.counts[outcome] += 1
        if self.verbose:
            print(f"{self.name} {number}: {outcome}: {tried}", file=sys.stderr, flush=True)
        if outcome in BAD:
            alike = re.sub(r"[\d.e+-]+", "#", " ".join(tried.split()))[:80]
            self.findings.setdefault(f"{outcome} {alike}", f"attempt {number}, {outcome}: {tried}")


def one_line(error: BaseException, *needed: str) -> str:
    """REFUSED if an error is one line that names what it is about."""
    text = str(error)
    if not text.strip() or "\n" in text.strip():
        raise Wrong(RIDDLE, f"not one line: {text!r}")
    for word in needed:
        if word not in text:
            raise Wrong(RIDDLE, f"does not name {word}: {text}")
    return REFUSED


def run(tally: Tally, count: int, attacker: Any, minutes: float, first: int = 0) -> Tally:
    """So many attempts of an attacker, or as many as fit into the time. What it prepares is not part of an attempt."""
    began = time.monotonic()
    getattr(attacker, "prepare", lambda: None)()
    for number in range(first, first + count):
        if time.monotonic() - began > 60 * minutes:
            break
        tally.attempt(number, attacker.trial, getattr(attacker, "SECONDS", 30))
    tally.seconds += time.monotonic() - began
    return tally


COLUMNS = ("tried", REFUSED, HEALED, WORKED, *BAD, "seconds")


def table(tallies: list[Tally]) -> str:
    """The counts as Markdown."""
    lines = [f"| attacker | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for tally in tallies:
        numbers = [tally.tried, *(tally.counts[kind] for kind in COLUMNS[1:-1]), round(tally.seconds)]
        lines.append(f"| {tally.name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines)
