"""Terminal tables of measurements and of theory, from records alone."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.report.numbers import significant

Record = Mapping[str, Any]


def _table(title: str, *columns: str, left: int = 1) -> Table:
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[left:]:
        column.justify = "right"
    return table


def layers(record: Record) -> Table:
    title = f"κ of {record['model']}, {record['weights']}, on {record['inputs']}"
    table = _table(
        title, "layer", "kind", "N × h·d", "heads", "median", "quartiles", "max", "eff. rank", "Gaussian", left=2
    )
    for layer in record["layers"]:
        kappa = layer["kappa"]
        heads = f"{layer['heads']} × {layer['head_dim']}" if layer["heads"] else "–"
        table.add_row(
            layer["name"],
            layer["kind"],
            f"{layer['tokens']} × {layer['columns']}",
            heads,
            f"[bold]{significant(kappa['median'])}[/]",
            f"{significant(kappa['lower_quartile'])} – {significant(kappa['upper_quartile'])}",
            significant(kappa["max"]),
            significant(layer["effective_rank"]),
            significant(layer["gaussian"]),
        )
    return table


def ranks(record: Record) -> Table:
    title = f"Effective rank of W_Q W_Kᵀ in {record['model']}, {record['weights']}"
    table = _table(title, "layer", "heads", "width", "median", "lowest – highest head", "of head_dim", "stable rank")
    for layer in record["layers"]:
        effective = layer["effective_rank"]
        table.add_row(
            layer["name"],
            f"{layer['heads']} × {layer['head_dim']}",
            str(layer["width"]),
            f"[bold]{median(effective):.1f}[/]",
            f"{min(effective):.1f} – {max(effective):.1f}",
            f"{100 * median(effective) / layer['head_dim']:.0f} %",
            f"{median(layer['stable_rank']):.1f}",
        )
    return table


def heads(record: Record) -> Table:
    title = f"κ of {record['model']} with {record['depth']} layers, {record['weights']}, on {record['inputs']}"
    table = _table(title, "regime", "heads", "head_dim", "h·d", "N", "κ", "lowest layer", "highest layer", "Gaussian")
    for row in record["rows"]:
        table.add_row(
            row["regime"],
            *(str(row[key]) for key in ("heads", "head_dim", "columns", "tokens")),
            f"[bold]{significant(row['kappa'])}[/]",
            *(significant(row[key]) for key in ("lowest_layer", "highest_layer", "gaussian")),
        )
    return table


def theory(record: Record) -> Table:
    title = f"Gaussian blocks, {record['tokens']} tokens, heads of {record['head_dim']}, {record['samples']} samples"
    table = _table(title, "heads", "h·d", "Theorem 3.2", "finite size", "sampled, 95 %", "median", "quartiles", left=0)
    for row in record["rows"]:
        low, high = row["simulated_interval"]
        table.add_row(
            str(row["heads"]),
            str(row["columns"]),
            significant(row["edge"]),
            significant(row["expected"]),
            f"{significant(row['simulated'])} [dim]({significant(low)} – {significant(high)})[/]",
            significant(row["median"]),
            " – ".join(significant(value) for value in row["quartiles"]),
        )
    return table
