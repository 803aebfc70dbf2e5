"""GLUE's scores as a table and as Markdown, from their record alone."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from leanformer.experiments.arms import LEAN
from leanformer.experiments.glue import Glue
from leanformer.experiments.sentences import as_sentence
from leanformer.foundation import formats
from leanformer.foundation.records.files import write_text
from leanformer.report import cells, tables

PERCENT = "%"


def headings(record: Glue) -> list[str]:
    named = [f"{name} ({task.metric})" for name, task in record.tasks.items()]
    return ["arm", "params", *named, f"average of {len(named)}"]


def rows(record: Glue) -> list[list[str]]:
    """An arm per row: parameters, every task, the average over the tasks that are available."""
    return [
        [
            arm,
            formats.parameters(params),
            *(cells.score(task.arms[arm].score, PERCENT) for task in record.tasks.values()),
            cells.score(record.average.get(arm), PERCENT),
        ]
        for arm, params in record.params.items()
    ]


def table(record: Glue) -> Table:
    return tables.terminal("GLUE, validation, ± 95 % over seeds", headings(record), rows(record), bold=LEAN)


def markdown(record: Glue) -> str:
    sentences = [f"- {tables.markdown_text(as_sentence(phrase))}" for phrase in record.sentences()]
    body = tables.markdown(headings(record), rows(record))
    return "\n".join(
        ["# GLUE", "", body, "", *sentences, "", f"To run it again: {tables.markdown_code(record.command)}.", ""]
    )


def write(record: Glue, folder: Path) -> Path:
    page = folder / "glue.md"
    write_text(page, markdown(record))
    return page
