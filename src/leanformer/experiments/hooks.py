"""What experiments report while they run: to the person who is watching, and to functions of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from leanformer.foundation.progress import RunsProgress
from leanformer.runners.base import Event


class Plan(Protocol):
    """What is planned: a recipe's comparison, or one around a training loop of one's own."""

    @property
    def steps(self) -> Mapping[str, int]:
        """Of each arm."""


Say = Callable[[str], None]
"""Receives messages for a person."""
Planned = Callable[[Plan, Sequence[tuple[str, int]]], None]
"""Receives the plan, and which of its runs are still to do, by arm and seed."""
Listener = Callable[[str, int, Event], None]
"""Receives a run's arm and seed, and an event: progress (step, loss), said (text), done, diverged (text),
crashed (text)."""


@dataclass(frozen=True)
class Hooks:
    """Where reports go; by default nowhere."""

    say: Say = lambda message: None
    planned: Planned = lambda plan, runs: None
    listen: Listener = lambda arm, seed, event: None


@contextmanager
def reporting(
    progress: bool | None, say: Say | None, planned: Planned | None, listen: Listener | None
) -> Iterator[Hooks]:
    """Hooks that show progress and call the caller's functions, where these are given.

    Args:
        progress: whether to show it; by default where a person is watching.
        say, planned, listen: the caller's functions.
    """
    usual = Hooks()
    caller = Hooks(say or usual.say, planned or usual.planned, listen or usual.listen)
    with RunsProgress(progress) as shown:

        def also_say(message: str) -> None:
            shown.say(message)
            caller.say(message)

        def also_planned(plan: Plan, runs: Sequence[tuple[str, int]]) -> None:
            shown.planned(plan.steps, runs)
            caller.planned(plan, runs)

        def also_listen(arm: str, seed: int, event: Event) -> None:
            shown.hear(arm, seed, event)
            caller.listen(arm, seed, event)

        yield Hooks(also_say, also_planned, also_listen)
