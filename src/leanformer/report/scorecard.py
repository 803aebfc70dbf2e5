"""The paper's scorecard as a terminal table and as Markdown. May import the scorecard's records."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.models.published import Row
from leanformer.paper.memory import Memory, lean_shares
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


def memory_summary(found: Mapping[Row, Memory]) -> str:
    """What the memory column shows, in a sentence."""
    fit = sum(value.status == "within 10 %" for value in found.values())
    constant = next(iter(found.values())).constant_gb
    shares = ", ".join(
        f"{model} {100 * printed:.0f} % ({100 * counted:.0f} %)"
        for model, (printed, counted) in lean_shares(dict(found)).items()
    )
    return (
        f"{fit} of {len(found)} printed memory figures are within 10 % of float32 with explicit attention on 8 "
        f"devices, 8 bytes a parameter and a fitted constant of {constant:.0f} GB. "
        f"Lean over original, printed (counted): {shares}."
    )


def terminal_table(recounts: Sequence[Recount], memory: Mapping[Row, Memory] | None = None) -> Table:
    """Narrow enough for 80 columns; `markdown` and JSON have every column."""
    names = ["model", "", "layers × heads", "printed", "recount", "", *(["GB, counted"] if memory else []), "reading"]
    table = Table(*names, box=SIMPLE_HEAD, pad_edge=False)
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
        counts = (printed, f"{recount.params:,}", f"[{colour}]{mark}[/]")
        gigabytes = [_memory_cell(memory.get(row))] if memory else []
        table.add_row(row.model, row.variant, shape, *counts, *gigabytes, recount.reading)
    table.caption = "  ".join(f"[{colour}]{mark}[/] {status}" for status, (mark, colour) in MARKS.items())
    return table


def _memory_cell(value: Memory | None) -> str:
    if value is None:
        return ""
    colour = "green" if value.status == "within 10 %" else "red"
    return f"{value.printed_gb:g} [{colour}]{value.counted_gb:.0f}[/]"


def markdown(recounts: Sequence[Recount], memory: Mapping[Row, Memory] | None = None) -> str:
    columns = (*COLUMNS, "GB printed", "GB counted", "memory") if memory else COLUMNS
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for recount in recounts:
        row = list(cells(recount))
        if memory:
            value = memory.get(recount.row)
            row += [f"{value.printed_gb:g}", f"{value.counted_gb:.1f}", value.status] if value else ["–", "–", "–"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join([*lines, "", summary(recounts), *([memory_summary(memory)] if memory else [])])
