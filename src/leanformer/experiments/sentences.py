"""Verdicts, effects and costs in words: the one place where their sentences are composed.

Each function returns a phrase without a capital letter and full stop, as records and tables use it; `as_sentence` adds
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from leanformer.experiments.judging.stopping_rules import FEWEST_SEEDS, MOST_SEEDS
from leanformer.foundation.formats import counted, decimals

if TYPE_CHECKING:
    from leanformer.experiments.judging.estimates import Effects, Estimate
    from leanformer.experiments.judging.failures import BadRuns
    from leanformer.experiments.judging.verdicts import Verdict
    from leanformer.experiments.lengths import Trend
    from leanformer.experiments.tuning.records import Tuning

MOST_OPEN = 6
"""Open runs that are named."""


def as_sentence(phrase: str) -> str:
    first = phrase[0] if phrase[0] == "κ" else phrase[0].upper()  # a symbol: its capital would be another one
    return f"{first}{phrase[1:]}."


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
    return f"cannot tell: runs failed ({lost}); of the others, {words}"


def _verdict_on_finished_runs(found: Verdict) -> str:
    difference, limit = found.difference, f"margin {found.margin:g}{_conditions(found)}"
    if difference.seeds == 1:
        shown = f"{signed(difference, found.unit)} in one seed, which has no interval"
    else:
        shown = f"{signed(difference, found.unit)} over {difference.seeds} seeds"
    if found.outcome_of_finished == "cannot tell":
        return f"cannot tell: {_seeds_needed(found)} for {found.arm} against {found.against} ({shown}, {limit})"
    return (
        f"{found.arm} {found.outcome_of_finished} against {found.against}{_beyond_the_margin(found)}: {shown}, {limit}"
    )


def _conditions(found: Verdict) -> str:
    """What makes the interval valid, where it is not the plain one of a single question that was judged once."""
    if found.question is None:
        return ""
    rule, said = found.question.rule, []
    if rule.kind == "looks" and found.difference.seeds in rule.looks:
        said.append(f"look {rule.looks.index(found.difference.seeds) + 1} of {len(rule.looks)}")
    if rule.kind == "always":
        said.append("seeds were added without a plan, so the interval is one that is valid at any number of seeds")
    if found.question.questions > 1:
        said.append(f"{found.question.questions} questions under one error rate")
    return "".join(f"; {text}" for text in said)


def _seeds_needed(found: Verdict) -> str:
    more, planned = found.more_seeds, found.question.planned if found.question else None
    if planned is not None:
        return f"{found.difference.seeds} of {planned} planned seeds are finished"
    if found.question is not None and found.question.rule.kind == "looks":
        return f"undecided at the last of the planned looks ({counted(found.difference.seeds, 'seed')})"
    if not more:
        return f"more than {MOST_SEEDS} seeds needed"
    roughly = "about" if found.difference.seeds >= FEWEST_SEEDS else "at least"
    return f"{roughly} {counted(more, 'more seed')} needed"


def _beyond_the_margin(found: Verdict) -> str:
    """What the interval says beside the margin."""
    if found.outcome_of_finished != "holds":
        return ""
    if found.better:
        return " and is better" + (" by less than the margin" if found.equivalent else "")
    if found.lower:
        return ", measurably lower but within the margin"
    return " and is equivalent" if found.equivalent else ""


def over_samples(found: Verdict) -> str:
    """The wider interval: what other samples of the same kind would have said."""
    assert found.samples is not None
    about = f"for other samples like these {counted(found.samples.samples, 'held-out one')}"
    flips = ""
    if found.samples.gained is not None and found.samples.lost is not None:
        flips = f"; {found.arm} gains {found.samples.gained:.1f} samples per seed and loses {found.samples.lost:.1f}"
    interval, places = found.samples.interval, decimals(found.unit)
    if interval is None:
        return f"{about}, one seed has no interval{flips}"
    said = ""
    if found.outcome == "holds" and interval.low < -found.margin:
        said = ", so that this verdict is one for these samples only"
    if found.outcome == "loses" and interval.high >= -found.margin:
        said = ", so that this verdict is one for these samples only"
    shown = f"[{interval.low:+.{places}f}, {interval.high:+.{places}f}]"
    return f"{about}, the interval of {found.arm} against {found.against} is {shown}{said}{flips}"


def dominated(found: Verdict) -> str:
    return (
        f"seed {found.dominated_by} makes most of the spread of {found.arm} against {found.against}: look at its runs; "
        f"intervals over seeds assume that no seed stands apart"
    )


def bad_runs(found: Mapping[str, BadRuns]) -> str:
    """How many runs failed, and what share of failures so few runs cannot exclude."""
    if all(runs.bad == 0 for runs in found.values()) and len({runs.runs for runs in found.values()}) == 1:
        runs = next(iter(found.values()))
        return (
            f"no run of {counted(runs.runs, 'seed')} per arm ended far below the others; "
            f"that does not exclude that up to {100 * runs.upper:.0f} % of an arm's runs would"
        )
    listed = [
        f"{runs.bad} of {runs.runs} of {arm} (up to {100 * runs.upper:.0f} % cannot be excluded)"
        for arm, runs in found.items()
    ]
    return f"runs that diverged or ended far below the others: {', '.join(listed)}"


def attribution(parts: Effects, unit: str) -> str:
    """How the difference between lean and original divides into depth and heads."""

    def shown(part: Estimate) -> str:
        clear = part.t is None or part.t.low > 0 or part.t.high < 0
        return signed(part, unit) + ("" if clear else ", which cannot be distinguished from zero")

    return (
        f"the difference is the sum of two: fewer layers alone (shallow − original) {shown(parts.depth)}; "
        f"heads and MLP at that depth (lean − shallow) {shown(parts.heads)}"
    )


# Tuning


def settings(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def best_settings(found: Tuning) -> str:
    """What was best for each arm, and what it took to find it."""
    best = "; ".join(
        f"{arm} {settings(values)}" + ("" if found.inside[arm] else ", at the end of what was tried")
        for arm, values in found.best.items()
    )
    spent = f"{len(found.trials)} trials, as long as {found.runs_worth:.1f} runs for each arm"
    return f"tuned on a part of the training samples ({spent}), the best settings are: {best}"


def tuned(words: str) -> str:
    return f"with each arm at its best settings, {words}"


def robustness(robust: bool | None, at_shared: str | None, at_best: str | None) -> str:
    """Whether the verdict depends on the settings."""
    if robust:
        return f"this verdict is robust: lean {at_best} at the shared settings and at each arm's best"
    if robust is None:
        return (
            f"whether this verdict is robust cannot be told: at the shared settings it is “{at_shared}”, at each arm's "
            f"best “{at_best}”"
        )
    return (
        f"this verdict is not robust: lean {at_shared} at the shared settings and {at_best} at each arm's best; the "
        f"latter is what the designs can do"
    )


# Lengths


def at_length(share: float, words: str) -> str:
    return f"at {_share(share)} of the steps, {words}"


def trend(found: Trend, unit: str) -> str:
    """Whether the difference is still changing at the whole length."""
    change, lengths = signed(found.change, unit), f"from {_share(found.before)} to {_share(found.after)} of the steps"
    if found.change.t is None:
        return f"{lengths}, the difference of lean against original changes by {change}, in one seed"
    if found.is_clear:
        return (
            f"the difference of lean against original is still changing: by {change} {lengths}; "
            f"a longer training may give another verdict"
        )
    return f"{lengths}, no change in the difference of lean against original can be distinguished from zero ({change})"


def _share(share: float) -> str:
    exact = Fraction(share).limit_denominator(1000)
    return "all" if exact == 1 else str(exact)


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


def under_way(open_runs: Mapping[str, str]) -> str:
    """Of a comparison that is not finished; of many open runs, the first few."""
    listed = [f"{run}: {words}" for run, words in list(open_runs.items())[:MOST_OPEN]]
    more = len(open_runs) - len(listed)
    listed += [f"and {more} more"] if more else []
    return f"this comparison is under way, with {counted(len(open_runs), 'open run')}: {'; '.join(listed)}"


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
