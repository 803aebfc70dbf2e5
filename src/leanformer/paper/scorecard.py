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
from leanformer.models.published import ROWS, PrintedCount, Row
from leanformer.paper.cited import cited_settings
from leanformer.paper.claims import judged
from leanformer.paper.evidence import SCORECARD, Evidence, committed_results
from leanformer.paper.memory import add_memory
from leanformer.paper.record import LEANER, CitedSetting, Printed, Scorecard, ScorecardRow, Status, summary_of
from leanformer.paper.training_costs import training_cost

PRINTED = {"Table": range(1, 7), "Figure": range(1, 10)}
"""The tables and figures of "Leaner Transformers"."""


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
        table: only rows, claims and figures of this table or figure, such as "Tab. 4" or "Fig. 8".
        recount: whether to build and count every model again, which takes a minute, in place of the recorded counts.
        memory: whether to count, or show, the training memory of image models too.
        out: a folder for scorecard.json, scorecard.md and scorecard.html; none are written by default.
        progress: is called with what is about to be done.
    """
    folder = committed_results() if results is None else Path(results)
    if folder is not None and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder of results")
    place = _place(table)
    counted = _counted(folder, [row for row in ROWS if _is_at(row, place)] if recount else [], memory, progress)
    progress("reading records")
    evidence = Evidence(folder, counted.rows, counted.settings)
    claims, figures = judged(evidence), evidence.figures()
    rows = [row for row in counted.rows if _is_at(row, place)]
    shown = rows if memory else [row.model_copy(update={"memory": None}) for row in rows]
    record = counted.changed(
        rows=tuple(shown),
        summary=summary_of(shown),
        claims=tuple(claim for claim in claims if not place or (claim.paper == LEANER and place in claim.places)),
        figures=tuple(figure for figure in figures if place in ("", f"Figure {figure.number}")),
    )
    if out is not None:
        publish(record, Path(out) / "scorecard.json", say=progress)
    return record


def _place(table: str) -> str:
    """A table or figure by its full name, which places and claims have."""
    found = re.fullmatch(r"(tab|fig)(?:le|ure|\.)? *(\d+)", table.strip(), re.IGNORECASE)
    kind = {"tab": "Table", "fig": "Figure"}[found[1].lower()] if found else ""
    if table and (found is None or int(found[2]) not in PRINTED[kind]):
        raise ValueError(
            f'there is no table or figure "{table}"; there are "Tab. 1" to "Tab. {PRINTED["Table"][-1]}" and "Fig. 1" '
            f'to "Fig. {PRINTED["Figure"][-1]}"'
        )
    return f"{kind} {int(found[2])}" if found else ""


def _is_at(row: Row | ScorecardRow, place: str) -> bool:
    return not place or _place(row.table) == place


def _counted(folder: Path | None, again: Sequence[Row], memory: bool, progress: Callable[[str], Any]) -> Scorecard:
    """All rows as they are recorded, with those that are to be counted again; without a record all are counted."""
    if folder is None or not (folder / SCORECARD).is_file():
        return scorecard(memory=memory, progress=progress)
    if len(again) == len(ROWS):
        return scorecard(memory=memory, progress=progress)
    recorded = Scorecard.read(folder / SCORECARD)
    renewed = scorecard(again, memory=memory, progress=progress).rows if again else ()
    found = {_key(row): row for row in (*recorded.rows, *renewed)}
    if missing := [row for row in ROWS if _key(row) not in found]:
        raise ValueError(f"the recorded scorecard lacks {missing[0].model}: count its rows again with recount")
    return recorded.changed(rows=tuple(found[_key(row)] for row in ROWS))


def _key(row: Row | ScorecardRow) -> tuple[Any, ...]:
    printed = row if isinstance(row, Row) else row.printed
    return row.table, row.model, row.variant, printed.depth, printed.heads


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
