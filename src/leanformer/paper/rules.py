"""Rules by which records decide claims. Each says when a claim holds, when it does not, and else "cannot tell"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from leanformer.experiments.judging.estimates import Estimate, estimate, paired
from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.foundation.formats import decimals
from leanformer.models.published import Row
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import ClaimPart, ClaimStatus, Limit, ScorecardRow, Spread

NO_RECORD = "no record yet"


@dataclass(frozen=True)
class Finding:
    """What the records say about a claim."""

    status: ClaimStatus
    result: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    records: tuple[str, ...] = ()
    spread: Spread = "95 % interval"
    parts: tuple[ClaimPart, ...] = ()
    diverged: bool = False
    limit: Limit | None = None

    def called(self, name: str) -> Finding:
        """The finding under a name: one part of what a claim is judged by."""
        if self.value is None:
            return replace(self, result=f"{name}: {self.result}")
        low, high = self.interval or (None, None)
        part = ClaimPart(name=name, value=self.value, low=low, high=high, limit=self.limit, status=self.status)
        return replace(self, result=f"{name}: {self.result}", parts=(part,))

    def with_diverged_runs(self) -> Finding:
        """The same number, from which nothing follows: designs are not judged by their luckier runs."""
        return replace(self.as_status("cannot tell"), result=f"{self.result}, and runs diverged", diverged=True)

    def as_status(self, status: ClaimStatus, limit: Limit | None = None) -> Finding:
        """The same number, read otherwise, and perhaps by another limit."""
        changes = {"status": status, "limit": limit or self.limit}
        return replace(self, **changes, parts=tuple(part.model_copy(update=changes) for part in self.parts))  # type: ignore[arg-type]


Judge = Callable[[Evidence], Finding]


def at_least(value: float) -> Limit:
    return Limit(side="at least", value=value)


def at_most(value: float) -> Limit:
    return Limit(side="at most", value=value)


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A claim as the paper makes it, and how it is judged."""

    id: str
    where: str
    statement: str
    judge: Judge
    rule: str
    scale: str
    test: str
    printed: tuple[str, ...] = ()
    extension: bool = False
    at_scale: Callable[[Evidence], str | None] = lambda evidence: None


UNKNOWN = Finding("cannot tell", NO_RECORD)


def decided(yes: bool, no: bool | None = None) -> ClaimStatus:
    """A status from whether the rule is met, and whether its opposite is [default: if it is not met]."""
    if yes:
        return "holds"
    return "does not hold here" if no is None or no else "cannot tell"


# Differences between arms

GAIN = (
    "holds if the interval of the difference, at the error rate of its comparison, lies above 0; else does not if it "
    "lies below 0 or within ± the margin"
)
BEATS = "; a design beats another if the 95 % interval of their difference lies above 0, and loses if it lies below 0"


def gain(found: Estimate | None, margin: float, unit: str, records: tuple[str, ...]) -> Finding:
    """Whether a difference is a gain, by its interval."""
    if found is None:
        return replace(UNKNOWN, records=records)
    if found.t is None:
        return Finding(
            "cannot tell", f"{_signed(found.mean, unit)}, one seed", found.mean, None, records, limit=at_least(0)
        )
    low, high = found.t.low, found.t.high
    status = decided(low > 0, high < 0 or (high < margin and low > -margin))
    shown = (
        f"{_signed(found.mean, unit)} [{_signed(low, '', unit)}, {_signed(high, '', unit)}] over {found.seeds} seeds"
    )
    return Finding(status, shown, found.mean, (low, high), records, limit=at_least(0))


def _signed(value: float, unit: str, like: str | None = None) -> str:
    words = f"{value:+.{decimals(unit if like is None else like)}f}"
    return f"{words} {'points' if unit == '%' else unit}".strip()


LEAN = "lean"
"""The arm that claims are about; another one is named in results."""


def arms(name: str, ours: str, theirs: str, *, tuned: bool = False, margin: float | None = None) -> Judge:
    """One arm of a comparison against another: whether it is better, by the comparison's own interval.

    Args:
        tuned: whether to take the runs with each arm at its best settings.
        margin: what difference is none [default: the comparison's margin].
    """

    def judge(evidence: Evidence) -> Finding:
        record = evidence.comparison(name)
        holder = record.tuned if record is not None and tuned else record
        found = None if holder is None else holder.verdict.between(ours, theirs)
        if record is None or found is None:
            return UNKNOWN
        little = record.margin if margin is None else min(margin, record.margin)
        judged = gain(found.difference, little, record.metric.unit, (f"{name}/comparison.json",))
        if found.diverged:
            judged = judged.with_diverged_runs()
        return judged.called(_titled(name if ours == LEAN else f"{name}, {ours}", tuned))

    return judge


