"""Claims of "Quality over Quantity" about its theory and its smaller experiments, judged by numerical evaluations.

The text at hand holds the abstract. Statements of theorems and their constants are not in it, so the records evaluate
what their docstrings derive or build, and `where` says what a claim is read from. Every rule was written before its
record was made.
"""

from __future__ import annotations

import itertools
from statistics import mean
from typing import get_args

from leanformer.paper.claims.counterpoint import MANY
from leanformer.paper.evidence import Evidence
from leanformer.paper.rules import UNKNOWN, Finding, Stated, at_least, at_most, decided
from leanformer.paper.trained_points import Positions, TrainedRow, length_alone
from leanformer.paper.two_points.bound import FIXED, SHRINKING, Asked, LowerBound, NeededHeads

CODE = "The authors' code (NoahAmsel/attention-formers)"
PREPRINT = "the preprint, arXiv 2407.16153"
BOUND, FEATURES, VOTING, PERFECT, POSITIONS = (
    f"paper/{name}.json" for name in ("bound", "features", "voting", "perfect", "positions")
)

RUN_BOUND = "leanformer paper bound --out results/paper"
RUN_FEATURES = "leanformer paper features --out results/paper"
RUN_VOTING = "leanformer paper voting --out results/paper"
RUN_POSITIONS = "leanformer paper positions --out results/paper"
RUN_PERFECT = "leanformer paper perfect --out results/paper"
GROWTH = 1.5
"""A number of heads is called exponential if its logarithm grows at least so many times when the dimension doubles."""
STAYS = 1.1
"""How many times its first error a training that stays may end at."""


def _exponential(evidence: Evidence) -> Finding:
    """Whether the heads that the bound requires at half rank are exponential in the dimension.

    At an error that is the same in all dimensions it holds; only at one that falls as 1/d, under another reading.
    """
    record = evidence.lower_bound()
    if record is None:
        return UNKNOWN
    fixed, shrinking = (_half_rank(record, asked) for asked in get_args(Asked))
    if min(len(fixed), len(shrinking)) < 3:
        return UNKNOWN
    words = f"error {FIXED:g}: {_listed(fixed)}; error {SHRINKING:g}/d: {_listed(shrinking)}"
    growth = _growth(fixed)
    status = decided(growth >= GROWTH, False)  # our bound may be weaker than the paper's
    if status != "holds" and _growth(shrinking) >= GROWTH:
        status = "holds under another reading"
    return Finding(status, words, growth, records=(BOUND,), limit=at_least(GROWTH))


def _half_rank(record: LowerBound, asked: Asked) -> list[NeededHeads]:
    return [need for need in record.needed if need.asked == asked and 2 * need.rank == need.dim]


def _growth(needed: list[NeededHeads]) -> float:
    """How many times the logarithm of the heads grows at least when the dimension doubles."""
    return min(
        later.log2_heads / earlier.log2_heads
        for earlier, later in itertools.pairwise(needed)
        if later.dim == 2 * earlier.dim
    )


def _listed(needed: list[NeededHeads]) -> str:
    return ", ".join(f"2^{need.log2_heads:.1f} at d = {need.dim}" for need in needed)


def _respected(evidence: Evidence) -> Finding:
    """Whether any fit of random heads, mean over seeds, lies below the bound for its rank and heads."""
    record = evidence.features()
    if record is None:
        return UNKNOWN
    gap, row = min(((row.error - row.bound, row) for row in record.rows), key=lambda pair: pair[0])
    place = f"{row.heads} heads of rank {row.rank} in {row.dim} dimensions"
    words = f"{len(record.rows)} fits; closest {row.error:.4f} against the bound {row.bound:.4f} ({place})"
    return Finding(decided(gap >= 0), words, gap, records=(FEATURES,), limit=at_least(0))


