"""Claims of "Quality over Quantity in Attention Layers": rank against the number of heads."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.models.published import FARTHEST_ERRORS
from leanformer.paper.evidence import Evidence
from leanformer.paper.rules import UNKNOWN, Finding, Judge, Stated, chosen, decided

SWEEP, DEEP = "sweep-farthest", "sweep-farthest-deep"
SMALL = "16 points in 16 dimensions, 1 layer, 5,000 steps, 3 seeds"
CONSTRUCT = "leanformer paper construction --out results/paper"
LENGTH = "leanformer sweep farthest-length"
DIMENSION = "leanformer sweep farthest-dimension"
GROUPS = "leanformer sweep farthest --vary heads=1,2 --vary groups=1,4,16,64 --vary regime=split"
MOST_GROUPS = 64
MANY = 5.0
"""How many times worse "many times" is at least."""


def _on(name: str, judge: Callable[[Sweep], Finding | None]) -> Judge:
    def judged(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        found = None if record is None else judge(record)
        return (
            UNKNOWN
            if found is None
            else Finding(found.status, found.result, found.value, found.interval, (f"{name}/sweep.json",))
        )

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


def _half_rank(record: Sweep) -> Finding | None:
    groups = record.axes.get("groups", [1])
    pairs = [(_cell(record, heads=1, groups=m), _cell(record, heads=2, groups=m), m) for m in groups]
    ratios = {m: _error(half) / _error(full) for full, half, m in pairs if full and half}
    if not ratios:
        return None
    words = "; ".join(
        f"{m} group{'s' if m > 1 else ''}: {_shown(half)} against {_shown(full)}"
        for full, half, m in pairs
        if full and half
    )
    return Finding(decided(min(ratios.values()) >= MANY), words, min(ratios.values()))


def _more_heads(record: Sweep) -> Finding | None:
    cells = [cell for cell in chosen(record, {"groups": 1}) if cell.score is not None]
    errors = [_error(cell) for cell in cells]
    if len(errors) < 3:
        return None
    rising = all(later > earlier for earlier, later in itertools.pairwise(errors))
    words = ", ".join(f"{_shown(cell)} with {cell.values['heads']}" for cell in cells)
    return Finding(decided(rising), f"error {words}", errors[-1] / errors[0])


def _not_parameters(record: Sweep) -> Finding | None:
    groups = max(record.axes.get("groups", [1]))
    full, many = _cell(record, heads=1, groups=1), _cell(record, heads=2, groups=groups)
    if full is None or many is None or full.params is None or many.params is None or many.params <= full.params:
        return None
    ours = f"{_shown(many)} with {many.params:,} parameters and half the rank"
    words = f"{ours}, {_shown(full)} with {full.params:,} and full rank"
    return Finding(decided(_error(many) > MANY * _error(full)), words, _error(many) / _error(full))


def _groups(record: Sweep) -> Finding | None:
    groups = record.axes.get("groups", [1])
    few, many = _cell(record, heads=2, groups=min(groups)), _cell(record, heads=2, groups=max(groups))
    full = _cell(record, heads=1, groups=min(groups))
    if few is None or many is None or full is None or len(groups) < 2:
        return None
    half = f"half rank: {_shown(few)} with {min(groups)}, {_shown(many)} with {max(groups)} groups"
    words = f"{half}; full rank {_shown(full)}"
    return Finding(decided(_error(full) < _error(many) < _error(few)), words, _error(many))


def _most_groups(record: Sweep) -> Finding | None:
    """Half rank with very many heads, against one head of full rank."""
    groups = record.axes.get("groups", [1])
    full, many = _cell(record, heads=1, groups=min(groups)), _cell(record, heads=2, groups=max(groups))
    if full is None or many is None or max(groups) < MOST_GROUPS:
        return None
    words = f"{_shown(many)} with {2 * max(groups)} heads of half rank, {_shown(full)} with one of full rank"
    return Finding(decided(_error(many) >= MANY * _error(full)), words, _error(many) / _error(full))


def _depth(evidence: Evidence) -> Finding:
    one, three = evidence.sweep(SWEEP), evidence.sweep(DEEP)
    shallow = _cell(one, heads=2, groups=1) if one else None
    deep = _cell(three, heads=2, groups=1) if three else None
    full = _cell(three, heads=1, groups=1) if three else None
    if shallow is None or deep is None or full is None:
        return UNKNOWN
    assert shallow.score is not None
    assert deep.score is not None
    apart = deep.score.t is not None and shallow.score.t is not None and deep.score.t.high < shallow.score.t.low
    words = f"half rank {_shown(shallow)} at 1 layer, {_shown(deep)} at 3; full rank at 3 {_shown(full)}"
    files = (f"{SWEEP}/sweep.json", f"{DEEP}/sweep.json")
    return Finding(decided(apart, not apart), words, _error(deep) / _error(shallow), None, files)


def _still_behind(record: Sweep) -> Finding | None:
    half = _cell(record, heads=2, groups=1)
    if half is None or half.difference is None or half.difference.t is None:
        return None
    interval = (half.difference.t.low, half.difference.t.high)
    shown = f"{half.difference.mean:+.3f} [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    words = f"half rank against full at 3 layers: {shown}, more is better"
    return Finding(decided(interval[1] < 0, interval[0] > 0), words, half.difference.mean, interval)


def _longest(record: Sweep) -> Finding | None:
    """Whether depth's help for half the rank is smaller at the longest sequences than at the shortest."""
    points = record.axes["task.points"]
    found = {
        n: (_cell(record, heads=1, **{"task.points": n}), _cell(record, heads=2, **{"task.points": n})) for n in points
    }
    gaps = {n: _error(half) - _error(full) for n, (full, half) in found.items() if full and half}
    if len(gaps) < 2:
        return None
    words = "half rank minus full: " + ", ".join(f"{gap:.3f} at {n} points" for n, gap in gaps.items())
    values = list(gaps.values())
    return Finding(decided(values[-1] > values[0]), words, values[-1])


