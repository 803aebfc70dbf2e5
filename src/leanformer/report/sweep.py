"""A sweep as a table, in words and as Markdown, from its record alone."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from leanformer.experiments.sentences import as_sentence
from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.foundation import formats
from leanformer.foundation.records.files import write_text
from leanformer.report import cells, tables
from leanformer.report.figures.style import save
from leanformer.report.figures.sweep import lines


def headings(record: Sweep) -> list[str]:
    paired = ["against the original's heads"] if _is_paired(record) else []
    sizes = ["layers", "heads × size", "MLP"] if record.original is not None else []
    rank = ["rank"] if _has_ranks(record) else []
    return [*record.varied, *sizes, "params", cells.metric_with_unit(record.metric), *paired, *rank, "κ"]


def _has_ranks(record: Sweep) -> bool:
    return record.original is not None or any(cell.effective_rank is not None for cell in record.cells)


def _is_paired(record: Sweep) -> bool:
    return any(cell.difference for cell in record.cells)


def rows(record: Sweep) -> list[list[str]]:
    """One row of text per cell, in the order of `headings`."""
    return [_row(cell, record) for cell in record.cells]


def _row(cell: SweepCell, record: Sweep) -> list[str]:
    unit = record.metric.unit
    return [
        *(str(cell.values[name]) for name in record.varied),
        *([cells.layers(cell), cells.heads(cell), cells.mlp(cell)] if record.original is not None else []),
        formats.parameters(cell.params),
        cells.score(cell.score, unit),
        *([cells.difference(cell.difference, unit)] if _is_paired(record) else []),
        *([formats.tenths(cell.effective_rank)] if _has_ranks(record) else []),
        formats.significant(cell.kappa),
    ]


def table(record: Sweep) -> Table:
    seeds = formats.counted_range([len(cell.scores) for cell in record.cells], "seed")
    title = f"{record.name}: {record.metric.name} ± 95 % interval over {seeds}"
    return tables.terminal(title, headings(record), rows(record), left=0)


def markdown(record: Sweep) -> str:
    """The table and the words, for a page that is committed beside the record."""
    commit = f" at commit {tables.markdown_text(record.commit)}" if record.commit else ""
    parts = [
        f"# Sweep: {tables.markdown_text(record.name)}",
        "![the score along the grid](sweep.png)",
        tables.markdown(headings(record), rows(record), left=0),
        "\n".join(f"- {tables.markdown_text(as_sentence(phrase))}" for phrase in record.sentences()),
        "± and [ ] are 95 % intervals over seeds; differences are paired by seed, more is better. Rank is the "
        "effective rank of W_Q W_Kᵀ after training, the median over heads, layers and seeds.",
        f"{tables.markdown_code(record.command)}, leanformer {tables.markdown_text(record.versions['leanformer'])}"
        f"{commit}; {tables.markdown_text('; '.join(record.sources))}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(record: Sweep, folder: Path) -> list[Path]:
    """Write sweep.md and the figure; returns the files."""
    files = save(lines(record), folder / "sweep")
    page = folder / "sweep.md"
    write_text(page, markdown(record))
    return [page, *files]
