"""The terminal table of a study's runs."""

from rich.table import Table

from leanformer.experiments.status import RunStatus, Status
from leanformer.foundation.formats import NOTHING, duration, milliseconds
from leanformer.report import tables

COLUMNS = ["run", "state", "step", "per step", "left", "where"]


def table(record: Status) -> Table:
    """Runs that train come first, then those that wait, have stopped, have failed and are done."""
    shown = [*record.of("running"), *record.of("queued", "stopped"), *record.of("failed"), *record.of("done")]
    return tables.terminal(f"Runs in {record.study}", COLUMNS, [_row(run) for run in shown], left=2)


def _row(run: RunStatus) -> list[str]:
    steps = f"{run.step:,} of {run.steps:,}" if run.steps else NOTHING
    return [
        run.place,
        run.state,
        steps,
        milliseconds(run.step_seconds),
        duration(run.seconds_left),
        run.where or NOTHING,
    ]
