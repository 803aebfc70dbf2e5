"""One run as a table, from its record alone."""

from rich.table import Table

from leanformer.foundation import formats
from leanformer.report import tables
from leanformer.training.result import Result


def table(record: Result) -> Table:
    """An evaluation per row."""
    names = list(dict.fromkeys(name for point in record.evaluations for name in point.scores))
    rows = [
        [
            f"{point.step:,}",
            *(f"{point.scores[name]:.4g}" if name in point.scores else formats.NOTHING for name in names),
            formats.significant(point.kappa.median_over_layers if point.kappa else None),
        ]
        for point in record.evaluations
    ]
    final = ", ".join(f"{name} {value:.4g}" for name, value in record.final.items() if name != "step")
    title = f"{record.name}, seed {record.seed}, {record.params:,} parameters: {final}"
    return tables.terminal(title, ["step", *names, "κ"], rows, left=0)
