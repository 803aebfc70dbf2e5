"""Progress where a person is watching: bars in a terminal, the same bars in a notebook, otherwise nothing.

Who asks for progress where no bar can be drawn, as in the log of a job, gets a line for each finished run.

Everything goes to standard error, so that standard output holds results alone; a notebook shows it beneath the cell.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape as escape_html
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from leanformer.foundation.formats import counted, duration
from leanformer.foundation.machine import is_first_process

REDRAW_SECONDS = 0.5
"""A notebook sends every picture to a browser, so it gets fewer of them than a terminal."""


def in_notebook() -> bool:
    return Console().is_jupyter


def is_watched() -> bool:
    """Whether a person is looking: standard output is a terminal or a notebook."""
    return sys.stdout is not None and (in_notebook() or sys.stdout.isatty())


class RunsProgress:
    """What several runs say and how far they are.

    Args:
        shown: whether to show it; None shows it where a person is watching. Bars need a terminal or a notebook;
            elsewhere there are messages alone, one of them for every finished run.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self.shown = (is_watched() if shown is None else shown) and is_first_process()
        self.console = Console(stderr=True)
        self._place = _Place() if self.shown and in_notebook() else None
        aside = Console(file=io.StringIO(), width=100, force_jupyter=False)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            TimeRemainingColumn(),
            console=self.console if self._place is None else aside,
            disable=not self.shown or (self._place is None and not self.console.is_terminal),
            transient=True,
        )
        self.whole: TaskID | None = None
        self.steps: Mapping[str, int] = {}
        self.active: dict[tuple[str, int], TaskID] = {}
        self.done: dict[tuple[str, int], int] = {}
        self.first: dict[tuple[str, int], tuple[int, float]] = {}
        self.runs = self.finished = 0
        self.begun = time.monotonic()

    def __enter__(self) -> RunsProgress:
        if self._place is None:
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._place is None:
            self.bars.stop()
        else:
            self._place.clear()
        if kind is KeyboardInterrupt:
            self.say("stopped; repeat it to resume")

    def say(self, message: str) -> None:
        if not self.shown:
            return
        if self._place is not None:
            print(message)
        else:
            self.console.print(message, style="dim", markup=False, highlight=False, soft_wrap=True)

    def planned(self, steps: Mapping[str, int], runs: Sequence[tuple[str, int]]) -> None:
        """Steps of each arm, and the runs that are still to do."""
        self.steps = steps
        if self.whole is not None:
            self.bars.remove_task(self.whole)
        self.done.clear()
        self.first.clear()
        self.runs, self.finished, self.begun = len(runs), 0, time.monotonic()
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
        elif event["event"] in ("done", "diverged", "crashed"):
            self._advance(run, self.steps[arm])
            if run in self.active:
                self.bars.remove_task(self.active.pop(run))
            if event["event"] == "diverged":
                self.say(event["text"])
            elif event["event"] == "crashed":
                self.say(f"{arm}, seed {seed}: {event['text']}; the other runs continue")
            self.finished += 1
            if self.bars.disable:
                self.say(f"{arm}, seed {seed}: {self.finished} of {counted(self.runs, 'run')} done{self._time_left()}")
        if self._place is not None:
            self._place.draw(self.bars)

    def _time_left(self) -> str:
        """As the time so far lets expect, if that is known."""
        whole = next((task for task in self.bars.tasks if task.id == self.whole), None)
        if whole is None or not whole.total or not 0 < whole.completed < whole.total:
            return ""
        passed = time.monotonic() - self.begun
        return f", about {duration(passed * (whole.total - whole.completed) / whole.completed)} left"

    def _rate(self, run: tuple[str, int], step: int) -> str:
        began, at = self.first.setdefault(run, (step, time.monotonic()))
        seconds = time.monotonic() - at
        return f", {(step - began) / seconds:.1f} steps/s" if step > began and seconds > 0 else ""

    def _advance(self, run: tuple[str, int], step: int) -> None:
        if self.whole is not None:
            self.bars.advance(self.whole, step - self.done.get(run, 0))
        self.done[run] = step


@contextmanager
def working(what: str, shown: bool | None = None) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done; what it yields takes the step that it is at."""
    if not (is_watched() if shown is None else shown) or not is_first_process():
        yield lambda step: None
    elif in_notebook():
        place = _Place()
        place.show(what)
        try:
            yield lambda step: place.show(f"{what}: {step}")
        finally:
            place.clear()
    else:
        with Console(stderr=True).status(escape(what)) as status:
            yield lambda step: status.update(escape(f"{what}: {step}"))


class _Place:
    """A place beneath a notebook's cell that can be drawn again; rich itself would need ipywidgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = 0.0

    def draw(self, bars: Progress) -> None:
        if time.monotonic() - self._drawn >= REDRAW_SECONDS:
            with bars.console.capture() as captured:
                bars.console.print(bars.get_renderable())
            self.show(captured.get())

    def show(self, text: str) -> None:
        from IPython.display import HTML, display

        self._drawn = time.monotonic()
        shown = HTML(f"<pre>{escape_html(text)}</pre>" if text else "")
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def clear(self) -> None:
        if self._handle is not None:
            self.show("")
