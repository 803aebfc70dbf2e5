"""Progress of runs where a person is watching: all of them, and each that is under way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from leanformer.foundation.machine import is_first_process


class RunsProgress:
    """Bars on stderr; without a terminal, nothing but the messages."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal or not is_first_process(),
            transient=True,
        )
        self.whole: TaskID | None = None
        self.steps: Mapping[str, int] = {}
        self.active: dict[tuple[str, int], TaskID] = {}
        self.done: dict[tuple[str, int], int] = {}
        self.first: dict[tuple[str, int], tuple[int, float]] = {}

    def __enter__(self) -> RunsProgress:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()
        if kind is KeyboardInterrupt:
            self.say("stopped; repeat the command to resume")

    @property
    def hooks(self) -> dict[str, Any]:
        """What `compare`, `sweep` and `glue` report through."""
        return {
            "say": self.say,
            "planned": lambda plan, runs: self.planned(plan.steps, runs),
            "listen": self.hear,
        }

    def say(self, message: str) -> None:
        if is_first_process():
            self.console.print(message, style="dim", markup=False, highlight=False, soft_wrap=True)

    def planned(self, steps: Mapping[str, int], runs: Sequence[tuple[str, int]]) -> None:
        """Steps of each arm, and the runs that are still to do."""
        self.steps = steps
        if self.whole is not None:
            self.bars.remove_task(self.whole)
        self.done.clear()
        self.first.clear()
        total = sum(steps[arm] for arm, _ in runs)
        self.whole = self.bars.add_task("all runs", total=total, note=f"{len(runs)} runs")

    def hear(self, arm: str, seed: int, event: Mapping[str, Any]) -> None:
        run = (arm, seed)
        if event["event"] == "said":
            self.say(event["text"])
        elif event["event"] == "progress":
            if run not in self.active:
                self.active[run] = self.bars.add_task(f"{arm}, seed {seed}", total=self.steps[arm], note="")
            self._advance(run, event["step"])
            note = f"loss {event['loss']:.3f}{self._rate(run, event['step'])}"
            self.bars.update(self.active[run], completed=event["step"], note=note)
        elif event["event"] in ("done", "diverged"):
            self._advance(run, self.steps[arm])
            if run in self.active:
                self.bars.remove_task(self.active.pop(run))
            if event["event"] == "diverged":
                self.say(event["text"])

    def _rate(self, run: tuple[str, int], step: int) -> str:
        began, at = self.first.setdefault(run, (step, time.monotonic()))
        seconds = time.monotonic() - at
        return f", {(step - began) / seconds:.1f} steps/s" if step > began and seconds > 0 else ""

    def _advance(self, run: tuple[str, int], step: int) -> None:
        if self.whole is not None:
            self.bars.advance(self.whole, step - self.done.get(run, 0))
        self.done[run] = step
