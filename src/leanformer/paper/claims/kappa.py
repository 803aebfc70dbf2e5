"""Claims of "Leaner Transformers" about measured κ: Figure 2, and what κ is said to explain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from leanformer.conditioning import gaussian
from leanformer.conditioning.heads import HeadsMeasurement, HeadsRow
from leanformer.experiments.sweep_records import Sweep, SweepCell
from leanformer.foundation.formats import significant
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import ClaimStatus
from leanformer.paper.rules import UNKNOWN, Finding, Judge, Stated, all_of, at_most, chosen, decided, named, slope_of

MEASURED = ("measure-vit-base-heads", "measure-vit-base-heads-seed1", "measure-vit-base-heads-seed2")
INITIAL = "ViT-B at initialisation, Gaussian images, seeds 0 to 2 (--seed)"
FIGURE_2 = "leanformer paper figure 2 --steps 624"
MEASURE = "leanformer measure vit_base_patch16_224 --heads 1-6,8,12,16,24,32,48,64"
PEAK = 3
"""Heads of 64 columns at which κ is largest with 197 tokens."""
PRINTED_HEADS = range(2, 19)
"""Those of Figure 3; the text gives none for Figure 2."""
TRAINED = {
    "images": {"paper/grid-fashion-mnist": 16, "paper/grid-cifar10-small": 16, "sweep-fashion-mnist": 16},
    "text": {"sweep-tinystories": 64},
}
"""Grids of heads with κ after training, and the tokens N of their samples."""
TWICE = 2.0
"""How many times as large a κ may be that is about the same."""
MARKEDLY = -0.1
"""A slope of log₁₀ κ per doubling of the heads: κ falls by a fifth."""
MANY_DESIGNS = 4
"""As many as a correlation needs at least."""


def _by_seed(evidence: Evidence) -> list[tuple[str, HeadsMeasurement]]:
    records = [(name, evidence.heads(name)) for name in MEASURED]
    return [(f"{name}/kappa_by_heads.json", record) for name, record in records if record is not None]


def _printed_heads(record: HeadsMeasurement, regime: str = "fixed") -> list[HeadsRow]:
    return [row for row in record.rows if row.regime == regime and row.heads in PRINTED_HEADS]


def _initial(value: Callable[[HeadsRow], float], regime: str = "fixed", limit: float = MARKEDLY) -> Judge:
    """κ at initialisation against heads, as Figure 2 draws it."""

    def judge(evidence: Evidence) -> Finding:
        found = _by_seed(evidence)
        if not found:
            return UNKNOWN
        slopes = []
        for _, record in found:
            rows = _printed_heads(record, regime)
            slopes.append(slope_of([math.log2(r.heads) for r in rows], [math.log10(value(r)) for r in rows]))
        first = _printed_heads(found[0][1], regime)
        widest = max((row for row in found[0][1].rows if row.regime == regime), key=lambda row: row.heads)
        shown = dict.fromkeys((first[0], max(first, key=value), first[-1], widest))
        words = (
            f"log₁₀ κ changes by {', '.join(f'{s:+.2f}' for s in slopes)} per doubling; seed 0: "
            + ", ".join(f"{significant(value(row))} at {row.heads}" for row in shown)
            + f" heads{_uneven([value(row) for row in first])}"
        )
        status = decided(max(slopes) < limit, min(slopes) > limit)
        files, span = tuple(name for name, _ in found), (min(slopes), max(slopes))
        return Finding(status, words, median(slopes), span, files, "range", limit=at_most(limit))

    return judge


def _uneven(values: Sequence[float]) -> str:
    falling = all(later < earlier for earlier, later in itertools.pairwise(values))
    return "" if falling else "; not at every step"


def _as_predicted(deviation: Callable[[list[float]], float]) -> Judge:
    """How far the measured κ is from the Gaussian one, from their ratios at each number of heads past the peak.

    Theorem 3.2 is about any number of heads. Those of Figure 3 alone are another reading.
    """

    def judge(evidence: Evidence) -> Finding:
        found = _by_seed(evidence)
        if not found:
            return UNKNOWN
        rows = [row for _, record in found for row in record.rows if row.regime == "fixed" and row.heads > PEAK]
        every = [row.kappa / row.gaussian for row in rows]
        printed = [row.kappa / row.gaussian for row in rows if row.heads in PRINTED_HEADS]
        words = (
            f"measured κ is {significant(min(printed))} to {significant(max(printed))} times the Gaussian one from the "
            f"peak to {PRINTED_HEADS[-1]} heads, and up to {significant(max(every))} times at "
            f"{max(row.heads for row in rows)} heads"
        )
        files, far = tuple(name for name, _ in found), deviation(every)
        status: ClaimStatus = (
            "holds under another reading" if deviation(printed) <= TWICE < far else decided(far <= TWICE)
        )
        return Finding(status, words, far, records=files, limit=at_most(TWICE))

    return judge


def _lower_than_one_head(evidence: Evidence) -> Finding:
    """κ of several heads against κ of one, seed by seed: heads of one size, and heads of D/h columns."""
    found = [(name, record) for name, record in _by_seed(evidence) if _kappa_of(record, 1, "fixed") is not None]
    if not found:
        return UNKNOWN
    ratios = {regime: _against_one([record for _, record in found], regime) for regime in ("fixed", "split")}
    lower = {regime: bool(own) and max(map(max, own.values())) < 1 for regime, own in ratios.items()}
    words = "; ".join(
        f"{name}: " + ", ".join(f"{_times(own)} at {heads}" for heads, own in ratios[regime].items())
        for regime, name in (("fixed", "heads of 64 columns"), ("split", "heads of D/h columns"))
    )
    status: ClaimStatus = "holds under another reading" if lower["split"] and not lower["fixed"] else "holds"
    fixed = list(itertools.chain.from_iterable(ratios["fixed"].values()))
    return Finding(
        status if any(lower.values()) else "does not hold here",
        f"κ against that of one head, {words}",
        max(fixed),
        (min(fixed), max(fixed)),
        tuple(name for name, _ in found),
        "range",
        limit=at_most(1),
    )


def _against_one(records: Sequence[HeadsMeasurement], regime: str) -> dict[int, list[float]]:
    """By number of heads, κ divided by that of one head, one ratio for every seed."""
    ratios: dict[int, list[float]] = {}
    for record in records:
        alone = _kappa_of(record, 1, regime)
        if alone is not None:
            for row in _printed_heads(record, regime):
                ratios.setdefault(row.heads, []).append(row.kappa / alone)
    return ratios


def _times(ratios: Sequence[float]) -> str:
    low, high = (f"{end:.3g}" for end in (min(ratios), max(ratios)))
    return f"{low} times" if low == high else f"{low} to {high} times"


def _kappa_of(record: HeadsMeasurement, heads: int, regime: str) -> float | None:
    return next((row.kappa for row in record.rows if (row.regime, row.heads) == (regime, heads)), None)


class TrainedKappa(NamedTuple):
    """κ of a trained design."""

    heads: int
    kappa: float
    gaussian: float
    """The expected κ of a Gaussian block of as many columns and tokens."""


KappaByHeads = list[TrainedKappa]


def _trained(what: str, judge: Callable[[KappaByHeads, str], Finding]) -> Judge:
    """A rule on every committed grid."""

    def on(name: str) -> Judge:
        def judged(evidence: Evidence) -> Finding:
            record = evidence.sweep(name)
            found = [] if record is None else _kappas(record, TRAINED[what][name])
            return judge(found, name) if len(found) > 1 else UNKNOWN

        return judged

    return all_of(*map(on, TRAINED[what]))


def _kappas(record: Sweep, tokens: int) -> KappaByHeads:
    """κ by heads at the depth and MLP of the recipe's original, heads of one size, without the square case h·d = N."""
    where: dict[str, Any] = {"regime": "fixed"} if "regime" in record.axes else {}
    if "mlp_dim" in record.axes and record.original is not None:
        own = record.original.stages[0]
        where |= {"depth": own.depth, "mlp_dim": own.mlp_dim}
    cells = sorted(chosen(record, where), key=lambda cell: cell.values["heads"])
    return [
        TrainedKappa(cell.values["heads"], cell.kappa, math.exp(gaussian.expected_log_kappa(tokens, _columns(cell))))
        for cell in cells
        if cell.kappa is not None and _columns(cell) not in (0, tokens)
    ]


