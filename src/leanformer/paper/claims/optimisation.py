"""Claims of "Leaner Transformers" about optimisation: tangent kernels (Sections 2 and 3), and stable training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from leanformer.architecture import Regime
from leanformer.experiments.comparison_records import Comparison
from leanformer.foundation.formats import counted, in_words, significant
from leanformer.paper.claims.trained_images import TUNED as TUNED_IMAGES
from leanformer.paper.evidence import Evidence
from leanformer.paper.ntk import RECIPE, STARTS, TangentKernels
from leanformer.paper.rules import (
    UNKNOWN,
    Finding,
    Judge,
    Stated,
    all_of,
    at_least,
    at_most,
    decided,
    joined,
    slope_of,
)

NTK = ("paper/ntk.json",)
RUN_NTK = "leanformer paper ntk --out results/paper"
TUNED = (*TUNED_IMAGES, "tuned-tinystories-500", "tuned-tinystories-1500")
"""All committed comparisons in which the learning rate of every arm was searched."""
RUN_TUNED = "leanformer compare fashion-mnist --tune lr; leanformer compare tinystories --tune lr"
TRANSFORMERS = (
    "ViT of width 32 on digits (6 and 3 layers), 64 held-out images, 3 seeds of weights, as timm draws them and as "
    "strong as in ViT-B"
)
FALLS = (
    "holds if the slope of log₁₀ κ per doubling of the heads is below 0 in every seed, at both depths and from both "
    "initial weights; does not if it is above 0 in all of these"
)


def _kernels(judge: Callable[[TangentKernels], Finding]) -> Judge:
    def judged(evidence: Evidence) -> Finding:
        record = evidence.tangent_kernels()
        return UNKNOWN if record is None or record.recipe != RECIPE else judge(record)

    return judged


def _slopes(sizes: Sequence[int], kappas: Sequence[Sequence[float]]) -> list[float]:
    """How log₁₀ κ changes when a size doubles, one slope for every seed."""
    places = [math.log2(size) for size in sizes]
    return [slope_of(places, [math.log10(kappa) for kappa in own]) for own in zip(*kappas, strict=True)]


def _falling(slopes: Sequence[float], words: str) -> Finding:
    status = decided(max(slopes) < 0, min(slopes) > 0)
    shown = f"{words}; log₁₀ κ changes by {', '.join(f'{slope:+.3f}' for slope in slopes)} per doubling"
    return Finding(status, shown, median(slopes), (min(slopes), max(slopes)), NTK, "range", limit=at_most(0))


def _wider_mlps(record: TangentKernels) -> Finding:
    kappas = [row.kappas for row in record.widths]
    first, last = (f"{significant(median(row.kappas))} at {row.width}" for row in (record.widths[0], record.widths[-1]))
    words = f"κ {first} and {last}, {significant(median(record.limits))} at infinite width"
    return _falling(_slopes([row.width for row in record.widths], kappas), words)


def _deeper_mlps(record: TangentKernels) -> Finding:
    steps = [
        later / earlier
        for before, after in itertools.pairwise(record.depths)
        for earlier, later in zip(before.normalised, after.normalised, strict=True)
    ]
    words = ", ".join(f"{median(row.normalised):.3g} at {counted(row.depth, 'layer')}" for row in record.depths)
    worst = max(steps)
    return Finding(decided(worst < 1), f"κ {words} (infinite width)", worst, records=NTK, limit=at_most(1))


def _more_heads(regime: Regime, *, equal_params: bool) -> Judge:
    """All depths, initial weights and seeds together: if some fall and some do not, nothing is decided."""

    def judge(record: TangentKernels) -> Finding:
        found, every = [], []
        for start in STARTS:
            for depth, rows in record.of(regime, equal_params=equal_params, start=start).items():
                if len({row.heads for row in rows}) < 2:
                    continue
                ends = in_words(
                    [f"{significant(row.kappa)} with {counted(row.heads, 'head')}" for row in (rows[0], rows[-1])]
                )
                slopes = _slopes([row.heads for row in rows], [row.kappas for row in rows])
                every += slopes
                found.append(_falling(slopes, f"κ {ends}").called(f"{counted(depth, 'layer')} {start}"))
        if not found:
            return UNKNOWN
        status = decided(max(every) < 0, min(every) > 0)
        spread = (min(every), max(every))
        return replace(joined(found[0], found), status=status, value=median(every), interval=spread)

    return _kernels(judge)


def _lean(record: TangentKernels) -> Finding:
    """The recipe's lean model against its original, seed by seed."""
    found = []
    for start in STARTS:
        arms = {row.arm: row for row in record.transformers if row.start == start and row.arm}
        if arms.keys() == {"original", "lean"}:
            pairs = zip(arms["lean"].kappas, arms["original"].kappas, strict=True)
            ratios = [lean / original for lean, original in pairs]
            attention = [median(arms[name].attention) for name in ("lean", "original") if arms[name].attention]
            words = f"κ of lean is {min(ratios):.2f} to {max(ratios):.2f} times the original's"
            if len(attention) == 2:
                words += f", and κ of its attention {attention[0] / attention[1]:.2f} times"
            status = decided(max(ratios) < 1, min(ratios) > 1)
            span = (min(ratios), max(ratios))
            part = Finding(status, words, median(ratios), span, NTK, "range", limit=at_most(1))
            found.append(part.called(start))
    if not found:
        return UNKNOWN
    agreed = {part.status for part in found}
    return replace(joined(found[0], found), status=agreed.pop() if len(agreed) == 1 else "cannot tell")


