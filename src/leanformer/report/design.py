"""A design's plan as a terminal table, from its record alone."""

from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.designing.record import CandidateRecord, DesignRecord
from leanformer.foundation import formats
from leanformer.report import cells

HELD = "weights+gradients\n+state+activations\n+whole"
"""Head of the column for what one of several devices holds, in GB."""
SHADES = {"note": "yellow", "warn": "red", "refuse": "bold red"}


def table(record: DesignRecord, limit: int = 12) -> Table:
    """Original, recommendation, and the candidates that no other dominates, deepest first."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    parts = (HELD,) if record.setting.parts > 1 else ()
    names = ("", "layers", "heads", "head_dim", "MLP", "params", "", "GB", *parts, "G MACs", "κ Gauss")
    for name in (*names, "regime", "guards"):
        side: Literal["left", "right"] = "right" if name not in ("", "regime", "guards") else "left"
        shown.add_column(name, justify=side, no_wrap=name == HELD, min_width=19 if name == HELD else None)
    shown.add_row("original", *_sizes(record, record.original), "", _guards(record.original))
    first = record.recommended
    shown.add_row("try first", *_sizes(record, first), first.regime, _guards(first), style="bold")
    for row in _shown(record)[:limit]:
        shown.add_row("", *_sizes(record, row), row.regime, _guards(row))
    return shown


def _shown(record: DesignRecord) -> list[CandidateRecord]:
    """One candidate for each depth and regime, so that the choice can be seen; those without a warning first."""
    rest = [row for row in record.front if row.architecture != record.recommended.architecture]
    rest.sort(key=lambda row: (row.warned, row.regime != "fixed"))
    picked: dict[tuple[int, str], CandidateRecord] = {}
    for row in rest:
        picked.setdefault((-row.architecture.depth, row.regime), row)
    return [row for _, row in sorted(picked.items(), key=lambda item: item[0])]


def _sizes(record: DesignRecord, row: CandidateRecord) -> list[str]:
    return [
        str(row.architecture.depth),
        cells.sizes(row.architecture, "heads"),
        cells.sizes(row.architecture, "head_dim"),
        cells.sizes(row.architecture, "mlp_dim"),
        formats.millions(row.params),
        formats.percent(row.params / record.original.params),
        formats.gigabytes(row.memory_bytes),
        *_held(record, row),
        formats.billions(row.forward_macs / record.setting.batch),
        formats.significant(row.gaussian_kappa),
    ]


def _held(record: DesignRecord, row: CandidateRecord) -> list[str]:
    if record.setting.parts == 1:
        return []
    held = row.held
    if held is None:
        return [formats.NOTHING]
    parts = (held.parameters, held.gradients, held.optimizer, held.activations, held.gathered)
    return ["+".join(formats.gigabytes(part) for part in parts)]


def _guards(row: CandidateRecord) -> str:
    return ", ".join(f"[{SHADES[guard.level]}]{guard.name}[/]" for guard in row.guards)
