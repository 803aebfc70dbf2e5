"""A comparison as one self-contained HTML page and as Markdown, with its figures as files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure

from leanformer.experiments.records import Comparison
from leanformer.experiments.sentences import as_sentence
from leanformer.records.files import write_text
from leanformer.report import comparison, tables
from leanformer.report.figures import comparison as figures
from leanformer.report.figures.style import STYLE, save

SHADES = {"holds": "#3a7d44", "loses": "#b3261e", "cannot tell": "#c98a00"}
FORMATS = (".png", ".svg", ".pdf")


def write(record: Comparison, folder: Path) -> list[Path]:
    """Write report.html, report.md and the figures; returns the two pages."""
    drawn = figures.drawn(record)
    for name, (_, figure) in drawn.items():
        save(figure, folder / "figures" / name, FORMATS)
    environment = Environment(
        loader=PackageLoader("leanformer", "report"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    plain = record.to_dict()
    context = {
        "record": record,
        "sentences": [as_sentence(phrase) for phrase in record.sentences()],
        "headings": comparison.headings(record),
        "rows": comparison.rows(record),
        "seed_headings": comparison.seed_headings(record),
        "seed_rows": comparison.seed_rows(record),
        "note": comparison.note(record),
        "shade": SHADES.get(record.verdict.outcome or "", "#8a919e"),
        "figures": [(caption, _inline(figure)) for caption, figure in drawn.values()],
        "files": [(caption, f"figures/{name}.png") for name, (caption, _) in drawn.items()],
        "configuration": json.dumps({key: plain[key] for key in ("task", "training", "budget", "arms")}, indent=2),
        "machine": comparison.machine(record),
        "markdown": tables.markdown,
        "text": tables.markdown_text,
    }
    pages = [folder / "report.html", folder / "report.md"]
    for page in pages:
        write_text(page, environment.get_template(f"page{page.suffix}.jinja").render(context))
    return pages


def _inline(figure: Figure) -> Markup:
    """A figure as an SVG element inside the page."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704  drawn here; matplotlib escapes the words in it
