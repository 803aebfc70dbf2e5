"""The paper's scorecard as a terminal table and as Markdown."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.foundation.formats import percent, tenths
from leanformer.paper.memory import lean_shares
from leanformer.paper.record import Memory, Scorecard, ScorecardRow

COLUMNS = ("table", "model", "", "depth", "heads", "MLP", "printed", "recount", "reading", "status")
MEMORY_COLUMNS = ("GB printed", "GB counted", "memory")
MARKS = {
    "matches": ("✓", "green"),
    "matches under another reading than printed": ("≈", "yellow"),
    "unexplained": ("✗", "red"),
    "not printed": ("·", "dim"),
}


def sentences(record: Scorecard) -> list[str]:
    """What the scorecard shows, in words."""
    claims = [record.claims_summary] if record.claims else []
    return [
        *claims,
        *([record.summary] if record.summary else []),
        *([_memory_sentence(record)] if _memories(record) else []),
    ]


def terminal_table(record: Scorecard) -> Table:
    """Narrow enough for 80 columns; `markdown` and JSON have every column."""
    memory = bool(_memories(record))
    names = ["model", "", "layers × heads", "printed", "recount", "", *(["GB, counted"] if memory else []), "reading"]
    table = Table(*names, box=SIMPLE_HEAD, pad_edge=False)
    table.columns[3].justify = table.columns[4].justify = "right"
    for column in table.columns[:6]:
        column.no_wrap = True
    section = None
    for row in record.rows:
        if row.table != section:
            section = row.table
            table.add_row(f"[bold]{section}[/]")
        mark, colour = MARKS[row.status]
        counts = (row.printed.params or "–", f"{row.params:,}", f"[{colour}]{mark}[/]")
        gigabytes = [_memory_cell(row.memory)] if memory else []
        table.add_row(row.model, row.variant, _shape(row), *counts, *gigabytes, row.reading)
    table.caption = "  ".join(f"[{colour}]{mark}[/] {status}" for status, (mark, colour) in MARKS.items())
    return table


def markdown(record: Scorecard) -> str:
    """Every column, and the sentences beneath."""
    memory = bool(_memories(record))
    columns = (*COLUMNS, *MEMORY_COLUMNS) if memory else COLUMNS
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_cells(row, memory))} |" for row in record.rows]
    return "\n".join([*lines, "", *sentences(record)])


def _cells(row: ScorecardRow, memory: bool) -> list[str]:
    printed, found = row.printed, row.memory
    cells = [
        row.table,
        row.model,
        row.variant,
        _show(printed.depth),
        _show(printed.heads),
        _show(printed.mlp_dim),
        printed.params or "–",
        f"{row.params:,}",
        row.reading,
        row.status,
    ]
    if memory:
        cells += [f"{found.printed_gb:g}", tenths(found.counted_gb), found.status] if found else ["–", "–", "–"]
    return cells


def _show(numbers: object) -> str:
    if numbers is None:
        return "–"
    return " ".join(map(str, numbers)) if isinstance(numbers, tuple) else str(numbers)


def _shape(row: ScorecardRow) -> str:
    depth = row.printed.depth
    return f"{sum(depth)} in stages" if isinstance(depth, tuple) else f"{depth} × {_show(row.printed.heads)}"


def _memories(record: Scorecard) -> list[Memory]:
    return [row.memory for row in record.rows if row.memory is not None]


def _memory_cell(value: Memory | None) -> str:
    if value is None:
        return ""
    colour = "green" if value.status == "within 10 %" else "red"
    return f"{value.printed_gb:g} [{colour}]{value.counted_gb:.0f}[/]"


def _memory_sentence(record: Scorecard) -> str:
    found = _memories(record)
    fit = sum(value.status == "within 10 %" for value in found)
    shares = ", ".join(
        f"{model} {percent(printed)} ({percent(counted)})"
        for model, (printed, counted) in lean_shares(record.rows).items()
    )
    return (
        f"{fit} of {len(found)} printed memory figures are within 10 % of float32 with explicit attention on 8 "
        f"devices, 8 bytes per parameter and a fitted constant of {found[0].constant_gb:.0f} GB. "
        f"Lean over original, printed (counted): {shares}."
    )
