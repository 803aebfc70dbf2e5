"""The claims of both papers: as a terminal table, as Markdown, and as a self-contained page with a figure for each."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leanformer.foundation.records.files import write_text
from leanformer.paper.drawn import PaperFigure
from leanformer.paper.record import CLAIM_STATUSES, LEANER, Claim, Scorecard
from leanformer.report import scorecard, tables
from leanformer.report.figures.claim import MARKS
from leanformer.report.figures.claim import draw as draw_claim
from leanformer.report.figures.paper import draw as draw_figure
from leanformer.report.figures.style import svg


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
    "the outcome of a test that was fixed beforehand. Exceptions are claims without a record, and those of the "
    "counterpoint that have studies of their own (`leanformer paper bound`, `features`, `voting`, `positions`, "
    "`perfect`), whose first rules were written before these records. The paper does not print whether heads keep "
    "their size or split the width; recounts take what gives the printed count, and say so. "
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
    parts += ["## The tables, recounted", scorecard.markdown(record)] if record.rows else []
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
        record=record,
        counts=counts,
        marks=MARKS,
        drawing=draw_claim,
        figures=_drawn(record.figures),
        figures_of=lambda claim: [
            (number, figure)
            for number, figure in enumerate(record.figures, 1)
            if claim.paper == LEANER and not claim.extension and f"Figure {figure.number}" in claim.places
        ],
        recount=_recount(record),
        beyond=BEYOND.lower(),
    )


def _recount(record: Scorecard) -> list[Sequence[str]]:
    return [
        (row.table, row.model, row.variant, row.printed.params or "–", f"{row.params:,}", row.reading, row.status)
        for row in record.rows
    ]


def _drawn(figures: Sequence[PaperFigure]) -> list[tuple[PaperFigure, str]]:
    """Each figure as the source of an image, which keeps the names inside of one drawing apart from the next."""
    return [(one, f"data:image/svg+xml;base64,{b64encode(svg(draw_figure(one))).decode()}") for one in figures]


def write(record: Scorecard, folder: Path) -> list[Path]:
    """Write scorecard.md and scorecard.html; returns the files."""
    pages = {folder / "scorecard.md": markdown(record), folder / "scorecard.html": html(record)}
    for page, text in pages.items():
        write_text(page, text)
    return list(pages)
