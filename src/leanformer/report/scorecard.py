"""The paper's scorecard as a terminal table and as Markdown. May import the scorecard's records."""

from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.paper.scorecard import Recount

COLUMNS = ("table", "model", "", "depth", "heads", "MLP", "printed", "recount", "reading", "status")
MARKS = {
    "matches": ("✓", "green"),
    "matches under another reading than printed": ("≈", "yellow"),
    "unexplained": ("✗", "red"),
    "not printed": ("·", "dim"),
}


def cells(recount: Recount) -> tuple[str, ...]:
    row = recount.row
    return (
        row.table,
        row.model,
        row.variant,
        _show(row.depth),
        _show(row.heads),
        _show(row.mlp_dim),
        str(row.params or "–"),
        f"{recount.params:,}",
        recount.reading,
        recount.status,
    )


def _show(numbers: object) -> str:
    if numbers is None:
        return "–"
    return " ".join(map(str, numbers)) if isinstance(numbers, tuple) else str(numbers)


def summary(recounts: Sequence[Recount]) -> str:
    counts = Counter(recount.status for recount in recounts)
    printed = len(recounts) - counts["not printed"]
    return (
        f"{counts['matches']} of {printed} printed counts match as printed, "
        f"{counts['matches under another reading than printed']} under another reading, "
        f"{counts['unexplained']} stay unexplained."
    )


def terminal_table(recounts: Sequence[Recount]) -> Table:
    """Narrow enough for 80 columns; `markdown` and JSON have every column."""
    table = Table("model", "", "layers × heads", "printed", "recount", "", "reading", box=SIMPLE_HEAD, pad_edge=False)
    table.columns[3].justify = table.columns[4].justify = "right"
    for column in table.columns[:6]:
        column.no_wrap = True
    section = None
    for recount in recounts:
        row = recount.row
        if row.table != section:
            section = row.table
            table.add_row(f"[bold]{section}[/]")
        mark, colour = MARKS[recount.status]
        printed = str(row.params or "–")
        shape = (
            f"{_show(row.depth)} × {_show(row.heads)}" if isinstance(row.depth, int) else f"{sum(row.depth)} in stages"
        )
        table.add_row(
            row.model, row.variant, shape, printed, f"{recount.params:,}", f"[{colour}]{mark}[/]", recount.reading
        )
    table.caption = "  ".join(f"[{colour}]{mark}[/] {status}" for status, (mark, colour) in MARKS.items())
    return table


def markdown(recounts: Sequence[Recount]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(cells(recount))} |" for recount in recounts]
    return "\n".join([*lines, "", summary(recounts)])