def _titled(name: str, tuned: bool) -> str:
    return f"{name}, tuned" if tuned else name


HELD = (
    "holds if lean is not worse than the original by more than the margin, by the interval of the comparison; does not "
    "if it is worse by more"
)


def verdict(name: str, *, tuned: bool = False) -> Judge:
    """The verdict of lean against the original; if asked, with each arm at its best settings."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.comparison(name)
        holder = record.tuned if record is not None and tuned else record
        if record is None or holder is None or holder.verdict.main is None:
            return UNKNOWN
        statuses: dict[str, ClaimStatus] = {"holds": "holds", "loses": "does not hold here"}
        found = holder.verdict.main
        interval = found.difference.t and (found.difference.t.low, found.difference.t.high)
        status = statuses.get(holder.verdict.outcome or "", "cannot tell")
        files, limit = (f"{name}/comparison.json",), at_least(-record.margin)
        judged = Finding(status, found.words, found.difference.mean, interval or None, files, limit=limit)
        return judged.called(_titled(name, tuned))

    return judge


def all_of(*judges: Judge) -> Judge:
    """Several records: it holds if all of them say so, and does not if one of them says so."""

    def judge(evidence: Evidence) -> Finding:
        found = [part for part in (judge(evidence) for judge in judges) if part.result != NO_RECORD]
        if not found:
            return UNKNOWN
        return worst_of(found)

    return judge


WORST_FIRST: tuple[ClaimStatus, ...] = (
    "does not hold here",
    "cannot tell",
    "holds under another reading",
    "holds",
)


def worst_of(found: Sequence[Finding]) -> Finding:
    """Several findings as one, with the status of the worst."""
    return joined(min(found, key=lambda part: WORST_FIRST.index(part.status)), found)


def joined(deciding: Finding, found: Sequence[Finding]) -> Finding:
    """Several findings as one, with the status of the deciding one."""
    files = tuple(dict.fromkeys(name for part in found for name in part.records))
    parts = tuple(part for own in found for part in own.parts)
    return replace(deciding, result="; ".join(part.result for part in found), records=files, parts=parts)


EVERY = "; of several records those that cannot tell are named and do not count, so that one which decides is enough"


def every_decided(*judges: Judge) -> Judge:
    """Several tests of one claim: it holds if all that decide say so, and does not if one of them says so."""

    def judge(evidence: Evidence) -> Finding:
        found = [part for part in (judge(evidence) for judge in judges) if part.result != NO_RECORD]
        deciding = [part for part in found if part.status != "cannot tell"] or found
        if not found:
            return UNKNOWN
        return joined(next((part for part in deciding if part.status != "holds"), deciding[0]), found)

    return judge


def first_of(*judges: Judge) -> Judge:
    """The first of several tests that has a record; the better one comes first."""

    def judge(evidence: Evidence) -> Finding:
        return next((found for judge in judges if (found := judge(evidence)).result != NO_RECORD), UNKNOWN)

    return judge


# Grids

RISE = (
    "holds if the slope of the score over log₂ of the size, a line for each seed, has a 95 % interval above 0; does "
    "not if it lies below 0"
)


def chosen(record: Sweep, where: Mapping[str, Any]) -> list[SweepCell]:
    return [cell for cell in record.cells if all(cell.values.get(name) == value for name, value in where.items())]


def slopes(record: Sweep, axis: str, where: Mapping[str, Any]) -> dict[str, float]:
    """How much better the score is for a doubling of an axis, by seed: a line through the cells of each.

    There is none where runs diverged: designs are not judged by their luckier seeds.
    """
    cells = chosen(record, where)
    if any(cell.diverged for cell in cells):
        return {}
    sign = 1 if record.metric.higher_is_better else -1
    seeds = sorted(set.intersection(*(set(cell.scores) for cell in cells))) if cells else []
    places = [math.log2(cell.values[axis]) for cell in cells]
    if len(set(places)) < 2:
        return {}
    return {seed: sign * slope_of(places, [cell.scores[seed] for cell in cells]) for seed in seeds}


def slope(record: Sweep, axis: str, where: Mapping[str, Any]) -> Estimate | None:
    """The mean of the slopes over seeds."""
    found = slopes(record, axis, where)
    return estimate(list(found.values())) if found else None


def slope_of(x: Sequence[float], y: Sequence[float]) -> float:
    middle, level = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - middle) ** 2 for a in x)
    return sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / over


def rises(name: str, axis: str, **where: Any) -> Judge:
    """The score against one axis of a grid."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        rise = None if record is None else slope(record, axis, where)
        if record is None or rise is None:
            return UNKNOWN
        found = gain(rise, 0.0, record.metric.unit, (f"{name}/sweep.json",))
        where_words = "".join(f", {key.replace('_', ' ')} {value}" for key, value in where.items())
        return replace(found, result=f"{found.result} per doubling").called(f"{named(name)}{where_words}")

    return judge


