"""Claims of "Leaner Transformers" about its theory: Theorem 3.2, and the remarks of Section 3."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from leanformer.conditioning import gaussian
from leanformer.conditioning.theory import TheoryRow
from leanformer.foundation.formats import counted, significant
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import ClaimStatus
from leanformer.paper.rules import RECOUNT, UNKNOWN, Finding, Judge, Stated, at_least, at_most, decided, joined

THEORY = ("theory/theory.json",)
SIMULATION = "Gaussian matrices, 1,000 samples of 197 tokens, heads of 64"
SIMULATE = "leanformer theory --model none --heads 1-6,8,12,16,24,32,64"
NEAR = 5.0
"""Percent that the formula may be off."""
ONE = 1.1
"""A κ below it is about 1."""
WIDTH, HEAD_DIM = 768, 64
"""Of ViT-B."""
SAMPLES = 10
"""Matrices that are drawn for Eq. 3."""
ROUNDING = 1e-10
"""Singular values of these matrices below it could be rounding errors of float64."""


def _simulated(which: Callable[[TheoryRow], bool], judge: Callable[[list[TheoryRow]], Finding]) -> Judge:
    def judged(evidence: Evidence) -> Finding:
        record = evidence.theory()
        return UNKNOWN if record is None else judge([row for row in record.rows if which(row)])

    return judged


def _edge(rows: list[TheoryRow]) -> Finding:
    worst = max(100 * abs(row.edge / row.simulated - 1) for row in rows)
    words = f"at most {worst:.1f} % off at {rows[0].columns} to {rows[-1].columns} columns"
    return Finding(decided(worst <= NEAR), words, worst, records=THEORY, limit=at_most(NEAR))


def _extremes(evidence: Evidence) -> Finding:
    """The smallest and the largest singular value of Gaussian matrices against √n ∓ √m."""
    rows, columns = 197, 16 * 197
    draw = np.random.default_rng(0)
    drawn = [np.linalg.svd(draw.standard_normal((rows, columns)), compute_uv=False) for _ in range(SAMPLES)]
    by_formula = (math.sqrt(columns) - math.sqrt(rows), math.sqrt(columns) + math.sqrt(rows))
    measured = (fmean(values[-1] for values in drawn), fmean(values[0] for values in drawn))
    worst = max(100 * abs(ours / theirs - 1) for ours, theirs in zip(by_formula, measured, strict=True))
    words = (
        f"{rows} × {columns}: smallest {measured[0]:.1f}, by the formula {by_formula[0]:.1f}; largest "
        f"{measured[1]:.1f} and {by_formula[1]:.1f}; Eq. 3 prints σ with the index of the smallest for both"
    )
    status: ClaimStatus = "holds under another reading" if worst <= NEAR else "does not hold here"
    return Finding(status, words, worst, limit=at_most(NEAR))


def _wide(rows: list[TheoryRow]) -> Finding:
    ratio, own, widest = 1000, gaussian.edge_kappa(197, 768), rows[-1]
    limit = gaussian.edge_kappa(197, 197 * ratio)
    words = (
        f"simulated κ {widest.simulated:.2f} at {widest.columns} columns, {widest.edge:.2f} by the formula, and "
        f"{limit:.2f} where D is {ratio} N; at ViT-B's own D = 768 and N = 197 it is {own:.2f}"
    )
    followed = 100 * abs(widest.edge / widest.simulated - 1) <= NEAR
    return Finding(decided(followed and limit < ONE), words, limit, records=THEORY, limit=at_most(ONE))


def _falls(rows: list[TheoryRow]) -> Finding:
    values = [row.simulated for row in rows]
    words = f"simulated κ falls from {values[0]:.2f} at {rows[0].heads} heads to {values[-1]:.2f} at {rows[-1].heads}"
    return _falling(values, words, THEORY)


def _falling(values: Sequence[float], words: str, files: tuple[str, ...] = ()) -> Finding:
    """Whether each value is below the one before; judged is the largest step, as a ratio."""
    worst = max(later / earlier for earlier, later in itertools.pairwise(values))
    shown = f"{words}; a step multiplies it by {worst:.2f} at most"
    return Finding(decided(worst < 1), shown, worst, records=files, limit=at_most(1))


def _rank(rows: list[TheoryRow]) -> Finding:
    smallest = min(row.smallest_sigma for row in rows)
    words = f"the smallest singular value of all samples is {smallest:.2g}"
    return Finding(decided(smallest > ROUNDING), words, smallest, records=THEORY, limit=at_least(ROUNDING))


def _product(evidence: Evidence) -> Finding:
    """The expected κ of one number of heads whose size grows."""
    sizes = (64, 128, 256, 512, 1024)
    found = {size: math.exp(gaussian.expected_log_kappa(197, 12 * size)) for size in sizes}
    listed = ", ".join(f"{kappa:.2f} with {size} columns each" for size, kappa in found.items())
    return _falling(list(found.values()), f"expected κ of 12 heads {listed}")


def _independent(rows: list[TheoryRow]) -> Finding:
    most = max(row.columns for row in rows)
    words = f"of {most} vectors of length 197, at most 197 can be linearly independent"
    return Finding(decided(most <= 197), words, most, records=THEORY, limit=at_most(197))


def _wider_mlps(evidence: Evidence) -> Finding:
    """By the formula of Theorem 3.2, for weights of width × ratio · width."""
    found = {ratio: gaussian.edge_kappa(768, 768 * ratio) for ratio in (2, 4, 8, 100, 1000)}
    falling = all(later < earlier for earlier, later in itertools.pairwise(found.values()))
    listed = ", ".join(f"{kappa:.2f} at {ratio}" for ratio, kappa in found.items())
    words = f"κ by the formula {listed} times the width"
    return Finding(decided(falling and found[1000] < ONE), words, found[1000], limit=at_most(ONE))


def _typical_mlps(evidence: Evidence) -> Finding:
    stages = {
        (row.base, stage.mlp_dim / stage.width)
        for row in evidence.rows
        if row.variant == "original"
        for stage in row.architecture.stages
    }
    if not stages:
        return UNKNOWN
    ratios = sorted({ratio for _, ratio in stages})
    words = f"the originals of image and language models have MLPs of {ratios[0]:g} to {ratios[-1]:g} times the width"
    return Finding(decided(ratios[0] >= 2 and ratios[-1] <= 4), words, records=("paper/scorecard.json",))


def _head_alone(evidence: Evidence) -> Finding:
    record = evidence.parts()
    if record is None:
        return UNKNOWN
    words = (
        f"κ of one head alone {significant(record.head)}, of the concatenation {significant(record.block)} (medians)"
    )
    ratio = record.block / record.head
    return Finding(decided(ratio < 1), words, ratio, records=("paper/parts.json",), limit=at_most(1))


def _mlps(evidence: Evidence) -> Finding:
    record = evidence.parts()
    if record is None:
        return UNKNOWN
    own = math.exp(gaussian.expected_log_kappa(WIDTH, HEAD_DIM))
    words = (
        f"median κ of the MLPs' weights {significant(record.mlp)}, of attention blocks {significant(record.block)}; "
        f"but {own:.2f} is expected of the attention's own weights, {WIDTH} × {HEAD_DIM} for a head"
    )
    ratio = record.mlp / record.block
    status: ClaimStatus = "holds under another reading" if ratio < 1 and record.mlp > own else decided(ratio < 1)
    return Finding(status, words, ratio, records=("paper/parts.json",), limit=at_most(1))


def _parallel(kernel: str) -> Judge:
    """Step time where h·d grows by heads against where it grows by the size of heads."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.bench("heads")
        if record is None:
            return UNKNOWN
        rows = [row for row in record["rows"] if row["kernel"] == kernel]
        shown = [f"{row['columns']} columns: {row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" for row in rows]
        threads = counted(record["threads"], "thread")
        words = f"time of a step with more heads, divided by that with larger heads, {threads}: {', '.join(shown)}"
        faster, slower = [row["high"] < 1 for row in rows], [row["low"] > 1 for row in rows]
        status = decided(all(faster), any(slower) and not any(faster))
        if record["threads"] < 2 or (status != "holds" and record.get("device", "cpu") == "cpu"):
            status = "cannot tell"  # a few heads fill a CPU's threads already
        found = [_times(row) for row in rows]
        return replace(joined(found[0], found), result=words, status=status)

    return judge


