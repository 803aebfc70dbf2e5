"""A comparison as one self-contained HTML page and as Markdown, with its figures as files. Records only."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure

from leanformer.report import comparison
from leanformer.report.figures import comparison as curves
from leanformer.report.figures.style import STYLE, save

Record = Mapping[str, Any]

SHADES = {"holds": "#3a7d44", "loses": "#b3261e", "cannot tell": "#c98a00"}
FORMATS = (".png", ".svg", ".pdf")


def write(record: Record, folder: Path) -> list[Path]:
    """Write report.html, report.md and the figures; returns the two pages."""
    drawn = figures(record)
    for name, (_, figure) in drawn.items():
        save(figure, folder / "figures" / name, FORMATS)
    environment = Environment(
        loader=PackageLoader("leanformer", "report"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    context = {
        "record": record,
        "words": [sentence(line) for line in comparison.words(record)],
        "headings": comparison.headings(record),
        "rows": comparison.rows(record),
        "note": note(record),
        "shade": SHADES.get(record["verdict"]["outcome"], "#8a919e"),
        "figures": [(caption, _inline(figure)) for caption, figure in drawn.values()],
        "files": [(caption, f"figures/{name}.png") for name, (caption, _) in drawn.items()],
        "configuration": json.dumps({key: record[key] for key in ("task", "training", "budget", "arms")}, indent=2),
        "machine": machine(record),
        "cell": cell,
    }
    pages = [folder / "report.html", folder / "report.md"]
    for page in pages:
        template = environment.get_template(f"page{page.suffix}.jinja")
        page.write_text(template.render(context), encoding="utf-8")
    return pages


def figures(record: Record) -> dict[str, tuple[str, Figure]]:
    """Figures by file name, each with its caption."""
    metric = record["metric"]["name"]
    drawn = {}
    if record["verdict"]["lean"]:
        drawn["differences"] = ("Paired differences and their 95 % intervals", curves.differences(record))
    drawn["learning_curves"] = (f"Held-out {metric} along training", curves.learning_curves(record))
    drawn["score_by_params"] = (f"{metric.capitalize()} against parameters", curves.score_by_params(record))
    runs = curves.runs_of(record)
    if any("kappa" in point for evaluations in runs.values() for run in evaluations for point in run):
        drawn["kappa"] = ("Condition number of the attention over training", curves.kappa_over_training(runs))
    return drawn


def sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def note(record: Record) -> str:
    """How the table is to be read."""
    budget, training = record["budget"]["kind"], record["training"]
    at_once = training["batch"] // training["accumulate"]
    return (
        f"Equal {budget} for every arm. The score is that of the last step, on samples held out from training; "
        f"± is the 95 % interval over seeds, for these held-out samples. Memory is counted, not measured: parameters, "
        f"AdamW's states, gradients or activations, for {at_once} samples at a time. Time a step is the "
        f"median on the machine named below. κ is the median over layers, samples and seeds at the end."
    )


def machine(record: Record) -> str:
    found, versions = record["machine"], record["versions"]
    commit = f" at commit {record['commit']}" if record["commit"] else ""
    return (
        f"leanformer {versions['leanformer']}{commit}, torch {versions['torch']}, timm {versions['timm']}, "
        f"{found['system']}, {found['processor']}."
    )


def cell(arm: Record, seed: int) -> str:
    score = arm["scores"].get(str(seed))
    return "–" if score is None else f"{score:.2f}"


def _inline(figure: Figure) -> Markup:
    """A figure as an SVG element inside the page."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704  drawn here; matplotlib escapes the words in it