def _stable(name: str) -> Judge:
    """The largest learning rate that costs no more than the margin: lean's, divided by the original's."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.comparison(name)
        if record is None or record.tuning is None:
            return UNKNOWN
        original, lean = (_highest_rate(record, arm) for arm in ("original", "lean"))
        others = [arm for arm in record.arms if arm == "shallow"]
        without = "".join(f", {_highest_rate(record, arm):g} for the control without more heads" for arm in others)
        words = f"up to {lean:g} for lean, {original:g} for the original{without}"
        files = (f"{name}/comparison.json",)
        ratio = lean / original
        return Finding(decided(ratio >= 1), words, ratio, records=files, limit=at_least(1)).called(name)

    return judge


def _highest_rate(record: Comparison, arm: str) -> float:
    assert record.tuning is not None
    curve = [(rate, record.metric.sign * score) for rate, score in record.tuning.curve(arm, "lr")]
    best = max(score for _, score in curve)
    return max(rate for rate, score in curve if score >= best - record.margin)


CLAIMS = (
    Stated(
        id="ntk-mlp-width",
        where="Section 2 (prints [22], means [21]), Section 3.3",
        statement="Wider MLPs have a better conditioned tangent kernel (NTK).",
        rule="holds if the slope of log κ over log width is below 0 in every seed",
        judge=_kernels(_wider_mlps),
        scale="one hidden layer of ReLU at initialisation, 64 points on the sphere in 16 dimensions, 3 seeds",
        test=RUN_NTK,
    ),
    Stated(
        id="ntk-mlp-depth",
        where="Section 2, on Agarwal et al. [1]",
        statement="Depth conditions the tangent kernel of MLPs with normalised activations.",
        rule="holds if κ falls with every doubling of the depth, in every seed",
        judge=_kernels(_deeper_mlps),
        scale="closed form of infinitely wide MLPs, 64 points on the sphere in 16 dimensions, 3 seeds",
        test=RUN_NTK,
    ),
    Stated(
        id="ntk-heads",
        extension=True,
        where="Abstract, Section 3",
        statement="More heads give a transformer a better conditioned tangent kernel, which bounds how fast plain "
        "gradient descent can converge.",
        rule=FALLS,
        judge=_more_heads("fixed", equal_params=False),
        scale=TRANSFORMERS,
        test=RUN_NTK,
    ),
    Stated(
        id="ntk-heads-equal",
        extension=True,
        where="Abstract, Section 3",
        statement="So do more heads whose parameters are taken from the MLP.",
        rule=FALLS,
        judge=_more_heads("fixed", equal_params=True),
        scale=TRANSFORMERS,
        test=RUN_NTK,
    ),
    Stated(
        id="ntk-heads-split",
        extension=True,
        where="Abstract, Section 3",
        statement="So do more heads that split the width.",
        rule=FALLS,
        judge=_more_heads("split", equal_params=False),
        scale=TRANSFORMERS,
        test=RUN_NTK,
    ),
    Stated(
        id="ntk-lean",
        extension=True,
        where="Abstract, Section 3",
        statement="A lean model has a better conditioned tangent kernel than its original.",
        rule="holds if lean's κ is below the original's in every seed and from both initial weights; does not if it is "
        "above it in all of these",
        judge=_kernels(_lean),
        scale="digits: 3 layers of 8 heads, MLP 64, against 6 layers of 4 heads, MLP 128; otherwise as above",
        test=RUN_NTK,
    ),
    Stated(
        id="optimisation-stability",
        where="Section 1",
        statement="Models with more heads and fewer layers keep the stability of optimisation (read as: tolerate as "
        "large a learning rate).",
        rule="holds if in every comparison with searched learning rates lean's largest stable rate is at least the "
        "original's: the highest at which an arm's mean score is at most the margin below its best",
        judge=all_of(*map(_stable, TUNED)),
        scale="Fashion-MNIST and TinyStories, small models, rates in factors of 2, trials of 2 seeds and of half or a "
        "quarter of the steps of a run",
        test=RUN_TUNED,
    ),
)
