"""A comparison as one self-contained HTML page and as Markdown, with its figures as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.sentences import as_sentence
from leanformer.foundation.records.files import plain, write_text
from leanformer.report import comparison, tables
from leanformer.report.figures import comparison as figures
from leanformer.report.figures.style import save

SHADES = {"holds": "#3a7d44", "loses": "#b3261e", "cannot tell": "#c98a00"}
FORMATS = (".png", ".svg", ".pdf")


def write(record: Comparison, folder: Path) -> list[Path]:
    """Write report.html, report.md and the figures; returns the two pages."""
    inline = []
    for name, (caption, draw) in figures.available(record).items():
        save(draw(), folder / "figures" / name, FORMATS)
        inline.append((caption, _inline(folder / "figures" / f"{name}.svg")))
    pages = {folder / "report.html": html(record, inline), folder / "report.md": markdown(record)}
    for page, text in pages.items():
        write_text(page, text)
    return list(pages)


def html(record: Comparison, inline: Sequence[tuple[str, Markup]]) -> str:
    """The page, with figures that are SVG elements."""
    parts = ("task", "training", "budget", "arms")
    written = plain(record.model_dump(mode="json", include=set(parts)))
    configuration = json.dumps({key: written[key] for key in parts if written[key] is not None}, indent=2)
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


def _inline(file: Path) -> Markup:
    """A drawn figure as an SVG element inside the page."""
    text = file.read_text(encoding="utf-8")
    return Markup(text[text.index("<svg") :])  # noqa: S704  drawn here; matplotlib escapes the words in it
