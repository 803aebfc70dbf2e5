"""A comparison as one self-contained HTML page and as Markdown, with its figures as files."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure

from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.sentences import as_sentence
from leanformer.foundation.records.files import write_text
from leanformer.report import comparison, tables
from leanformer.report.figures import comparison as figures
from leanformer.report.figures.style import STYLE, save

SHADES = {"holds": "#3a7d44", "loses": "#b3261e", "cannot tell": "#c98a00"}
FORMATS = (".png", ".svg", ".pdf")


def write(record: Comparison, folder: Path) -> list[Path]:
    """Write report.html, report.md and the figures; returns the two pages."""
    drawn = {name: (caption, draw()) for name, (caption, draw) in figures.available(record).items()}
    for name, (_, figure) in drawn.items():
        save(figure, folder / "figures" / name, FORMATS)
    inline = [(caption, _inline(figure)) for caption, figure in drawn.values()]
    pages = {folder / "report.html": html(record, inline), folder / "report.md": markdown(record)}
    for page, text in pages.items():
        write_text(page, text)
    return list(pages)


def html(record: Comparison, inline: Sequence[tuple[str, Markup]]) -> str:
    """The page, with figures that are SVG elements."""
    plain = record.to_dict()
    configuration = json.dumps({key: plain[key] for key in ("task", "training", "budget", "arms")}, indent=2)
    shade = SHADES.get(record.verdict.outcome or "", "#8a919e")
    return _rendered("page.html.jinja", record, figures=inline, configuration=configuration, shade=shade)


def markdown(record: Comparison) -> str:
    """The page as Markdown; its figures are files beside it."""
    files = [(caption, f"figures/{name}.png") for name, (caption, _) in figures.available(record).items()]
    return _rendered(
        "page.md.jinja",
        record,
        files=files,
        markdown=tables.markdown,
        text=tables.markdown_text,
        code=tables.markdown_code,
    )


def _rendered(template: str, record: Comparison, **more: Any) -> str:
    environment = Environment(
        loader=PackageLoader("leanformer", "report"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(
        record=record,
        sentences=[as_sentence(phrase) for phrase in record.sentences()],
        headings=comparison.headings(record),
        rows=comparison.rows(record),
        seed_headings=comparison.seed_headings(record),
        seed_rows=comparison.seed_rows(record),
        note=comparison.note(record),
        machine=comparison.machine(record),
        **more,
    )


def _inline(figure: Figure) -> Markup:
    """A figure as an SVG element inside the page."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704  drawn here; matplotlib escapes the words in it
