"""Claims of "Leaner Transformers" about conditioning: Section 3, Figure 2 and the remarks around them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import median
from typing import Any

from leanformer.conditioning import gaussian
from leanformer.conditioning.heads import HeadsMeasurement, HeadsRow
from leanformer.conditioning.theory import TheoryRow
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation.formats import counted, significant
from leanformer.paper.evidence import Evidence
from leanformer.paper.rules import UNKNOWN, Finding, Judge, Stated, all_of, chosen, decided, named, slope_of

THEORY = ("theory/theory.json",)
MEASURED = ("measure-vit-base-heads", "measure-vit-base-heads-seed1", "measure-vit-base-heads-seed2")
SIMULATION = "Gaussian matrices, 1,000 samples of 197 tokens, heads of 64"
INITIAL = "ViT-B at initialisation, 3 seeds, Gaussian images"
SIMULATE = "leanformer theory --model none --heads 1-6,8,12,16,24,32,64"
FIGURE_2 = "leanformer paper figure 2 --steps 624"
MEASURE = "leanformer measure vit_base_patch16_224 --heads 1-6,8,12,16,24,32,48,64"
ROUNDING = 1e-10
"""Singular values of these matrices below it could be rounding errors of float64."""
PRINTED_HEADS = range(2, 19)
"""Figures 2 and 3."""
TRAINED = {
    "images": {"paper/grid-fashion-mnist": 16, "paper/grid-cifar10-small": 16, "sweep-fashion-mnist": 16},
    "text": {"sweep-tinystories": 64},
}
"""Grids of heads with κ after training, and the tokens N of their samples."""


def _simulated(which: Callable[[TheoryRow], bool], judge: Callable[[list[TheoryRow]], Finding]) -> Judge:
    def judged(evidence: Evidence) -> Finding:
        record = evidence.theory()
        return UNKNOWN if record is None else judge([row for row in record.rows if which(row)])

    return judged


def _edge(rows: list[TheoryRow]) -> Finding:
    worst = max(abs(row.edge / row.simulated - 1) for row in rows)
    words = f"at most {100 * worst:.1f} % off at {rows[0].columns} to {rows[-1].columns} columns"
    return Finding(decided(worst <= 0.05), words, worst, records=THEORY)


def _wide(rows: list[TheoryRow]) -> Finding:
    ratio, own, widest = 1000, gaussian.edge_kappa(197, 768), rows[-1]
    limit = gaussian.edge_kappa(197, 197 * ratio)
    words = (
        f"simulated κ {widest.simulated:.2f} at {widest.columns} columns, {widest.edge:.2f} by the formula, and "
        f"{limit:.2f} where D is {ratio} N; at ViT-B's own D = 768 and N = 197 it is {own:.2f}"
    )
    followed = abs(widest.edge / widest.simulated - 1) <= 0.05
    return Finding(decided(followed and limit < 1.1), words, limit, records=THEORY)


def _falls(rows: list[TheoryRow]) -> Finding:
    values = [row.simulated for row in rows]
    falling = all(later < earlier for earlier, later in itertools.pairwise(values))
    words = f"simulated κ falls from {values[0]:.2f} at {rows[0].heads} heads to {values[-1]:.2f} at {rows[-1].heads}"
    return Finding(decided(falling), words, values[-1], records=THEORY)


def _rank(rows: list[TheoryRow]) -> Finding:
    smallest = min(row.smallest_sigma for row in rows)
    words = f"the smallest singular value of all samples is {smallest:.2g}"
    return Finding(decided(smallest > ROUNDING), words, smallest, records=THEORY)


def _product(evidence: Evidence) -> Finding:
    pairs = ((16, 64), (64, 16), (8, 128))
    found = {gaussian.expected_log_kappa(197, heads * size) for heads, size in pairs}
    words = f"the expectation is the same for {', '.join(f'{h} × {d}' for h, d in pairs)}: it depends on h·d alone"
    return Finding(decided(len(found) == 1), words)


def _by_seed(evidence: Evidence) -> list[tuple[str, HeadsMeasurement]]:
    records = [(name, evidence.heads(name)) for name in MEASURED]
    return [(f"{name}/kappa_by_heads.json", record) for name, record in records if record is not None]


def _printed_heads(record: HeadsMeasurement, regime: str = "fixed") -> list[HeadsRow]:
    return [row for row in record.rows if row.regime == regime and row.heads in PRINTED_HEADS]


def _initial(value: Callable[[HeadsRow], float], regime: str = "fixed") -> Judge:
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
        peak = max(first, key=value)
        words = (
            f"log₁₀ κ changes by {', '.join(f'{s:+.2f}' for s in slopes)} per doubling; seed 0: "
            f"{significant(value(first[0]))} at {first[0].heads} heads, {significant(value(peak))} at {peak.heads}, "
            f"{significant(value(first[-1]))} at {first[-1].heads}"
        )
        status = decided(max(slopes) < 0, min(slopes) > 0)
        return Finding(status, words, median(slopes), (min(slopes), max(slopes)), tuple(n for n, _ in found), "range")

    return judge


def _as_predicted(agrees: Callable[[list[float]], bool]) -> Judge:
    """The measured κ over the Gaussian one, at each number of heads past the peak."""

    def judge(evidence: Evidence) -> Finding:
        found = _by_seed(evidence)
        if not found:
            return UNKNOWN
        ratios = [row.kappa / row.gaussian for _, record in found for row in _printed_heads(record) if row.heads > 3]
        low, high = min(ratios), max(ratios)
        words = f"measured κ is {significant(low)} to {significant(high)} times the Gaussian one past the peak"
        files = tuple(name for name, _ in found)
        return Finding(decided(agrees(ratios)), words, median(ratios), (low, high), files, "range")

    return judge


def _lower_than_one_head(evidence: Evidence) -> Finding:
    """κ of several heads against κ of one, where one was measured."""
    found = [(name, record) for name, record in _by_seed(evidence) if _kappa_of(record, 1) is not None]
    if not found:
        return UNKNOWN
    ratios = {
        row.heads: row.kappa / alone
        for _, record in found
        if (alone := _kappa_of(record, 1)) is not None
        for row in _printed_heads(record)
    }
    worse = [str(heads) for heads, ratio in ratios.items() if ratio >= 1]
    words = ", ".join(f"{ratio:.2g} times at {heads} heads" for heads, ratio in ratios.items())
    low, high = min(ratios.values()), max(ratios.values())
    files = tuple(name for name, _ in found)
    return Finding(decided(not worse), f"κ against that of one head: {words}", None, (low, high), files, "range")


def _kappa_of(record: HeadsMeasurement, heads: int) -> float | None:
    return next((row.kappa for row in record.rows if (row.regime, row.heads) == ("fixed", heads)), None)


KappaByHeads = list[tuple[int, float]]


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
    cells = [cell for cell in chosen(record, where) if cell.kappa is not None and cell.architecture is not None]
    return [
        (cell.values["heads"], cell.kappa)
        for cell in sorted(cells, key=lambda cell: cell.values["heads"])
        if cell.kappa is not None
        and cell.architecture is not None
        and cell.architecture.stages[0].heads * cell.architecture.stages[0].head_dim != tokens
    ]


def _decreases(found: KappaByHeads, name: str) -> Finding:
    steps = [later[1] < earlier[1] for earlier, later in itertools.pairwise(found)]
    words = ", ".join(f"{significant(kappa)} at {heads}" for heads, kappa in found)
    slope = slope_of([math.log2(heads) for heads, _ in found], [math.log10(kappa) for _, kappa in found])
    status = decided(slope < 0 and found[-1][1] < found[0][1])
    note = "" if all(steps) else "; not at every step"
    return Finding(status, f"{words}{note}", slope, records=(f"{name}/sweep.json",)).called(named(name))


def _reaches_one(found: KappaByHeads, name: str) -> Finding:
    lowest = min(kappa for _, kappa in found)
    words = f"the lowest κ of all numbers of heads is {significant(lowest)}"
    return Finding(decided(lowest <= 2), words, lowest, records=(f"{name}/sweep.json",)).called(named(name))


def _through_training(evidence: Evidence) -> Finding:
    """The slope of κ over heads at every evaluation, from the square case on; κ is the mean over layers, as printed."""
    record = evidence.figure("paper/figure-2")
    points = [point for point in record.points if point.panel.startswith("mean")] if record is not None else []
    if not points:
        return UNKNOWN
    found: dict[str, float] = {}
    for line in dict.fromkeys(point.line for point in points):
        own = [point for point in points if point.line == line and point.x > 1]
        found[line] = slope_of([math.log2(p.x) for p in own], [math.log10(p.y) for p in own])
    words = "log₁₀ κ changes per doubling of the heads: " + ", ".join(
        f"{v:+.2f} at {line}" for line, v in found.items()
    )
    low, high = min(found.values()), max(found.values())
    files = ("paper/figure-2/figure.json",)
    return Finding(decided(high < 0), words, median(found.values()), (low, high), files, "range")


def _explains(evidence: Evidence) -> Finding:
    """Rank correlation of κ and score over the designs of each grid."""
    from scipy.stats import spearmanr

    found: dict[str, float] = {}
    files = []
    for name in itertools.chain.from_iterable(TRAINED.values()):
        if (record := evidence.sweep(name)) is None:
            continue
        cells = [cell for cell in record.cells if cell.kappa is not None and cell.score is not None]
        sign = 1 if record.metric.higher_is_better else -1
        scores = [sign * cell.score.mean for cell in cells if cell.score is not None]
        found[named(name)] = float(spearmanr([cell.kappa for cell in cells], scores).statistic)
        files.append(f"{name}/sweep.json")
    if not found:
        return UNKNOWN
    words = "; ".join(f"{name}: rank correlation of κ and score {value:+.2f}" for name, value in found.items())
    low, high = min(found.values()), max(found.values())
    status = decided(high < 0)
    return Finding(status, words, median(found.values()), (low, high), tuple(files), "range")


def _head_alone(evidence: Evidence) -> Finding:
    record = evidence.parts()
    if record is None:
        return UNKNOWN
    words = (
        f"κ of one head alone {significant(record.head)}, of the concatenation {significant(record.block)} (medians)"
    )
    status = decided(record.block < record.head)
    return Finding(status, words, record.head / record.block, records=("paper/parts.json",))


def _mlps(evidence: Evidence) -> Finding:
    record = evidence.parts()
    if record is None:
        return UNKNOWN
    words = f"median κ of the MLPs' weights {significant(record.mlp)}, of attention blocks {significant(record.block)}"
    status = decided(record.mlp < record.block)
    return Finding(status, words, record.mlp, records=("paper/parts.json",))


def _parallel(kernel: str) -> Judge:
    """Step time where h·d grows by heads against where it grows by the size of heads."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.bench("heads")
        if record is None:
            return UNKNOWN
        rows = [row for row in record["rows"] if row["kernel"] == kernel]
        shown = [f"{row['columns']} columns: {row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" for row in rows]
        threads = counted(record["threads"], "thread")
        words = f"time of a step with more heads over larger heads, {threads}: {', '.join(shown)}"
        faster, slower = [row["high"] < 1 for row in rows], [row["low"] > 1 for row in rows]
        status = decided(all(faster), any(slower) and not any(faster))
        if record["threads"] < 2:
            status = "cannot tell"  # what runs in parallel cannot be seen on one thread
        ratios = [row["ratio"] for row in rows]
        return Finding(status, words, median(ratios), (min(ratios), max(ratios)), ("bench/heads.json",), "range")

    return judge


