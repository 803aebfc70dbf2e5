"""Terminal tables of measurements and of theory, from records alone."""

from statistics import median

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.measurement import Measurement, Ranks
from leanformer.conditioning.theory import Theory
from leanformer.foundation.formats import percent, significant, tenths


def _table(title: str, *columns: str, left: int = 1) -> Table:
    table = Table(*columns, title=escape(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[left:]:
        column.justify = "right"
    return table


def layers(record: Measurement) -> Table:
    title = f"κ of {record.model}, {record.weights}, on {record.inputs}"
    table = _table(
        title, "layer", "kind", "N × h·d", "heads", "median", "quartiles", "max", "eff. rank", "Gaussian", left=2
    )
    for layer in record.layers:
        kappa = layer.kappa
        table.add_row(
            escape(layer.name),
            escape(layer.kind),
            f"{layer.tokens} × {layer.columns}",
            f"{layer.heads} × {layer.head_dim}" if layer.heads else "–",
            f"[bold]{significant(kappa.median)}[/]",
            f"{significant(kappa.lower_quartile)} – {significant(kappa.upper_quartile)}",
            significant(kappa.max),
            significant(layer.effective_rank),
            significant(layer.gaussian),
        )
    return table


def ranks(record: Ranks) -> Table:
    title = f"Effective rank of W_Q W_Kᵀ in {record.model}, {record.weights}"
    table = _table(title, "layer", "heads", "width", "median", "lowest – highest head", "of head_dim", "stable rank")
    for layer in record.layers:
        effective = layer.effective_rank
        table.add_row(
            escape(layer.name),
            f"{layer.heads} × {layer.head_dim}",
            str(layer.width),
            f"[bold]{tenths(median(effective))}[/]",
            f"{tenths(min(effective))} – {tenths(max(effective))}",
            percent(median(effective) / layer.head_dim),
            tenths(median(layer.stable_rank)),
        )
    return table


def heads(record: HeadsMeasurement) -> Table:
    depth = "1 layer" if record.depth == 1 else f"{record.depth} layers"
    title = f"κ of {record.model} with {depth}, {record.weights}, on {record.inputs}"
    table = _table(title, "regime", "heads", "head_dim", "h·d", "N", "κ", "lowest layer", "highest layer", "Gaussian")
    for row in record.rows:
        table.add_row(
            row.regime,
            *map(str, (row.heads, row.head_dim, row.columns, row.tokens)),
            f"[bold]{significant(row.kappa)}[/]",
            *map(significant, (row.lowest_layer, row.highest_layer, row.gaussian)),
        )
    return table


def theory(record: Theory) -> Table:
    title = f"Gaussian blocks, {record.tokens} tokens, heads of {record.head_dim}, {record.samples} samples"
    table = _table(title, "heads", "h·d", "Theorem 3.2", "finite size", "sampled, 95 %", "median", "quartiles", left=0)
    for row in record.rows:
        low, high = row.simulated_interval
        table.add_row(
            str(row.heads),
            str(row.columns),
            significant(row.edge),
            significant(row.expected),
            f"{significant(row.simulated)} [dim]({significant(low)} – {significant(high)})[/]",
            significant(row.median),
            " – ".join(map(significant, row.quartiles)),
        )
    return table
