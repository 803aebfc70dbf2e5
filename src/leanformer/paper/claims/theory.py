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
MEASURE = "leanformer measure vit_base_patch16_224 --heads 1-6,8,12,16,24,32,48,64"
PRINTED_HEADS = range(2, 19)
"""Figures 2 and 3."""
TRAINED = {
    "images": ("paper/grid-fashion-mnist", "paper/grid-cifar10-small", "sweep-fashion-mnist"),
    "text": ("sweep-tinystories",),
}
"""Grids of heads with κ after training."""


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
    ratio, own = 1000, gaussian.edge_kappa(197, 768)
    limit = gaussian.edge_kappa(197, 197 * ratio)
    words = f"κ {limit:.2f} where D is {ratio} N; at ViT-B's own D = 768 and N = 197 it is {own:.2f}"
    return Finding(decided(limit < 1.1), words, limit, records=THEORY)


def _falls(rows: list[TheoryRow]) -> Finding:
    values = [row.simulated for row in rows]
    falling = all(later < earlier for earlier, later in itertools.pairwise(values))
    words = f"simulated κ falls from {values[0]:.2f} at {rows[0].heads} heads to {values[-1]:.2f} at {rows[-1].heads}"
    return Finding(decided(falling), words, values[-1], records=THEORY)


def _rank(rows: list[TheoryRow]) -> Finding:
    smallest = min(row.smallest_sigma for row in rows)
    words = f"the smallest singular value of all samples is {smallest:.2g}"
    return Finding(decided(smallest > 0), words, smallest, records=THEORY)


def _product(evidence: Evidence) -> Finding:
    pairs = ((16, 64), (64, 16), (8, 128))
    found = {gaussian.expected_log_kappa(197, heads * size) for heads, size in pairs}
    words = f"the expectation is the same for {', '.join(f'{h} × {d}' for h, d in pairs)}: it depends on h·d alone"
    return Finding(decided(len(found) == 1), words)


def _by_seed(evidence: Evidence) -> list[tuple[str, HeadsMeasurement]]:
    records = [(name, evidence.heads(name)) for name in MEASURED]
    return [(f"{name}/kappa_by_heads.json", record) for name, record in records if record is not None]


def _fixed(record: HeadsMeasurement) -> list[HeadsRow]:
    return [row for row in record.rows if row.regime == "fixed" and row.heads in PRINTED_HEADS]


def _initial(value: Callable[[HeadsRow], float]) -> Judge:
    """κ at initialisation against heads, as Figure 2 draws it."""

    def judge(evidence: Evidence) -> Finding:
        found = _by_seed(evidence)
        if not found:
            return UNKNOWN
        slopes = []
        for _, record in found:
            rows = _fixed(record)
            slopes.append(slope_of([math.log2(r.heads) for r in rows], [math.log10(value(r)) for r in rows]))
        first = _fixed(found[0][1])
        peak = max(first, key=value)
        words = (
            f"log₁₀ κ changes by {', '.join(f'{s:+.2f}' for s in slopes)} per doubling; seed 0: "
            f"{significant(value(first[0]))} at {first[0].heads} heads, {significant(value(peak))} at {peak.heads}, "
            f"{significant(value(first[-1]))} at {first[-1].heads}"
        )
        status = decided(max(slopes) < 0, min(slopes) > 0)
        return Finding(status, words, median(slopes), (min(slopes), max(slopes)), tuple(n for n, _ in found), "range")

    return judge


def _as_predicted(evidence: Evidence) -> Finding:
    found = _by_seed(evidence)
    if not found:
        return UNKNOWN
    ratios = [row.kappa / row.gaussian for _, record in found for row in _fixed(record) if row.heads > 3]
    words = (
        f"measured κ is {significant(min(ratios))} to {significant(max(ratios))} times the Gaussian one past the peak"
    )
    status = decided(max(ratios) <= 2)
    return Finding(status, words, median(ratios), (min(ratios), max(ratios)), tuple(name for name, _ in found), "range")


def _trained(what: str, judge: Callable[[Sweep, str], Finding]) -> Judge:
    """A rule on every committed grid."""

    def on(name: str) -> Judge:
        def judged(evidence: Evidence) -> Finding:
            record = evidence.sweep(name)
            return UNKNOWN if record is None else judge(record, f"{name}/sweep.json")

        return judged

    return all_of(*map(on, TRAINED[what]))


def _kappas(record: Sweep) -> list[tuple[int, float]]:
    """κ by heads at the depth and MLP of the recipe's original, heads of one size."""
    where: dict[str, Any] = {"regime": "fixed"} if "regime" in record.axes else {}
    if "mlp_dim" in record.axes and record.original is not None:
        own = record.original.stages[0]
        where |= {"depth": own.depth, "mlp_dim": own.mlp_dim}
    return [(cell.values["heads"], cell.kappa) for cell in chosen(record, where) if cell.kappa is not None]


def _decreases(record: Sweep, file: str) -> Finding:
    found = _kappas(record)
    steps = [later[1] < earlier[1] for earlier, later in itertools.pairwise(found)]
    words = f"{named(file)}: " + ", ".join(f"{significant(kappa)} at {heads}" for heads, kappa in found)
    slope = slope_of([math.log2(heads) for heads, _ in found], [math.log10(kappa) for _, kappa in found])
    status = decided(slope < 0 and found[-1][1] < found[0][1])
    note = "" if all(steps) else "; not at every step"
    return Finding(status, f"{words}{note}", slope, records=(file,))


def _reaches_one(record: Sweep, file: str) -> Finding:
    lowest = min(kappa for _, kappa in _kappas(record))
    words = f"{named(file)}: the lowest κ of all numbers of heads is {significant(lowest)}"
    return Finding(decided(lowest <= 2), words, lowest, records=(file,))


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
        rule="holds if the formula gives less than 1.1 at D = 1,000 N",
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
        rule="holds if the smallest singular value of every sample is above 0",
        judge=_simulated(lambda row: True, _rank),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="observation-head-dim",
        where="Section 3.2, Observation",
        statement="Letting the size of heads grow instead of their number conditions the block as well.",
        rule="holds if the expected κ is equal for equal h·d",
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
        rule="holds if the median κ of blocks is below the median κ of single heads",
        judge=_head_alone,
        scale="ViT-B at initialisation, Gaussian images",
        test=PARTS,
    ),
    Stated(
        id="mlps-conditioned",
        where="Section 3.3",
        statement="Wide MLPs are well conditioned already, better than attention blocks.",
        rule="holds if the median κ of the MLPs' weights is below that of the attention blocks",
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
        id="figure-2-prediction",
        where="Figure 2, caption",
        statement="The measured κ follows the prediction of Theorem 3.2.",
        rule="holds if the measured κ is at most twice the Gaussian one at every number of heads past the peak",
        judge=_as_predicted,
        scale=INITIAL,
        test=MEASURE,
    ),
    Stated(
        id="figure-2-trained-images",
        where="Figure 2, Section 4.1.1",
        statement="After training too, κ decreases with the number of heads (images).",
        rule="holds if the slope of log κ over log heads is below 0 and the last κ is below the first",
        judge=_trained("images", _decreases),
        scale="Fashion-MNIST, small ViT, 3 seeds",
        test="leanformer paper figure 2",
    ),
    Stated(
        id="figure-2-trained-text",
        where="Figure 2, Section 4.1.1",
        statement="After training too, κ decreases with the number of heads (text).",
        rule="holds if the slope of log κ over log heads is below 0 and the last κ is below the first",
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
        test="leanformer paper figure 2",
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