def _random_features(evidence: Evidence) -> Finding:
    """Whether, at the most heads of rank 1, the error rises with every larger dimension in every seed."""
    record = evidence.features()
    if record is None:
        return UNKNOWN
    most = max(row.heads for row in record.rows)
    rows = sorted(record.of(rank=1, heads=most), key=lambda row: row.dim)
    if len(rows) < 3:
        return UNKNOWN
    least = min(
        later - earlier
        for before, after in itertools.pairwise(rows)
        for earlier, later in zip(before.errors, after.errors, strict=True)
    )
    words = f"{most} heads: " + ", ".join(f"{row.error:.3f} at d = {row.dim}" for row in rows)
    return Finding(decided(least > 0), words, least, records=(FEATURES,), limit=at_least(0))


def _depth_votes(evidence: Evidence) -> Finding:
    """Whether two layers get better with heads, and in every dimension below what one layer of as many heads can."""
    record = evidence.voting()
    if record is None:
        return UNKNOWN
    dims = sorted({row.dim for row in record.rows})
    by_dim = [sorted((r for r in record.rows if r.dim == dim), key=lambda r: r.heads) for dim in dims]
    falls = all(later.error < earlier.error for rows in by_dim for earlier, later in itertools.pairwise(rows))
    most = [rows[-1] for rows in by_dim]
    nearest = max(max(row.two_layers) - row.bound for row in most)
    shown = ", ".join(f"{row.error:.3f} at d = {row.dim} (one layer: at least {row.bound:.3f})" for row in most)
    words = f"{most[0].heads} heads of rank 1: {shown}"
    return Finding(decided(falls and nearest < 0), words, nearest, records=(VOTING,), limit=at_most(0))


def _worst_ratio(full: TrainedRow, half: TrainedRow) -> float:
    """The smallest error of half rank over the largest of full rank."""
    return min(half.after) / max(full.after)


