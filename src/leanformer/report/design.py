"""The plan of `leanformer design` as a terminal table, from its record alone."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.report.numbers import significant

Record = Mapping[str, Any]

SHADES = {"note": "yellow", "warn": "red", "refuse": "bold red"}


def table(record: Record, limit: int = 12) -> Table:
    """Original, recommendation, and the candidates that no other dominates, deepest first."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", "layers", "heads", "head_dim", "MLP", "params", "", "GB", "G MACs", "κ Gauss", "regime", "guards"):
        shown.add_column(name, justify="right" if name not in ("", "regime", "guards") else "left")
    whole, batch = record["original"]["params"], record["setting"]["batch"]

    def add(mark: str, row: Record, style: str = "") -> None:
        stages = row["architecture"]["stages"]

        def sizes(word: str) -> str:
            values = [stage[word] for stage in stages]
            return str(values[0]) if len(set(values)) == 1 else " ".join(map(str, values))

        shown.add_row(
            mark,
            str(sum(stage["depth"] for stage in stages)),
            sizes("heads"),
            sizes("head_dim"),
            sizes("mlp_dim"),
            f"{row['params'] / 1e6:.1f} M",
            f"{100 * row['params'] / whole:.0f} %",
            f"{row['memory_bytes'] / 1e9:.1f}",
            f"{row['forward_macs'] / batch / 1e9:.2f}",
            significant(row["gaussian_kappa"]),
            row["regime"] if mark != "original" else "",
            ", ".join(f"[{SHADES[g['level']]}]{g['name']}[/]" for g in row["guards"]),
            style=style,
        )

    add("original", record["original"])
    add("try first", record["recommended"], style="bold")
    rest = [row for row in record["front"] if row["architecture"] != record["recommended"]["architecture"]]
    rest.sort(key=lambda row: (any(g["level"] != "note" for g in row["guards"]), row["regime"] != "fixed"))
    picked: dict[tuple[int, str], Record] = {}
    for row in rest:  # one for each depth and regime, so that the choice can be seen
        depth = sum(stage["depth"] for stage in row["architecture"]["stages"])
        picked.setdefault((-depth, row["regime"]), row)
    for _, row in sorted(picked.items())[:limit]:
        add("", row)
    return shown
