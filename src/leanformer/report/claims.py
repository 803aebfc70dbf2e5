"""The claims of both papers: as a terminal table, as Markdown, and as a self-contained page with a figure for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from markupsafe import escape as escape_html
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leanformer.foundation.records.files import write_text
from leanformer.paper.record import CLAIM_STATUSES, Claim, ClaimPart, ClaimStatus, Scorecard
from leanformer.report import scorecard, tables

MARKS: dict[ClaimStatus, tuple[str, str, str]] = {
    "holds": ("✓", "green", "#3a7d44"),
    "holds under another reading": ("≈", "yellow", "#7a8a2a"),
    "does not hold here": ("✗", "red", "#b3261e"),
    "cannot tell": ("?", "cyan", "#c98a00"),
    "not testable here": ("·", "dim", "#8a919e"),
}
"""Sign, colour in a terminal, and colour on the page."""
WIDTH, HEIGHT = 220, 34
ROW = 14
"""Height of every further row of a drawing."""


def terminal_table(record: Scorecard) -> Table:
    """Status, place, claim and result; the page and JSON have rules, records and commands too."""
    table = Table("", "where", "claim", "result", box=SIMPLE_HEAD, pad_edge=False)
    table.columns[0].no_wrap = True
    paper = None
    for claim in record.claims:
        if claim.paper != paper:
            paper = claim.paper
            table.add_row("", f"[bold]{paper}[/]")
        mark, colour, _ = MARKS[claim.status]
        result = claim.result if claim.records else f"{claim.result}: {claim.test}"
        table.add_row(f"[{colour}]{mark}[/]", escape(claim.where), escape(claim.statement), escape(result))
    table.caption = "  ".join(f"[{colour}]{mark}[/] {status}" for status, (mark, colour, _) in MARKS.items())
    return table


INTRODUCTION = (
    'What the records in `results/` say about each claim of two papers: "Leaner Transformers: More Heads, Less Depth" '
    'and "Quality over Quantity in Attention Layers". A status is computed from the records by a rule, which '
    "`leanformer paper --json` gives for each claim. The rules and their thresholds were written when most of these "
    "records existed, and some were changed after a first look at them. So a status is a reading of known results, not "
    "the outcome of a test that was fixed beforehand; only claims without a record have their rule first. "
    "`leanformer paper --out FOLDER` writes this page."
)
BEYOND = "Beyond the paper's text"
COLUMNS = ("where", "claim", "printed", "status", "result", "tested on", "command", "at the paper's scale")


def markdown(record: Scorecard) -> str:
    """The page as Markdown: claims by paper, cited settings, and the recount of the tables."""
    parts = [
        "# The scorecard",
        INTRODUCTION,
        record.claims_summary,
    ]
    for paper in dict.fromkeys(claim.paper for claim in record.claims):
        own = [claim for claim in record.claims if claim.paper == paper]
        printed, beyond = ([_cells(claim) for claim in own if claim.extension is other] for other in (False, True))
        parts += [f"## {paper}", _table(COLUMNS, printed)]
        parts += [f"### {BEYOND}", _table(COLUMNS, beyond)] if beyond else []
    if record.settings:
        head = ("source", "recipes", "setting", "cited", "ours")
        rows = [
            [tables.markdown_text(row.source), *map(tables.markdown_code, (row.recipes, row.setting, row.cited)), ours]
            for row in record.settings
            for ours in ["the same" if row.same else "differs"]
        ]
        parts += ["## Settings of the cited code", _table(head, rows)]
    parts += ["## The tables, recounted", scorecard.markdown(record)]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are Markdown already."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _cells(claim: Claim) -> list[str]:
    mark = MARKS[claim.status][0]
    return [
        tables.markdown_text(claim.where),
        tables.markdown_text(claim.statement),
        tables.markdown_text("; ".join(claim.printed)) or "–",
        f"{mark} {claim.status}",
        tables.markdown_text(claim.result),
        tables.markdown_text(claim.scale),
        tables.markdown_code(claim.test),
        tables.markdown_text(claim.at_scale or "–"),
    ]


def html(record: Scorecard) -> str:
    """One page without anything from elsewhere."""
    environment = Environment(
        loader=PackageLoader("leanformer", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    counts = [(status, sum(claim.status == status for claim in record.claims)) for status in CLAIM_STATUSES]
    return environment.get_template("claims.html.jinja").render(
        record=record, counts=counts, marks=MARKS, drawing=drawing, recount=_recount(record), beyond=BEYOND.lower()
    )


def _recount(record: Scorecard) -> list[Sequence[str]]:
    return [
        (row.table, row.model, row.variant, row.printed.params or "–", f"{row.params:,}", row.reading, row.status)
        for row in record.rows
    ]


def drawing(claim: Claim) -> Markup:
    """The numbers that were judged, one row each, with their intervals and limits, in the colours of their statuses."""
    rows = [row for row in claim.judged if all(map(math.isfinite, (row.value, *row.ends)))]
    if not rows:
        shade = MARKS[claim.status][2]
        body = f'<circle cx="{WIDTH / 2:g}" cy="{HEIGHT / 2:g}" r="5" fill="none" stroke="{shade}" stroke-width="2"/>'
        return _svg(body, HEIGHT, "no number")
    ends = [end for row in rows for end in (row.value, *row.ends, *([row.limit.value] if row.limit else []))]
    left, reach = min(ends), (max(ends) - min(ends)) or 1.0

    def place(value: float) -> float:
        return 10 + (WIDTH - 20) * (value - left) / reach

    height = HEIGHT + ROW * (len(rows) - 1)
    body = ""
    for number, row in enumerate(rows):
        middle, shade = HEIGHT / 2 + ROW * number, MARKS[row.status][2]
        low, high = row.ends
        if row.limit:
            x, half = place(row.limit.value), HEIGHT / 2 - 2 if len(rows) == 1 else ROW / 2
            body += f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - half:g}" y2="{middle + half:g}" stroke="#8a919e"/>'
        body += (
            f'<g><title>{escape_html(_words(row))}</title><line x1="{place(low):.1f}" x2="{place(high):.1f}" '
            f'y1="{middle:g}" y2="{middle:g}" stroke="{shade}" stroke-width="3"/>'
            f'<circle cx="{place(row.value):.1f}" cy="{middle:g}" r="{4 if len(rows) > 1 else 5}" fill="{shade}"/></g>'
        )
    return _svg(body, height, "; ".join(map(_words, rows)))


def _words(part: ClaimPart) -> str:
    low, high = part.ends
    span = f" from {low:.4g} to {high:.4g}" if low < high else ""
    wanted = f"; asked for is {part.limit}" if part.limit else ""
    return f"{f'{part.name}: ' if part.name else ''}{part.value:.4g}{span}{wanted}"


def _svg(body: str, height: float, title: str) -> Markup:
    """A drawing of numbers and colours of ours; the names in it are escaped."""
    size = f'width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
    return Markup(f'<svg {size} role="img"><title>{escape_html(title)}</title>{body}</svg>')  # noqa: S704


def write(record: Scorecard, folder: Path) -> list[Path]:
    """Write scorecard.md and scorecard.html; returns the files."""
    pages = {folder / "scorecard.md": markdown(record), folder / "scorecard.html": html(record)}
    for page, text in pages.items():
        write_text(page, text)
    return list(pages)