def _columns(cell: SweepCell) -> int:
    """h·d of the first stage; 0 if the design is not known."""
    stage = cell.architecture.stages[0] if cell.architecture is not None else None
    return stage.heads * stage.head_dim if stage is not None else 0


def _decreases(found: KappaByHeads, name: str) -> Finding:
    words = ", ".join(f"{significant(own.kappa)} at {own.heads}" for own in found)
    slope = slope_of([math.log2(own.heads) for own in found], [math.log10(own.kappa) for own in found])
    status = decided(slope < 0 and found[-1].kappa < found[0].kappa)
    words += _uneven([own.kappa for own in found])
    return Finding(status, words, slope, records=(f"{name}/sweep.json",), limit=at_most(0)).called(named(name))


def _towards_one(found: KappaByHeads, name: str) -> Finding:
    """Whether κ comes as near to 1 as that of a Gaussian block of the same size."""
    nearest = min(found, key=lambda own: own.kappa / own.gaussian)
    far = nearest.kappa / nearest.gaussian
    words = (
        f"κ {significant(nearest.kappa)} with {nearest.heads} heads, {nearest.gaussian:.2f} for a Gaussian block of "
        f"this size: {significant(far)} times"
    )
    found_at = (f"{name}/sweep.json",)
    return Finding(decided(far <= TWICE), words, far, records=found_at, limit=at_most(TWICE)).called(named(name))


