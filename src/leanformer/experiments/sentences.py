"""Verdicts, effects and costs in words: the one place where their sentences are composed.

Each function returns a phrase without a capital letter and full stop, as records and tables use it; `as_sentence` adds
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leanformer.foundation.formats import counted, decimals

if TYPE_CHECKING:
    from leanformer.experiments.verdicts import Effects, Estimate, Verdict

FEWEST_SEEDS = 3
"""A verdict on fewer seeds would rest on a spread that is hardly known."""
MOST_SEEDS = 1000
"""Beyond so many seeds the answer is "more than anyone would run"."""


def as_sentence(phrase: str) -> str:
    return f"{phrase[0].upper()}{phrase[1:]}."


def signed(difference: Estimate, unit: str) -> str:
    """A difference with its unit and its interval."""
    return _signed(difference, decimals(unit), "points" if unit == "%" else unit)


def signed_without_unit(difference: Estimate, unit: str) -> str:
    """A difference with its interval, in the digits of its unit."""
    return _signed(difference, decimals(unit), "")


def _signed(difference: Estimate, places: int, name: str) -> str:
    shown = f"{difference.mean:+.{places}f}" + (f" {name}" if name else "")
    if difference.t is None:
        return shown
    return f"{shown} [{difference.t.low:+.{places}f}, {difference.t.high:+.{places}f}]"


def verdict(found: Verdict) -> str:
    """One arm against another; runs that diverged come first, since they forbid a verdict."""
    words = _verdict_on_finished_runs(found)
    if not found.diverged:
        return words
    lost = ", ".join(f"{count} of {arm}" for arm, count in found.diverged.items())
    return f"cannot tell: runs diverged ({lost}); of the others, {words}"


def _verdict_on_finished_runs(found: Verdict) -> str:
    difference, limit = found.difference, f"margin {found.margin:g}"
    if difference.t is None:
        shown = f"{signed(difference, found.unit)} in one seed, which has no interval"
    else:
        shown = f"{signed(difference, found.unit)} over {difference.seeds} seeds"
    if found.outcome_of_finished == "cannot tell":
        return f"cannot tell: {_seeds_needed(found)} for {found.arm} against {found.against} ({shown}, {limit})"
    return (
        f"{found.arm} {found.outcome_of_finished} against {found.against}{_beyond_the_margin(found)}: {shown}, {limit}"
    )


def _seeds_needed(found: Verdict) -> str:
    more = found.more_seeds
    if not more:
        return f"more than {MOST_SEEDS} seeds needed"
    roughly = "about" if found.difference.seeds >= FEWEST_SEEDS else "at least"
    return f"{roughly} {counted(more, 'more seed')} needed"


def _beyond_the_margin(found: Verdict) -> str:
    """What the interval says beside the margin."""
    interval = found.difference.t
    if found.outcome_of_finished != "holds" or interval is None:
        return ""
    if interval.low > 0:
        return " and is better"
    return ", measurably lower but within the margin" if interval.high < 0 else ""


def attribution(parts: Effects, unit: str) -> str:
    """How the difference between lean and original divides into depth and heads."""

    def shown(part: Estimate) -> str:
        clear = part.t is None or part.t.low > 0 or part.t.high < 0
        return signed(part, unit) + ("" if clear else ", which cannot be distinguished from zero")

    return (
        f"the difference is the sum of two: fewer layers alone (shallow − original) {shown(parts.depth)}; "
        f"heads and MLP at that depth (lean − shallow) {shown(parts.heads)}"
    )


NOTHING_TO_COMPARE = "nothing to compare: a verdict needs the arms lean and original"


def savings(shares: Mapping[str, float]) -> str:
    """What lean costs less than the original; each share is lean's cost over the original's, by its name."""
    listed = []
    for name, share in shares.items():
        percent, countable = 100 * (1 - share), name in ("parameters", "MACs")
        less = "fewer" if countable else "less"
        listed.append(f"{abs(percent):.0f} % {less if percent >= 0 else 'more'} {name}")
    return f"lean against original: {', '.join(listed)}"


def baselines(metric: str, values: Mapping[str, Sequence[float]]) -> str:
    """What answers score that need no training; several values are those of several data sets."""
    listed = [f"{_range([f'{value:.3f}' for value in (min(v), max(v))])} for {name}" for name, v in values.items()]
    return f"without training, the {metric} is {', '.join(listed)}"


def _range(ends: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def did_not_finish(what: str) -> str:
    return f"did not finish: {what}"


# Sweeps


def told_cells(better: bool, cells: Sequence[str]) -> str:
    """Cells of a grid that differ from the original's heads."""
    word = "better" if better else "worse"
    return f"{word} than with the original's heads, distinguishable from zero: {'; '.join(cells)}"


TOO_FEW_SEEDS = "fewer than three seeds distinguish no number of heads from another"
NO_CELL_DIFFERS = "no number of heads can be distinguished from the original's"


def left_out(values: str, why: str) -> str:
    return f"left out: {values}: {why}"


# GLUE


def missing_task(name: str, why: str) -> str:
    return f"missing, and not in the average: {name} ({why})"
