"""Which printed counts hold: every row of the ledger built on the meta device and counted. May import the ledger and
families.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from leanformer.architecture import Architecture
from leanformer.models import registry as families
from leanformer.models.published import ROWS, Row

Status = Literal["matches", "matches under another reading than printed", "unexplained", "not printed"]


@dataclass(frozen=True, kw_only=True)
class Recount:
    """A row of the paper beside what its models really count."""

    row: Row
    architecture: Architecture
    """By the reading that explains the row best."""
    params: int
    """Parameters of that architecture, counted on the built model."""
    params_as_printed: int
    """Parameters of the shape exactly as printed."""

    @property
    def status(self) -> Status:
        if self.row.params is None:
            return "not printed"
        if self.row.params.agrees(self.params_as_printed):
            return "matches"
        if self.row.params.agrees(self.params):
            return "matches under another reading than printed"
        return "unexplained"

    @property
    def reading(self) -> str:
        return self.row.explain(self.architecture)

    def to_dict(self) -> dict[str, Any]:
        row = self.row
        return {
            "table": row.table,
            "model": row.model,
            "variant": row.variant,
            "base": row.base,
            "printed": {
                "depth": row.depth,
                "heads": row.heads,
                "mlp_dim": row.mlp_dim,
                "params": str(row.params) if row.params else None,
                **row.results,
            },
            "params": self.params,
            "params_as_printed": self.params_as_printed,
            "reading": self.reading,
            "status": self.status,
            "architecture": self.architecture.to_dict(),
        }


@functools.lru_cache(maxsize=256)
def count_params(architecture: Architecture) -> int:
    """Parameters of the built model; tied ones count once."""
    return sum(parameter.numel() for parameter in families.build(architecture, device="meta").parameters())


def recount(row: Row) -> Recount:
    base = families.read(row.base)
    architecture = row.architecture(base)
    return Recount(
        row=row,
        architecture=architecture,
        params=count_params(architecture),
        params_as_printed=count_params(row.architecture(base, as_printed=True)),
    )


def scorecard(rows: Iterable[Row] = ROWS, progress: Callable[[Row], None] = lambda row: None) -> list[Recount]:
    """Recount every row, calling `progress` before each."""
    counted = []
    for row in rows:
        progress(row)
        counted.append(recount(row))
    return counted
