"""The table of GLUE, from its record alone."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.report.numbers import parameters, score

Record = Mapping[str, Any]
PERCENT = {"unit": "%"}


def rows(record: Record) -> list[list[str]]:
    """An arm a row: parameters, every task, the average over the tasks at hand."""
    tasks = record["tasks"].values()
    return [
        [
            arm,
            parameters(record["params"][arm]),
            *(score(task["arms"][arm]["score"], PERCENT) for task in tasks),
            score(record["average"].get(arm), PERCENT),
        ]
        for arm in record["params"]
    ]


def headings(record: Record) -> list[str]:
    tasks = [f"{name} ({task['metric']})" for name, task in record["tasks"].items()]
    return ["arm", "params", *tasks, f"average of {len(tasks)}"]


def table(record: Record) -> Table:
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, title="GLUE, validation, ± 95 % over seeds", title_justify="left")
    for heading in headings(record):
        shown.add_column(heading, justify="left" if heading == "arm" else "right")
    for row in rows(record):
        shown.add_row(*row, style="bold" if row[0] == "lean" else "")
    return shown


def words(record: Record) -> list[str]:
    left_out = [f"missing, and not in the average: {name} ({why})" for name, why in record["missing"].items()]
    return [*record["words"], *left_out]


def markdown(record: Record) -> str:
    head = headings(record)
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows(record)]
    sentences = [f"- {line[0].upper()}{line[1:]}." for line in words(record)]
    return "\n".join(["# GLUE", "", *lines, "", *sentences, "", f"To run it again: `{record['command']}`.", ""])