def _span(values: tuple[float, ...]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"


def _positions(evidence: Evidence) -> Finding:
    """Whether half rank is many times worse with every kind of positions, by the extremes over seeds.

    It cannot be told if full rank itself does not learn the task in so few steps: an error of 0.1 or more.
    """
    record = evidence.positions()
    if record is None:
        return UNKNOWN
    kinds: tuple[Positions, ...] = get_args(Positions)
    pairs = {kind: [record.row(rank, positions=kind) for rank in (record.dim, record.dim // 2)] for kind in kinds}
    found = {kind: (full, half) for kind, (full, half) in pairs.items() if full is not None and half is not None}
    if len(found) < len(kinds):
        return UNKNOWN
    ratios = {kind: _worst_ratio(full, half) for kind, (full, half) in found.items()}
    learned = all(max(full.after) < 0.1 for full, _ in found.values())
    words = "; ".join(
        f"{kind}: half rank {_span(half.after)}, full rank {_span(full.after)}" for kind, (full, half) in found.items()
    )
    least = min(ratios.values())
    status = decided(learned and least >= MANY, learned)
    return Finding(status, words, least, records=(POSITIONS,), limit=at_least(MANY))


def _stays(evidence: Evidence) -> Finding:
    """Whether training from the constructed head ends, in every seed, near its first error or below it."""
    record = evidence.perfect()
    row = None if record is None else record.row(record.dim, "constructed")
    if row is None:
        return UNKNOWN
    worst = max(after / before for before, after in zip(row.before, row.after, strict=True))
    words = f"{_span(row.before)} before, {_span(row.after)} after"
    return Finding(decided(worst <= STAYS), words, worst, records=(PERFECT,), limit=at_most(STAYS))


def _halves(evidence: Evidence) -> Finding:
    """Whether half rank from constructed halves ends many times worse than full rank, by the extremes over seeds."""
    record = evidence.perfect()
    if record is None:
        return UNKNOWN
    full, half = (record.row(rank, "constructed") for rank in (record.dim, record.dim // 2))
    drawn = record.row(record.dim // 2)
    if full is None or half is None or drawn is None:
        return UNKNOWN
    ratio = _worst_ratio(full, half)
    length = mean(length_alone(error) for error in half.before)
    others = f"its learned length alone gives {length:.3f}, drawn weights {_span(drawn.after)}"
    ends = f"{_span(half.before)} before, {_span(half.after)} after ({others})"
    words = f"half rank {ends}; full rank {_span(full.after)}"
    return Finding(decided(ratio >= MANY), words, ratio, records=(PERFECT,), limit=at_least(MANY))


def _biased(evidence: Evidence) -> Finding:
    return Finding("not testable here", "its statement is not in the text at hand, so there is nothing to evaluate")


TRAINED = "16 points in 16 dimensions, 1 layer, 1,500 steps, 3 seeds"
CLAIMS = (
    Stated(
        id="qq-bound-exponential",
        where=f"Abstract; Section 4 of {PREPRINT}",
        statement="Heads of low rank are needed in a number that is exponential in the dimension.",
        rule=(
            f"by our own bound at half rank: holds if the logarithm of the heads needed grows at least {GROWTH:g} "
            f"times with every doubling of d, at error {FIXED:g}; under another reading if only at {SHRINKING:g}/d"
        ),
        judge=_exponential,
        scale="2 orthonormal points in 8 to 64 dimensions, closed form; the paper's constants are not at hand",
        test=RUN_BOUND,
    ),
    Stated(
        id="qq-bound-respected",
        extension=True,
        where=f"Abstract; Section 4 of {PREPRINT}",
        statement="No single layer of low-rank heads is better than the lower bound.",
        rule="holds if no mean error of fitted random heads lies below our own bound for their rank and number",
        judge=_respected,
        scale="2 orthonormal points in 4 to 32 dimensions, ranks 1 and d/2, 1 to 1,024 heads, 3 seeds",
        test=RUN_FEATURES,
    ),
    Stated(
        id="qq-biased",
        extension=True,
        where=f"Section 5 of {PREPRINT} (its title)",
        statement="For a biased nearest neighbour the separation is exponential.",
        rule="not judged",
        judge=_biased,
        scale="none",
        test=RUN_BOUND,
    ),
    Stated(
        id="qq-random-features",
        extension=True,
        where=f"{CODE}: random features",
        statement="Random heads of rank 1 with the best weights are worse in more dimensions.",
        rule="holds if at the most heads the held-out error rises with every larger dimension, in every seed",
        judge=_random_features,
        scale="2 orthonormal points in 4 to 32 dimensions, 1,024 heads, 3 seeds",
        test=RUN_FEATURES,
    ),
    Stated(
        id="qq-depth-construction",
        where=f"Abstract; Section 6 of {PREPRINT}",
        statement="For short sequences, low rank approximates the target with more than one layer.",
        rule=(
            "holds if the error of two voting layers of rank 1 falls with every larger number of heads, and at the "
            "most heads lies below our own bound for one layer, in every dimension and seed"
        ),
        judge=_depth_votes,
        scale="2 orthonormal points in 8 to 64 dimensions, 15 to 4,095 heads, 3 seeds; our own construction",
        test=RUN_VOTING,
    ),
    Stated(
        id="qq-positions",
        extension=True,
        where=f"{CODE}: positions none, additive, appended",
        statement="Positions, added or appended, do not bring half rank near full rank.",
        rule=(
            f"holds if half rank has at least {MANY:g} times the error of full rank with every kind of positions, by "
            "the extremes over seeds; cannot tell if full rank does not get below 0.1"
        ),
        judge=_positions,
        scale=TRAINED,
        test=RUN_POSITIONS,
    ),
    Stated(
        id="qq-perfect-stays",
        extension=True,
        where=f"{CODE}: perfect initialisation",
        statement="Training from the constructed head of full rank stays at the solution.",
        rule=f"holds if every seed ends at most {STAYS:g} times its error before training",
        judge=_stays,
        scale=TRAINED,
        test=RUN_PERFECT,
    ),
    Stated(
        id="qq-perfect-halves",
        extension=True,
        where=f"{CODE}: perfect initialisation, and our own start at half rank",
        statement="A start from the construction does not bring half rank near full rank.",
        rule=f"holds if half rank ends with at least {MANY:g} times the error of full rank, by the extremes over seeds",
        judge=_halves,
        scale=TRAINED,
        test=RUN_PERFECT,
    ),
)
