"""Which printed counts hold: every published row is built on the meta device and counted."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import publish
from leanformer.models import families
from leanformer.models.published import ROWS, PrintedCount, Row, rows_of
from leanformer.paper.cited import cited_settings
from leanformer.paper.claims import judged
from leanformer.paper.evidence import SCORECARD, Evidence, committed_results
from leanformer.paper.memory import add_memory
from leanformer.paper.record import CitedSetting, Printed, Scorecard, ScorecardRow, Status, summary_of
from leanformer.paper.training_costs import training_cost


def paper(
    *,
    results: str | Path | None = None,
    table: str = "",
    recount: bool = False,
    memory: bool = True,
    out: str | Path | None = None,
    progress: Callable[[str], Any] = lambda step: None,
) -> Scorecard:
    """Every claim of both papers with its status, and the recount of the printed tables, from committed records.

    Args:
        results: a folder of records [default: results/ here, or those of the package].
        table: only rows and claims of this table or figure, such as "Tab. 4" or "Fig. 3".
        recount: whether to build and count every model again, which takes a minute, in place of the recorded counts.
        memory: whether to count, or show, the training memory of image models too.
        out: a folder for scorecard.json, scorecard.md and scorecard.html; none are written by default.
        progress: is called with what is about to be done.
    """
    folder = committed_results() if results is None else Path(results)
    if folder is not None and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder of results")
    wanted = rows_of(table)
    if recount or folder is None or not (folder / SCORECARD).is_file():
        counted = scorecard(wanted, memory=memory, progress=progress)
    else:
        counted = _recorded(Scorecard.read(folder / SCORECARD), wanted, memory)
    progress("reading records")
    claims = judged(Evidence(folder, counted.rows, counted.settings))
    number = table.replace("Tab.", "Table").replace("Fig.", "Figure")
    shown = tuple(claim for claim in claims if re.search(rf"{re.escape(number)}(?!\d)", claim.where) or not table)
    record = counted.changed(claims=shown)
    if out is not None:
        publish(record, Path(out) / "scorecard.json", say=progress)
    return record


def _recorded(record: Scorecard, wanted: Sequence[Row], memory: bool) -> Scorecard:
    """The recorded counts of some rows."""
    keys = {(row.table, row.model, row.variant, row.depth, row.heads) for row in wanted}
    rows = [r for r in record.rows if (r.table, r.model, r.variant, r.printed.depth, r.printed.heads) in keys]
    if len(rows) < len(keys):
        raise ValueError("the recorded scorecard lacks rows of the tables: count them again with recount")
    rows = rows if memory else [row.model_copy(update={"memory": None}) for row in rows]
    return record.changed(rows=tuple(rows), summary=summary_of(rows))


def scorecard(
    rows: Sequence[Row] = ROWS, *, memory: bool = True, progress: Callable[[str], Any] = lambda step: None
) -> Scorecard:
    """Recount the rows.

    Args:
        rows: those of `leanformer.models.published` by default.
        memory: whether to count memory and hours of training too.
        progress: is called with what is about to be done.
    """
    counted = []
    for row in rows:
        progress(f"counting {row.model}")
        counted.append(recount(row))
    settings: tuple[CitedSetting, ...] = ()
    if memory:
        counted = [_with_training(row, progress) for row in add_memory(counted, progress)]
        progress("comparing settings")
        settings = cited_settings()
    summary = summary_of(counted)
    return Scorecard(summary=summary, rows=tuple(counted), settings=settings, **fields_of(circumstances()))


def _with_training(row: ScorecardRow, progress: Callable[[str], Any]) -> ScorecardRow:
    if row.variant == "control":
        return row
    progress(f"training of {row.model}")
    return row.model_copy(update={"training": training_cost(row.table, row.model, row.architecture)})


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