def _times(row: Mapping[str, Any]) -> Finding:
    """How many times as long a step with more heads takes, at one number of columns."""
    ratio, low, high = (row[name] for name in ("ratio", "low", "high"))
    found = Finding(decided(high < 1, low > 1), "", ratio, (low, high), ("bench/heads.json",), limit=at_most(1))
    return found.called(f"{row['columns']} columns")


PARALLEL = (
    "holds if the 95 % interval of the time ratio lies below 1 at every number of columns; does not if on a GPU none "
    "does and one lies above 1; a CPU has few threads, which a few heads fill already, so that it cannot refute this"
)
PARTS = "leanformer paper parts --out results/paper"

CLAIMS = (
    Stated(
        id="eq-3",
        where="Section 3.2, Eq. 3",
        statement="A Gaussian m × n matrix has a smallest singular value of about √n − √m, and a largest of √n + √m.",
        rule="holds under another reading, with σ₁ for the largest, if both are within 5 % of the mean of "
        f"{SAMPLES} drawn matrices",
        judge=_extremes,
        scale="Gaussian matrices of 197 × 3,152",
        test=RECOUNT,
    ),
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
        rule="holds if the formula is within 5 % of the simulation at the widest matrix, and below 1.1 at D = 1,000 N "
        "(it falls below 1.1 at about 440 N)",
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
        id="lemma-independent",
        where="Appendix A, proof of Lemma 3.3",
        statement="n vectors of length m, drawn from a Gaussian, are linearly independent, also where n is above m.",
        rule="holds if the simulated matrices have no more columns than rows; more than m such vectors are dependent",
        judge=_simulated(lambda row: True, _independent),
        scale=SIMULATION,
        test=SIMULATE,
    ),
    Stated(
        id="observation-head-dim",
        where="Section 3.2, Observation",
        statement="Letting the size of heads grow instead of their number conditions the block as well.",
        rule="holds if the expected κ of 12 Gaussian heads falls with every doubling of their size",
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
        extension=True,
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
        id="mlps-typical",
        where="Section 3.3",
        statement="Transformers employ MLPs of typically 2 to 4 times the width of the tokens.",
        rule="holds if all originals of the tables do, as counted",
        judge=_typical_mlps,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="mlps-wider",
        where="Section 3.3",
        statement="As MLPs widen, the κ of their weights approaches 1 (which follows from Theorem 3.2).",
        rule="holds if the formula of Theorem 3.2 falls with the width, below 1.1 at 1,000 times the tokens' width",
        judge=_wider_mlps,
        scale="closed form, for Gaussian weights",
        test=SIMULATE,
    ),
    Stated(
        id="mlps-conditioned",
        where="Section 3.3",
        statement="Wide MLPs are well conditioned already, better than attention blocks.",
        rule="holds if the median κ of the MLPs' weights is below that of the attention blocks' outputs, the two kinds "
        "of matrices that the paper compares, and below that of the attention's weights; under another reading if only "
        "the first is so",
        judge=_mlps,
        scale="ViT-B at initialisation, Gaussian images",
        test=PARTS,
    ),
)