def _through_training(name: str) -> Judge:
    """The slope of κ over heads at every evaluation, past the square case; κ is the mean over layers, as printed."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.figure(name)
        points = [point for point in record.points if point.panel.startswith("mean")] if record is not None else []
        if not points:
            return UNKNOWN
        found: dict[str, float] = {}
        for line in dict.fromkeys(point.line for point in points):
            own = [point for point in points if point.line == line and point.x > 1]
            found[line] = slope_of([math.log2(p.x) for p in own], [math.log10(p.y) for p in own])
        words = ", ".join(f"{value:+.2f} at {line}" for line, value in found.items())
        low, high = min(found.values()), max(found.values())
        files, middle = (f"{name}/figure.json",), median(found.values())
        slopes = Finding(decided(high < 0), words, middle, (low, high), files, "range", limit=at_most(0))
        return slopes.called(f"log₁₀ κ per doubling of the heads, {named(name)}")

    return judge


def _explains(what: str) -> Judge:
    """Rank correlation of κ and score over the designs of each grid, without the square case."""
    return all_of(*(_correlated(name, tokens) for name, tokens in TRAINED[what].items()))


def _correlated(name: str, tokens: int) -> Judge:
    from scipy.stats import spearmanr

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(name)
        if record is None:
            return UNKNOWN
        sign = 1 if record.metric.higher_is_better else -1
        designs = {  # a design that fills several cells counts once
            cell.name: (cell.kappa, sign * cell.score.mean)
            for cell in record.cells
            if cell.kappa is not None and cell.score is not None and _columns(cell) != tokens
        }
        if len(designs) < MANY_DESIGNS or len(set(designs.values())) < MANY_DESIGNS:
            return UNKNOWN
        found = spearmanr(*zip(*designs.values(), strict=True))
        rho, clear = float(found.statistic), bool(found.pvalue < 0.05)
        words = f"rank correlation of κ and score {rho:+.2f} (p = {found.pvalue:.2g}, {len(designs)} designs)"
        status = decided(clear and rho < 0, clear and rho > 0)
        return Finding(status, words, rho, records=(f"{name}/sweep.json",), limit=at_most(0)).called(named(name))

    return judge


FALLING = (
    "holds if the slope of log₁₀ κ per doubling of the heads is below {limit:g} in every seed; does not if it is above "
    "it in every seed"
)
CLAIMS = (
    Stated(
        id="figure-2-initial",
        where="Figure 2, Section 4.1.1",
        statement="κ decreases markedly with the number of heads (mean over layers, as printed).",
        rule=FALLING.format(limit=MARKEDLY),
        judge=_initial(lambda row: row.mean_over_layers),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-initial-median",
        extension=True,
        where="Figure 2, Section 4.1.1",
        statement="κ decreases markedly with the number of heads (median over layers).",
        rule=FALLING.format(limit=MARKEDLY),
        judge=_initial(lambda row: row.kappa),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-shape",
        where="Figure 2, caption",
        statement="With more heads the measured κ falls as Theorem 3.2 predicts.",
        rule="holds if past the peak measured κ over Gaussian κ is the same up to a factor of 2 at every number of "
        "heads; under another reading if up to 18 heads it is, the most of Figure 3",
        judge=_as_predicted(lambda ratios: max(ratios) / min(ratios)),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-prediction",
        extension=True,
        where="Figure 2, caption",
        statement="The measured κ has the value that Theorem 3.2 predicts.",
        rule="holds if the measured κ is at most twice the Gaussian one at every number of heads past the peak; under "
        "another reading if up to 18 heads it is",
        judge=_as_predicted(max),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="heads-lower-kappa",
        where="Sections 1 and 5",
        statement="Using multiple heads lowers the condition number.",
        rule="holds if in every seed κ with 2 to 18 heads of 64 columns is below κ with one such head; under another "
        "reading if that is so for heads of D/h columns only",
        judge=_lower_than_one_head,
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="split-kappa",
        extension=True,
        where="Section 3.1",
        statement="With heads of D/h columns, as Section 3.1 defines them, more heads lower κ too.",
        rule=FALLING.format(limit=0),
        judge=_initial(lambda row: row.kappa, "split", 0.0),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-trained-images",
        where="Figure 2, Section 4.1.1",
        statement="After training too, κ decreases with the number of heads (images).",
        rule="holds if the slope of log κ over log heads is below 0 and the last κ is below the first; h·d = N is "
        "left out",
        judge=_trained("images", _decreases),
        scale="Fashion-MNIST and CIFAR-10 (JPEG), small ViT, 3 seeds",
        test=FIGURE_2,
    ),
    Stated(
        id="figure-2-through",
        where="Figure 2, Section 4.1.1",
        statement="κ, averaged over layers, decreases with the number of heads at every measurement during training.",
        rule="holds if the slope of log κ over log heads, from 2 heads on, is below 0 at every evaluation",
        judge=all_of(*map(_through_training, ("paper/figure-2", "paper/figure-2-cifar10-small"))),
        scale="Fashion-MNIST and CIFAR-10 (JPEG), small ViT, 3 seeds; one head is left out, since there h·d = N",
        test=FIGURE_2,
    ),
    Stated(
        id="figure-2-trained-text",
        extension=True,
        where="Figure 2, Section 4.1.1",
        statement="After training too, κ decreases with the number of heads (text).",
        rule="holds if the slope of log κ over log heads is below 0 and the last κ is below the first; h·d = N is "
        "left out",
        judge=_trained("text", _decreases),
        scale="TinyStories, small GPT-2, 3 seeds",
        test="leanformer sweep tinystories",
    ),
    Stated(
        id="section-3-3-towards-1",
        where="Section 3.3",
        statement="More heads bring the κ of each attention block of a transformer towards 1, as in Theorem 3.2.",
        rule="holds if at some number of heads κ after training is at most twice that of a Gaussian block of as many "
        "columns and tokens",
        judge=all_of(_trained("images", _towards_one), _trained("text", _towards_one)),
        scale="Fashion-MNIST, CIFAR-10 (JPEG) and TinyStories, small models, 3 seeds",
        test=FIGURE_2,
    ),
    *(
        Stated(
            id=f"conditioning-helps-{what}",
            where="Sections 1 and 3.1",
            statement=f"A lower κ of the attention goes with better results (read as: a better score; {what}).",
            rule="holds if κ and held-out score have a negative rank correlation (p < 0.05) over the designs of every "
            "grid; does not if it is positive (p < 0.05) in one; h·d = N is left out",
            judge=_explains(what),
            scale=f"{data}, 3 seeds",
            test=test,
        )
        for what, data, test in (
            (
                "images",
                "Fashion-MNIST and CIFAR-10 (JPEG), small ViT",
                "leanformer paper figure 5; leanformer sweep fashion-mnist",
            ),
            ("text", "TinyStories, small GPT-2", "leanformer sweep tinystories"),
        )
    ),
)