Which = Callable[[SweepCell], bool]


def named(place: str) -> str:
    """A record in words: the name of its folder, as of "paper/grid-cifar10-small/sweep.json"."""
    return place.removesuffix("/sweep.json").rpartition("/")[2]


def against_cell(record: Sweep, which: Which, reference: Which, file: str) -> list[Finding]:
    """Every chosen cell of a grid against the reference cell, seed by seed: whether it is better."""
    base = next((cell for cell in record.cells if reference(cell)), None)
    if base is None:
        return []
    sign = 1 if record.metric.higher_is_better else -1
    found = []
    for cell in filter(which, record.cells):
        difference = paired(cell.scores, base.scores, sign, record.metric.resolution)
        judged = gain(difference, 0.0, record.metric.unit, (file,))
        if cell.diverged or base.diverged:
            judged = judged.with_diverged_runs()
        found.append(judged.called(f"{named(file)}, {record.title(cell)}"))
    return found


def cells_beat(name: str, which: Which, reference: Which) -> Judge:
    """Whether every chosen cell of a grid is better than the reference cell."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        found = [] if record is None else against_cell(record, which, reference, f"{name}/sweep.json")
        return all_of(*(_as_judge(part) for part in found))(evidence)

    return judge


def none_beats(name: str, which: Which, reference: Which) -> Judge:
    """Whether every chosen cell of a grid is worse than the reference cell; one that may be as good leaves it open."""
    opposite: dict[ClaimStatus, ClaimStatus] = {"holds": "does not hold here", "does not hold here": "holds"}

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        found = [] if record is None else against_cell(record, which, reference, f"{name}/sweep.json")
        worse = [part.as_status(opposite.get(part.status, part.status), at_most(0)) for part in found]
        return worst_of(worse) if worse else UNKNOWN

    return judge


def _as_judge(finding: Finding) -> Judge:
    return lambda evidence: finding


# Recounts

RECOUNT = "leanformer paper --recount"
COUNTED = (
    "holds if the built model's count gives the printed digits; under another reading if other sizes than printed do"
)
STATUSES: dict[str, ClaimStatus] = {
    "matches": "holds",
    "matches under another reading than printed": "holds under another reading",
    "unexplained": "does not hold here",
}


def counts(rows: Sequence[Row]) -> Judge:
    """The printed parameter counts of some rows."""

    def judge(evidence: Evidence) -> Finding:
        printed = [(row.model, row.variant, row.depth, row.heads) for row in rows if row.params]
        found = [r for r in evidence.rows if (r.model, r.variant, r.printed.depth, r.printed.heads) in printed]
        if len(found) < len(printed):
            return UNKNOWN
        order: tuple[ClaimStatus, ...] = ("does not hold here", "holds under another reading", "holds")
        worst = min((STATUSES[row.status] for row in found), key=order.index)
        words = "; ".join(f"{row.variant} {row.params:,} ({row.reading})" for row in found)
        return Finding(worst, words, records=("paper/scorecard.json",))

    return judge


def reduction(evidence: Evidence, model: str, as_printed: bool = False) -> float | None:
    """The share of parameters that the lean model of a pair saves."""
    pair = [evidence.row(model, variant) for variant in ("original", "lean")]
    if None in pair:
        return None
    original, lean = (_params(row, as_printed) for row in pair if row is not None)
    return 1 - lean / original


def _params(row: ScorecardRow, as_printed: bool) -> int:
    return row.params_as_printed if as_printed else row.params


def share_printed(
    model: str, printed: int, of: Literal["params", "params_as_printed", "memory_gb"], digits: int = 0
) -> Judge:
    """A printed percentage against the same percentage of counts, rounded or cut off."""

    def judge(evidence: Evidence) -> Finding:
        pair = [evidence.row(model, variant) for variant in ("original", "lean")]
        if pair[0] is None or pair[1] is None:
            return UNKNOWN
        original, lean = (float(r.printed.memory_gb if of == "memory_gb" else getattr(r, of)) for r in pair if r)
        percent = 100 * (1 - lean / original)
        agrees = printed in (round(percent, digits), math.floor(percent))
        return Finding(decided(agrees), f"−{percent:.1f} %", percent, records=("paper/scorecard.json",))

    return judge


def count_words(found: Iterable[bool]) -> tuple[int, int]:
    """How many are true, of how many."""
    listed = list(found)
    return sum(listed), len(listed)
