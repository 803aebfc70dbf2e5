"""The terminal table of an inheritance: the layers of the trained model, and which of them stay."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leanformer.foundation.formats import NOTHING, significant
from leanformer.inheriting.record import Inheritance


def table(record: Inheritance) -> Table:
    title = f"Layers of {Path(record.model).name}"
    found = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    measured = any(row.without is not None for row in record.scores)
    for column in ("layer", "influence", *((f"{record.loss} without it",) if measured else ())):
        found.add_column(column, justify="right")
    found.add_column("")
    for row in record.scores:
        values = [row.influence, *((row.without,) if measured else ())]
        shown = [NOTHING if value is None else significant(value) for value in values]
        word = f"stays, as layer {record.layers.index(row.layer)}" if row.kept else _gone(row.removed)
        found.add_row(str(row.layer), *shown, f"[bold]{word}[/]" if row.kept else word)
    return found


def _gone(removed: int | None) -> str:
    return "removed" if removed is None else f"removed as number {removed}"