PARALLEL = (
    "holds if the 95 % interval of the time ratio lies below 1 at every number of columns; does not if none does and "
    "one lies above 1; one thread cannot tell"
)
FALLING = "holds if the slope of log κ over log heads is below 0 in every seed; does not if it is above 0 in every seed"
PARTS = "leanformer paper parts --out results/paper"

CLAIMS = (
    Stated(
        id="theorem-edge",
        where="Theorem 3.2, Eq. 6 and 13",
        statement="For Gaussian heads κ is about (√(hd) + √N) / (√(hd) − √N).",
        rule="holds if the formula is within 5 % of the simulated κ wherever hd is at least 4 N",
        judge=_simulated(lambda row: row.columns >= 4 * 197, _edge),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="theorem-wide",
        where="Theorem 3.2, Eq. 1",
        statement="For Gaussian heads κ is about 1 if D is much larger than N.",
        rule="holds if the formula is within 5 % of the simulation at the widest matrix, and below 1.1 at D = 1,000 N",
        judge=_simulated(lambda row: True, _wide),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="theorem-heads",
        where="Theorem 3.2, Eq. 2",
        statement="For Gaussian heads of one size κ falls towards 1 as heads are added.",
        rule="holds if the simulated κ falls at every step once hd is at least 2 N",
        judge=_simulated(lambda row: row.columns >= 2 * 197, _falls),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="lemma-rank",
        where="Lemma 3.3",
        statement="A Gaussian matrix has full rank with probability 1.",
        rule=f"holds if the smallest singular value of every sample is above what rounding explains ({ROUNDING:g})",
        judge=_simulated(lambda row: True, _rank),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="observation-head-dim",
        where="Section 3.2, Observation",
        statement="Letting the size of heads grow instead of their number conditions the block as well.",
        rule="follows by definition for Gaussian heads, which side by side are one Gaussian matrix of h·d columns",
        judge=_product,
        scale="closed form",
        test=SIMULATE,
    ),
    Stated(
        id="observation-parallel-fused",
        where="Section 3.2, Observation",
        statement="More heads are computed in parallel, where larger heads slow training down (fused attention).",
        rule=PARALLEL,
        judge=_parallel("fused"),
        scale="one attention layer of ViT-B's width on this CPU",
        test="python -m benchmarks heads",
    ),
    Stated(
        id="observation-parallel-explicit",
        where="Section 3.2, Observation",
        statement="More heads are computed in parallel, where larger heads slow training down (explicit attention).",
        rule=PARALLEL,
        judge=_parallel("explicit"),
        scale="one attention layer of ViT-B's width on this CPU",
        test="python -m benchmarks heads",
    ),
    Stated(
        id="head-alone",
        where="Section 3.2",
        statement="A head alone may be badly conditioned; the concatenation of heads is better conditioned.",
        rule="holds if the median κ of blocks is below the median κ of single heads, at the original's 12 heads",
        judge=_head_alone,
        scale="ViT-B at initialisation, Gaussian images, 1 seed",
        test=PARTS,
    ),
    Stated(
        id="mlps-conditioned",
        where="Section 3.3",
        statement="Wide MLPs are well conditioned already, better than attention blocks.",
        rule="holds if the median κ of the MLPs' weights is below that of the attention blocks' outputs, the two kinds "
        "of matrices that the paper compares",
        judge=_mlps,
        scale="ViT-B at initialisation, Gaussian images",
        test=PARTS,
    ),
    Stated(
        id="figure-2-initial",
        where="Figure 2, Section 4.1.1",
        statement="κ decreases markedly with the number of heads (mean over layers, as printed).",
        rule=FALLING,
        judge=_initial(lambda row: row.mean_over_layers),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-initial-median",
        where="Figure 2, Section 4.1.1",
        statement="κ decreases markedly with the number of heads (median over layers).",
        rule=FALLING,
        judge=_initial(lambda row: row.kappa),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-shape",
        where="Figure 2, caption",
        statement="With more heads the measured κ falls as Theorem 3.2 predicts.",
        rule="holds if past the peak, up to 18 heads, measured κ over Gaussian κ is the same up to a factor of 2",
        judge=_as_predicted(lambda ratios: max(ratios) <= 2 * min(ratios)),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-prediction",
        where="Figure 2, caption",
        statement="The measured κ has the value that Theorem 3.2 predicts.",
        rule="holds if the measured κ is at most twice the Gaussian one at every number of heads past the peak",
        judge=_as_predicted(lambda ratios: max(ratios) <= 2),
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="heads-lower-kappa",
        where="Sections 1 and 5",
        statement="Using multiple heads lowers the condition number.",
        rule="holds if κ with 2 to 18 heads of one size is below κ with one head; does not if one of them is not",
        judge=_lower_than_one_head,
        scale="ViT-B at initialisation, 1 seed, Gaussian images",
        test=MEASURE,
    ),
    Stated(
        id="split-kappa",
        where="Section 3.1",
        statement="With heads of D/h columns, as Section 3.1 defines them, more heads lower κ too.",
        rule=FALLING,
        judge=_initial(lambda row: row.kappa, "split"),
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
        scale="Fashion-MNIST, small ViT, 3 seeds",
        test=FIGURE_2,
    ),
    Stated(
        id="figure-2-through",
        where="Figure 2, Section 4.1.1",
        statement="κ, averaged over layers, decreases with the number of heads at every measurement during training.",
        rule="holds if the slope of log κ over log heads, from 2 heads on, is below 0 at every evaluation",
        judge=_through_training,
        scale="Fashion-MNIST, small ViT, 3 seeds; one head is left out, since there h·d = N",
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
        statement="More heads bring the κ of each attention block of a transformer towards 1.",
        rule="holds if the lowest κ after training is at most 2",
        judge=all_of(_trained("images", _reaches_one), _trained("text", _reaches_one)),
        scale="Fashion-MNIST and TinyStories, small models, 3 seeds",
        test=FIGURE_2,
    ),
    Stated(
        id="conditioning-helps",
        where="Sections 1 and 3.1",
        statement="A lower κ of the attention goes with better results.",
        rule="holds if κ and score have a negative rank correlation over the designs of every grid",
        judge=_explains,
        scale="Fashion-MNIST and TinyStories, small models, 3 seeds",
        test="leanformer paper figure 5; leanformer sweep fashion-mnist; leanformer sweep tinystories",
    ),
)
