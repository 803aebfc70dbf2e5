"""Tables for the terminal, Markdown and notebooks. Names in records are shown as text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape as escape_html

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text


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


def html(table: Table, sentences: Sequence[str] = ()) -> str:
    """A terminal's table and sentences as HTML. Every text is escaped, whatever it holds."""
    sides = [column.justify for column in table.columns]
    head = "".join(
        _html_cell("th", str(column.header), side) for column, side in zip(table.columns, sides, strict=True)
    )
    lines = []
    for row, *cells in zip(table.rows, *(column.cells for column in table.columns), strict=True):
        start = '<tr style="font-weight:bold">' if "bold" in str(row.style) else "<tr>"
        shown = (_html_cell("td", str(text), side) for text, side in zip(cells, sides, strict=True))
        lines.append(f"{start}{''.join(shown)}</tr>")
    title = f"<p><b>{_without_markup(str(table.title))}</b></p>" if table.title else ""
    words = "".join(f"<li>{escape_html(sentence)}</li>" for sentence in sentences)
    listed = f"<ul>{words}</ul>" if words else ""
    return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{listed}</div>"


def _html_cell(tag: str, text: str, side: str) -> str:
    return f'<{tag} style="text-align:{"right" if side == "right" else "left"}">{_without_markup(text)}</{tag}>'


def _without_markup(text: str) -> str:
    """What the terminal would show of a text, without its colours, for HTML."""
    return escape_html(Text.from_markup(text, emoji=False).plain)
