"""Claims of "Quality over Quantity in Attention Layers": rank against the number of heads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from leanformer.experiments.judging.estimates import differences, estimate
from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.foundation.formats import counted
from leanformer.models.published import FARTHEST_ERRORS, FARTHEST_LONG_ERRORS
from leanformer.paper.evidence import Evidence
from leanformer.paper.rules import (
    UNKNOWN,
    Finding,
    Judge,
    Stated,
    at_least,
    at_most,
    chosen,
    decided,
    first_of,
    gain,
    worst_of,
)

SWEEP, DEEP, MANY_HEADS = "sweep-farthest", "sweep-farthest-deep", "sweep-farthest-groups"
SMALL = "16 points in 16 dimensions, 1 layer, 5,000 steps, 3 seeds"
CONSTRUCT = "leanformer paper construction --out results/paper"
LENGTH, LENGTH_RECORD = "leanformer sweep farthest-length", "sweep-farthest-length"
DIMENSION = "leanformer sweep farthest-dimension"
GROUPS = "leanformer sweep farthest --vary heads=1,2 --vary groups=1,16,64 --vary regime=split"
MOST_GROUPS = 64
SOLVED = 0.01
"""An error below which the farthest point is found; the origin scores 1."""
MANY = 5.0
"""How many times worse "many times" is at least."""
INTERVALS = ", by 95 % intervals of the differences seed by seed"
EXTREMES = ", by the extremes over seeds"


def _on(name: str, judge: Callable[[Sweep], Finding | None]) -> Judge:
    def judged(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        found = None if record is None else judge(record)
        return UNKNOWN if found is None else replace(found, records=(f"{name}/sweep.json",))

    return judged


def _cell(record: Sweep, **values: object) -> SweepCell | None:
    return next((cell for cell in chosen(record, values) if cell.score is not None and cell.score.t is not None), None)


def _error(cell: SweepCell) -> float:
    assert cell.score is not None
    return cell.score.mean


def _shown(cell: SweepCell) -> str:
    assert cell.score is not None
    half = "" if cell.score.t is None else f" ± {cell.score.t.half:.3f}"
    return f"{_error(cell):.3f}{half}"


def _larger(values: Sequence[float]) -> Finding:
    """Whether an increase of the error, one value for every seed, is above 0 by its 95 % interval."""
    return gain(estimate(values), 0.0, "", ())


def _increase(first: SweepCell, second: SweepCell) -> Finding:
    """Whether the second error is larger than the first."""
    return _larger(differences(second.scores, first.scores))


def _times(worse: SweepCell, better: SweepCell) -> Finding:
    """How many times larger an error is, from the least of its seeds over the most of the others to the reverse."""
    ours, theirs = worse.scores.values(), better.scores.values()
    span = (min(ours) / max(theirs), max(ours) / min(theirs))
    ratio = _error(worse) / _error(better)
    status = decided(span[0] >= MANY, span[1] < MANY)
    return Finding(status, f"{ratio:.1f} times", ratio, span, (), "range", limit=at_least(MANY))


def _half_rank(record: Sweep) -> Finding | None:
    found = []
    for groups in record.axes.get("groups", [1]):
        full, half = (_cell(record, heads=heads, groups=groups) for heads in (1, 2))
        if full and half:
            times = _times(half, full)
            words = f"{_shown(half)} against {_shown(full)}, {times.result}"
            found.append(replace(times, result=words).called(counted(groups, "group")))
    return worst_of(found) if found else None


def _more_heads(record: Sweep) -> Finding | None:
    chosen_cells = [cell for cell in chosen(record, {"groups": 1}) if cell.score is not None]
    cells = sorted(chosen_cells, key=lambda cell: cell.values["heads"])
    if len(cells) < 3:
        return None
    fewest, most = (cell.values["heads"] for cell in (cells[0], cells[-1]))
    times = _times(cells[-1], cells[0]).called(f"times the error of {fewest}, with {most} heads")
    steps = [
        _increase(fewer, more).called(f"{more.values['heads']} heads against {fewer.values['heads']}")
        for fewer, more in itertools.pairwise(cells)
    ]
    words = ", ".join(f"{_shown(cell)} with {cell.values['heads']}" for cell in cells)
    return replace(worst_of([*steps, times]), result=f"error {words}")


def _not_parameters(record: Sweep) -> Finding | None:
    groups = max(record.axes.get("groups", [1]))
    full, many = _cell(record, heads=1, groups=1), _cell(record, heads=2, groups=groups)
    if full is None or many is None or full.params is None or many.params is None or many.params <= full.params:
        return None
    ours = f"{_shown(many)} with {many.params:,} parameters and half the rank"
    return replace(_times(many, full), result=f"{ours}, {_shown(full)} with {full.params:,} and full rank")


def _groups(record: Sweep) -> Finding | None:
    groups = record.axes.get("groups", [1])
    few, many = _cell(record, heads=2, groups=min(groups)), _cell(record, heads=2, groups=max(groups))
    full = _cell(record, heads=1, groups=min(groups))
    if few is None or many is None or full is None or len(groups) < 2:
        return None
    found = [
        _increase(many, few).called(f"half rank with {min(groups)} minus {counted(max(groups), 'group')}"),
        _increase(full, many).called(f"half rank with {counted(max(groups), 'group')} minus full rank"),
    ]
    half = f"half rank: {_shown(few)} with {min(groups)}, {_shown(many)} with {max(groups)} groups"
    return replace(worst_of(found), result=f"{half}; full rank {_shown(full)}")


def _most_groups(record: Sweep) -> Finding | None:
    """Half rank with very many heads, against one head of full rank."""
    groups = record.axes.get("groups", [1])
    full, many = _cell(record, heads=1, groups=min(groups)), _cell(record, heads=2, groups=max(groups))
    if full is None or many is None or max(groups) < MOST_GROUPS:
        return None
    words = f"{_shown(many)} with {2 * max(groups)} heads of half rank, {_shown(full)} with one of full rank"
    return replace(_times(many, full), result=words)


def _depth(evidence: Evidence) -> Finding:
    one, three = evidence.sweep(SWEEP), evidence.sweep(DEEP)
    shallow = _cell(one, heads=2, groups=1) if one else None
    deep = _cell(three, heads=2, groups=1) if three else None
    full = _cell(three, heads=1, groups=1) if three else None
    if shallow is None or deep is None or full is None:
        return UNKNOWN
    words = f"half rank {_shown(shallow)} at 1 layer, {_shown(deep)} at 3; full rank at 3 {_shown(full)}"
    files = (f"{SWEEP}/sweep.json", f"{DEEP}/sweep.json")
    return replace(_increase(deep, shallow), result=words, records=files)


def _still_behind(record: Sweep) -> Finding | None:
    full, half = _cell(record, heads=1, groups=1), _cell(record, heads=2, groups=1)
    if full is None or half is None:
        return None
    found = _increase(full, half)
    return replace(found, result=f"the error of half rank minus that of full rank at 3 layers: {found.result}")


def _longest(record: Sweep) -> Finding | None:
    """Whether half rank is further behind full rank with every larger number of points."""
    points = record.axes["task.points"]
    found = {
        n: (_cell(record, heads=1, **{"task.points": n}), _cell(record, heads=2, **{"task.points": n})) for n in points
    }
    gaps = {n: differences(half.scores, full.scores) for n, (full, half) in found.items() if full and half}
    if len(gaps) < 2:
        return None
    steps = [
        _larger([later - earlier for earlier, later in zip(gaps[few], gaps[many], strict=True)]).called(
            f"{many} points against {few}"
        )
        for few, many in itertools.pairwise(sorted(gaps))
    ]
    listed = ", ".join(f"{fmean(gap):.3f} at {n} points" for n, gap in gaps.items())
    return replace(worst_of(steps), result=f"half rank minus full: {listed}")


def _dimension(record: Sweep) -> Finding | None:
    axis = "task.dim+width"
    cells = {d: cell for d in record.axes[axis] if (cell := _cell(record, heads=2, **{axis: d}))}
    if len(cells) < 2:
        return None
    steps = [
        _increase(cells[few], cells[many]).called(f"{many} dimensions against {few}")
        for few, many in itertools.pairwise(sorted(cells))
    ]
    listed = ", ".join(f"{_shown(cell)} at d = {d}" for d, cell in cells.items())
    return replace(worst_of(steps), result=f"half rank: {listed}")


def _construction(evidence: Evidence) -> Finding:
    record = evidence.construction()
    if record is None:
        return UNKNOWN
    sharpest = max(row.sharpness for row in record.rows)
    errors = {row.points: row.error for row in record.rows if row.sharpness == sharpest}
    shown = ", ".join(f"{error:.1g} at {points} points" for points, error in errors.items())
    words, worst = f"error {shown}, {record.dim} dimensions", max(errors.values())
    return Finding(decided(worst < SOLVED), words, worst, records=("paper/construction.json",), limit=at_most(SOLVED))


def _conjecture(evidence: Evidence) -> Finding:
    """About every depth, so that no number of trainings decides it."""
    record = evidence.sweep(LENGTH_RECORD)
    found = None if record is None else _longest(record)
    words = "a conjecture about every depth and length, of which trainings cannot decide more than a few"
    if found is None:
        return UNKNOWN
    return Finding("cannot tell", f"{words}; at 2 layers {found.result}", records=(f"{LENGTH_RECORD}/sweep.json",))


def _not_here(words: str) -> Judge:
    return lambda evidence: Finding("not testable here", f"{words}; the command is ready")


def _hours(evidence: Evidence) -> str:
    return "a V100 for a few hours per design and seed, as the authors state; samples are drawn"


CLAIMS = (
    Stated(
        id="qq-construction",
        where="Abstract, the theorem on full rank",
        statement="One attention head of full rank finds the farthest point, for any number of points.",
        rule="holds if the constructed head's error is below 0.01 at every number of points (the origin scores 1)",
        judge=_construction,
        scale="64 dimensions, 4 to 256 points, no training",
        test=CONSTRUCT,
    ),
    Stated(
        id="qq-half-rank",
        where="Figure 1",
        statement="With half the rank the error is many times larger.",
        rule=f"holds if half the rank has at least {MANY:g} times the error of full rank, whatever the groups"
        f"{EXTREMES}",
        judge=_on(SWEEP, _half_rank),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-more-heads",
        where="Abstract",
        statement="More heads of a smaller rank severely decrease accuracy on the task.",
        rule=f"holds if the error rises with every larger number of heads that split the width{INTERVALS}, and the "
        f"most heads have at least {MANY:g} times the error of one{EXTREMES}",
        judge=_on(SWEEP, _more_heads),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-parameters",
        where="Abstract",
        statement="Rank, not the number of parameters, determines what the layer can do.",
        rule=f"holds if a layer of half rank with more parameters has at least {MANY:g} times the error{EXTREMES}",
        judge=first_of(_on(MANY_HEADS, _not_parameters), _on(SWEEP, _not_parameters)),
        scale=SMALL,
        test=GROUPS,
    ),
    Stated(
        id="qq-groups",
        where="Figure 1",
        statement="More heads of low rank in parallel help, but do not reach full rank.",
        rule=f"holds if more groups lower the error of half rank, and it stays above that of full rank{INTERVALS}",
        judge=_on(SWEEP, _groups),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-exponential",
        where="Abstract, the lower bound",
        statement="128 heads of half rank do not come near one head of full rank: a consequence of the lower bound.",
        rule=f"holds if {2 * MOST_GROUPS} heads of half rank have at least {MANY:g} times the error of full rank"
        f"{EXTREMES}",
        judge=_on(MANY_HEADS, _most_groups),
        scale="16 points in 16 dimensions, 1 layer, 5,000 steps, 3 seeds",
        test=GROUPS,
    ),
    Stated(
        id="qq-depth-helps",
        where="Abstract, Figure 1",
        statement="For short sequences, several layers let low rank come closer.",
        rule=f"holds if half rank has a lower error at 3 layers than at 1{INTERVALS}",
        judge=_depth,
        scale="16 points in 16 dimensions, 1 layer at a learning rate of .015 and 3 at .005, 5,000 steps, 3 seeds",
        test="leanformer sweep farthest; leanformer sweep farthest-deep",
    ),
    Stated(
        id="qq-depth-not-enough",
        where="Figure 1",
        statement="Three layers of low rank still do not reach full rank.",
        rule=f"holds if half rank is worse than full rank at 3 layers{INTERVALS}",
        judge=_on(DEEP, _still_behind),
        scale="16 points in 16 dimensions, 3 layers, 5,000 steps, 3 seeds",
        test="leanformer sweep farthest-deep",
    ),
    Stated(
        id="qq-length",
        where="Abstract, the study of length",
        statement="At two layers, low rank falls behind further with more points.",
        rule="holds if the gap between half and full rank at 2 layers is larger with every larger number of points"
        f"{INTERVALS}",
        judge=_on(LENGTH_RECORD, _longest),
        scale="4 to 64 points in 16 dimensions, 2 layers, 4 groups, 5,000 steps, 3 seeds",
        test=LENGTH,
    ),
    Stated(
        id="qq-conjecture",
        where="Abstract",
        statement="For long sequences, full rank is necessary at every depth (conjectured).",
        rule="a proof would decide it; a model of low rank that finds the farthest of many points would refute it",
        judge=_conjecture,
        scale="4 to 64 points in 16 dimensions, 2 layers, 4 groups, 5,000 steps, 3 seeds",
        test=LENGTH,
    ),
    Stated(
        id="qq-dimension",
        where="The study of the dimension",
        statement="In more dimensions low rank is worse.",
        rule=f"holds if the error of half rank is larger with every larger dimension{INTERVALS}",
        judge=_on("sweep-farthest-dimension", _dimension),
        scale="16 points in 8 to 32 dimensions, 2 layers, 4 groups, 5,000 steps, 3 seeds",
        test=DIMENSION,
    ),
    Stated(
        id="qq-figure-1",
        where="Figure 1",
        statement="At 64 dimensions the errors of full and of half rank are as drawn (1 layer; 1, 8 and 64 groups).",
        printed=tuple(f"{rank} {', '.join(map(str, errors))}" for rank, errors in FARTHEST_ERRORS.items()),
        rule="holds if every mean is within 10 % of what is read off the figure, or below",
        judge=_not_here("100,000 steps of 63 designs × 5 seeds"),
        scale="the paper's",
        test="leanformer sweep farthest-paper",
        at_scale=_hours,
    ),
    Stated(
        id="qq-figure-length",
        where="The study of length",
        statement="At 64 dimensions and 256 points the errors of full and half rank are as drawn (2 layers).",
        printed=tuple(f"{rank} {error}" for rank, error in FARTHEST_LONG_ERRORS.items()),
        rule="holds if both means are within 10 % of what is read off the figure, or below",
        judge=_not_here("200,000 steps of 20 designs × 5 seeds"),
        scale="the paper's",
        test="leanformer sweep farthest-length-paper",
        at_scale=_hours,
    ),
)
