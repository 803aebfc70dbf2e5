"""Which printed counts hold: every published row is built on the meta device and counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from leanformer.architecture import Architecture
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.models import families
from leanformer.models.published import ROWS, PrintedCount, Row
from leanformer.paper.memory import add_memory
from leanformer.paper.record import Printed, Scorecard, ScorecardRow, Status, summary_of


def scorecard(
    rows: Sequence[Row] = ROWS, *, memory: bool = True, progress: Callable[[str], Any] = lambda step: None
) -> Scorecard:
    """Recount the rows.

    Args:
        rows: those of `leanformer.models.published` by default.
        memory: whether to count the training memory of image models too.
        progress: is called with what is about to be done.
    """
    counted = []
    for row in rows:
        progress(f"counting {row.model}")
        counted.append(recount(row))
    if memory:
        counted = add_memory(counted, progress)
    return Scorecard(summary=summary_of(counted), rows=tuple(counted), **fields_of(circumstances()))


def recount(row: Row) -> ScorecardRow:
    """A published row beside the parameters that its models really have."""
    base = families.read(row.base)
    architecture = row.architecture(base)
    params, as_printed = count_params(architecture), count_params(row.architecture(base, as_printed=True))
    return ScorecardRow(
        table=row.table,
        model=row.model,
        variant=row.variant,
        base=row.base,
        printed=_printed(row),
        params=params,
        params_as_printed=as_printed,
        reading=row.explain(architecture),
        status=_status(row.params, params, as_printed),
        architecture=architecture,
    )


def _printed(row: Row) -> Printed:
    params = str(row.params) if row.params else None
    shape = {"depth": row.depth, "heads": row.heads, "mlp_dim": row.mlp_dim, "params": params}
    return Printed.model_validate({**shape, **row.results})


@functools.lru_cache(maxsize=256)
def count_params(architecture: Architecture) -> int:
    """Parameters of the built model; tied ones count once."""
    return sum(parameter.numel() for parameter in families.build(architecture, device="meta").parameters())


def _status(printed: PrintedCount | None, params: int, as_printed: int) -> Status:
    if printed is None:
        return "not printed"
    if printed.agrees(as_printed):
        return "matches"
    return "matches under another reading than printed" if printed.agrees(params) else "unexplained"