def _dimension(record: Sweep) -> Finding | None:
    axis = "task.dim+width"
    found = [(d, _cell(record, heads=2, **{axis: d})) for d in record.axes[axis]]
    errors = [(d, _error(cell)) for d, cell in found if cell]
    if len(errors) < 2:
        return None
    words = "half rank: " + ", ".join(f"{error:.3f} at d = {d}" for d, error in errors)
    return Finding(decided(errors[-1][1] > errors[0][1]), words, errors[-1][1])


def _construction(evidence: Evidence) -> Finding:
    record = evidence.construction()
    if record is None:
        return UNKNOWN
    sharpest = max(row.sharpness for row in record.rows)
    errors = {row.points: row.error for row in record.rows if row.sharpness == sharpest}
    shown = ", ".join(f"{error:.1g} at {points} points" for points, error in errors.items())
    words = f"error {shown}, {record.dim} dimensions"
    return Finding(
        decided(max(errors.values()) < 0.01), words, max(errors.values()), None, ("paper/construction.json",)
    )


def _not_here(evidence: Evidence) -> Finding:
    return Finding("not testable here", "100,000 steps of 63 designs × 5 seeds; the command is ready")


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
        where="Figure 1, Section 6",
        statement="With half the rank the error is many times larger.",
        rule=f"holds if half the rank has at least {MANY:g} times the error of full rank, whatever the groups",
        judge=_on(SWEEP, _half_rank),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-more-heads",
        where="Abstract",
        statement="More heads of a smaller rank severely decrease accuracy on the task.",
        rule="holds if the error rises with every larger number of heads that split the width",
        judge=_on(SWEEP, _more_heads),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-parameters",
        where="Abstract",
        statement="Rank, not the number of parameters, determines what the layer can do.",
        rule=f"holds if a layer of half rank with more parameters has more than {MANY:g} times the error",
        judge=_on(SWEEP, _not_parameters),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-groups",
        where="Figure 1",
        statement="More heads of low rank in parallel help, but do not reach full rank.",
        rule="holds if more groups lower the error of half rank, and it stays above that of full rank",
        judge=_on(SWEEP, _groups),
        scale=SMALL,
        test="leanformer sweep farthest",
    ),
    Stated(
        id="qq-exponential",
        where="Abstract, the lower bound",
        statement="Low rank cannot reach the target unless the number of heads is exponential in the dimension.",
        rule=f"holds if {2 * MOST_GROUPS} heads of half rank have at least {MANY:g} times the error of full rank",
        judge=_on("sweep-farthest-groups", _most_groups),
        scale="16 points in 16 dimensions, 1 layer; a test of its consequence, not of the bound",
        test=GROUPS,
    ),
    Stated(
        id="qq-depth-helps",
        where="Abstract, Figure 1",
        statement="For short sequences, several layers let low rank come closer.",
        rule="holds if half rank has a lower error at 3 layers than at 1, by 95 % intervals",
        judge=_depth,
        scale="16 points in 16 dimensions, 1 and 3 layers, 5,000 steps, 3 seeds",
        test="leanformer sweep farthest; leanformer sweep farthest-deep",
    ),
    Stated(
        id="qq-depth-not-enough",
        where="Figure 1",
        statement="Three layers of low rank still do not reach full rank.",
        rule="holds if half rank is worse than full rank at 3 layers, by the 95 % interval",
        judge=_on(DEEP, _still_behind),
        scale="16 points in 16 dimensions, 3 layers, 5,000 steps, 3 seeds",
        test="leanformer sweep farthest-deep",
    ),
    Stated(
        id="qq-length",
        where="Abstract, the study of length",
        statement="For long sequences depth does not help low rank: it falls behind further.",
        rule="holds if the gap between half and full rank at 2 layers is larger at the most points than at the fewest",
        judge=_on("sweep-farthest-length", _longest),
        scale="4 to 64 points in 16 dimensions, 2 layers",
        test=LENGTH,
    ),
    Stated(
        id="qq-dimension",
        where="The study of the dimension",
        statement="In more dimensions low rank is worse.",
        rule="holds if the error of half rank is larger in the most dimensions than in the fewest",
        judge=_on("sweep-farthest-dimension", _dimension),
        scale="16 points in 8 to 32 dimensions, 2 layers",
        test=DIMENSION,
    ),
    Stated(
        id="qq-figure-1",
        where="Figure 1",
        statement="At 64 dimensions the errors of full and of half rank are as drawn (1 layer; 1, 8 and 64 groups).",
        printed=tuple(f"{rank} {', '.join(map(str, errors))}" for rank, errors in FARTHEST_ERRORS.items()),
        rule="holds if every mean is within 10 % of what is read off the figure, or below",
        judge=_not_here,
        scale="the paper's",
        test="leanformer sweep farthest-paper",
        at_scale=lambda evidence: "a V100 for a few hours per design and seed, as the authors state; samples are drawn",
    ),
)
