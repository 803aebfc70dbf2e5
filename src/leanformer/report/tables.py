"""Tables for the terminal and for Markdown. Names that come from records are shown as text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table


def terminal(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, bold: str = "", wrap: bool = True
) -> Table:
    """A table whose first `left` columns are text and whose others are numbers; the row called `bold` stands out."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=escape(title) or None, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(escape(name), justify="left" if place < left else "right", no_wrap=not wrap)
    for row in rows:
        table.add_row(*map(escape, row), style="bold" if bold and row[0] == bold else "")
    return table


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    rule = "|" + "---|" * left + "---:|" * (len(head) - left)
    return "\n".join([_line(head), rule, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


MARKS = re.compile(r"[\\|<`$]|&(?=#?\w)|\](?=[(\[:])")
"""What Markdown would read: escapes, columns, HTML, code, formulas, entities and links."""


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return " ".join(MARKS.sub(lambda mark: ENTITIES.get(mark[0], "\\" + mark[0]), text).split())


ENTITIES = {"<": "&lt;", "&": "&amp;"}


def markdown_code(text: str) -> str:
    """Text as Markdown's code, in one line, whatever backticks it holds."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"
