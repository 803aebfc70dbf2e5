"""Claims of "Leaner Transformers" about trained image models, judged by small ones: the abstract, Figures 3 to 5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

from leanformer.experiments.judging.estimates import estimate
from leanformer.models.published import VISION
from leanformer.paper.claims.costs import hours
from leanformer.paper.evidence import Evidence
from leanformer.paper.rules import (
    BEATS,
    EVERY,
    GAIN,
    HELD,
    RISE,
    UNKNOWN,
    Finding,
    Judge,
    Stated,
    Which,
    against_cell,
    all_of,
    arms,
    at_most,
    cells_beat,
    decided,
    every_decided,
    gain,
    named,
    none_beats,
    rises,
    slopes,
    verdict,
    worst_of,
)
from leanformer.paper.studies import STUDIES

SMALL, FIGURE_5 = (
    f"Fashion-MNIST and CIFAR-10 (JPEG), ViT of width 64 at {depths} layers, 624 steps, 3 seeds, the learning rate "
    "tuned per depth (the paper: ImageNet-1k, ViT-B at 12 and 8)"
    for depths in ("8 and 5", "8, 5 and 4")
)
PAIRS = (
    "Fashion-MNIST, ViT of 8 layers × 4 heads against 4 × 8, and 4 × 4 against 2 × 8, 5 seeds; digits, 6 × 4 against "
    "3 × 8, 3 and 4 seeds"
)
COMPARED = (
    "compare-fashion-mnist-624",
    "compare-fashion-mnist-1874",
    "tuned-fashion-mnist-588",
    "tuned-fashion-mnist-2350",
    "compare-digits",
    "compare-digits-decided",
)
"""All committed comparisons of image models."""
TUNED = tuple(name for name in COMPARED if name.startswith("tuned-"))
"""Those that were made with each arm's best learning rate too."""
FEWER, MORE = 5, 8
"""Layers of the small ViT that stand for 8 and 12."""
OWN_HEADS, OWN_MLP = 4, 256
GRIDS = ("paper/grid-fashion-mnist", "paper/grid-cifar10-small")
"""Trained designs of the figures; both recipes have the same model."""
LARGER = (
    "holds if the slope over heads is positive and larger than the slope over the MLP's width, both without sign, by "
    "the 95 % interval of the difference seed by seed; does not if it is smaller"
)
ALL = "; on every data set"
LITTLE = 0.5
"""Points that are little: the margin of the recipe."""
COMPARE = "leanformer compare fashion-mnist --seeds 5 --arms original,lean,shallow,wide"
ALL_IMAGE_MODELS = hours([original.model for original in VISION[::2]], "ImageNet-1k; original and lean of 11 models")


FIGURE = "leanformer paper figure N --steps 624; leanformer paper figure N --recipe cifar10-small --steps 624"


def _figure(number: int) -> str:
    """The commands that train a figure on both data sets."""
    return FIGURE.replace("N", str(number))


def _at(*, depth: int, heads: int | None = None, mlp_dim: int | None = None) -> Which:
    """Designs of these sizes; sizes that are not given do not matter."""
    wanted = {"depth": depth, "heads": heads, "mlp_dim": mlp_dim}
    return lambda cell: all(value in (None, cell.values[name]) for name, value in wanted.items())


ORIGINAL = _at(depth=MORE, heads=OWN_HEADS, mlp_dim=OWN_MLP)


def _all_grids(rule: Callable[..., Judge], *arguments: Any, **sizes: int) -> Judge:
    """A rule on every grid that is committed: one that cannot tell leaves the claim open."""
    return all_of(*(rule(grid, *arguments, **sizes) for grid in GRIDS))


def _weaker(grid: str, depth: int = MORE) -> Judge:
    """How much larger the slope over heads is than the slope over the MLP, without their signs, seed by seed."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        if record is None:
            return UNKNOWN
        heads = slopes(record, "heads", {"depth": depth, "mlp_dim": OWN_MLP})
        mlps = slopes(record, "mlp_dim", {"depth": depth, "heads": OWN_HEADS})
        seeds = sorted(heads.keys() & mlps.keys())
        if len(seeds) < 2:
            return UNKNOWN
        larger = [abs(heads[seed]) - abs(mlps[seed]) for seed in seeds]
        found = gain(estimate(larger), 0.0, "%", (f"{grid}/sweep.json",))
        if found.status == "holds" and fmean(heads.values()) < 0:
            found = found.as_status("does not hold here")
        both = f"heads {fmean(heads.values()):+.2f} points per doubling, MLP {fmean(mlps.values()):+.2f}"
        words = f"{both}; the first minus the second, without signs: {found.result}"
        return replace(found, result=words).called(f"{named(grid)}, depth {depth}")

    return judge


def _doubling(grid: str) -> Judge:
    """What an MLP of twice the original's width gains, at fewer layers and any number of heads."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        found = []
        for cell in record.cells if record is not None else ():
            depth, heads = cell.values["depth"], cell.values["heads"]
            if record is not None and depth < MORE and cell.values["mlp_dim"] == 2 * OWN_MLP:
                reference = _at(depth=depth, heads=heads, mlp_dim=OWN_MLP)
                wide = _at(depth=depth, heads=heads, mlp_dim=2 * OWN_MLP)
                found += against_cell(record, wide, reference, f"{grid}/sweep.json")
        little = [
            part.as_status(decided(part.interval[1] < LITTLE, part.interval[0] > LITTLE), at_most(LITTLE))
            for part in found
            if part.interval and not part.diverged
        ]
        return worst_of(little) if little else UNKNOWN

    return judge


def _doubled_heads(grid: str) -> Judge:
    """Twice the original's heads against its number of heads, at each smaller depth and the original's MLP."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        depths = sorted({cell.values["depth"] for cell in record.cells} - {MORE}) if record is not None else ()
        found = [
            cells_beat(
                grid,
                _at(depth=depth, heads=2 * OWN_HEADS, mlp_dim=OWN_MLP),
                _at(depth=depth, heads=OWN_HEADS, mlp_dim=OWN_MLP),
            )
            for depth in depths
        ]
        return all_of(*found)(evidence)

    return judge


def _fewer_params_beat(grid: str) -> Judge:
    """Whether the designs of Figure 5 with fewer layers, more heads and fewer parameters beat the original."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        original = next((cell for cell in record.cells if ORIGINAL(cell)), None) if record is not None else None
        if original is None or original.params is None:
            return UNKNOWN
        most = original.params
        sizes = STUDIES[5].axes
        return cells_beat(
            grid,
            lambda cell: (
                all(cell.values[name] in values for name, values in sizes.items())
                and cell.values["depth"] < MORE
                and cell.values["heads"] > OWN_HEADS
                and (cell.params or 0) < most
            ),
            ORIGINAL,
        )(evidence)

    return judge


CLAIMS = (
    Stated(
        id="abstract-accuracy",
        where="Abstract, Section 4.1",
        statement="Image models with fewer layers and more heads keep the accuracy of the original.",
        rule=HELD + EVERY,
        judge=every_decided(*map(verdict, COMPARED), *(verdict(name, tuned=True) for name in TUNED)),
        scale=PAIRS,
        test=COMPARE,
        at_scale=ALL_IMAGE_MODELS,
    ),
    Stated(
        id="abstract-heads",
        where="Abstract, Section 3.3",
        statement="It is the heads that make up for the layers: with fewer layers, twice the heads are better.",
        rule="holds if at each smaller depth twice the heads, with the same MLP, beat the original's number; does not "
        "if they lose" + BEATS + ALL,
        judge=_all_grids(_doubled_heads),
        scale=FIGURE_5,
        test=_figure(5),
    ),
    Stated(
        id="abstract-lean",
        extension=True,
        where="Abstract, Section 3.3",
        statement="Lean, with more heads and a narrower MLP, is better than the shallow model without them.",
        rule=GAIN + EVERY,
        judge=every_decided(
            *(arms(name, "lean", "shallow") for name in COMPARED),
            *(arms(name, "lean", "shallow", tuned=True) for name in TUNED),
        ),
        scale=PAIRS,
        test=COMPARE,
    ),
    Stated(
        id="figure-3-deep",
        where="Figure 3, left",
        statement="At the original's depth, accuracy improves clearly with the number of heads.",
        rule=RISE + ALL,
        judge=_all_grids(rises, "heads", depth=MORE, mlp_dim=OWN_MLP),
        scale=SMALL,
        test=_figure(3),
        at_scale=hours(["ViT-B"], "ImageNet-1k; Figure 3 has 18 designs"),
    ),
    Stated(
        id="figure-3-shallow",
        where="Figure 3, right",
        statement="At fewer layers too, accuracy is correlated with the number of heads.",
        rule=RISE + ALL,
        judge=all_of(
            _all_grids(rises, "heads", depth=FEWER, mlp_dim=OWN_MLP),
            rises("sweep-fashion-mnist", "heads", regime="fixed"),
        ),
        scale=f"{SMALL}; Fashion-MNIST, ViT of 4 layers at equal parameters, 3 seeds",
        test=f"{_figure(3)}; leanformer sweep fashion-mnist",
    ),
    Stated(
        id="figure-3-wide",
        where="Figure 3, left",
        statement="At the original's depth, more heads than the original's are more accurate than the original.",
        rule="holds if every such design beats the original; does not if one loses" + BEATS + ALL,
        judge=_all_grids(
            cells_beat,
            lambda cell: _at(depth=MORE, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] > OWN_HEADS,
            ORIGINAL,
        ),
        scale=SMALL,
        test=_figure(3),
    ),
    Stated(
        id="figure-3-all",
        where="Section 4.1.1",
        statement="All configurations of 8 layers with more than 12 heads surpass the original.",
        rule="holds if every shallower design with more than the original's heads has an interval above the original"
        + ALL,
        judge=_all_grids(
            cells_beat,
            lambda cell: _at(depth=FEWER, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] > OWN_HEADS,
            ORIGINAL,
        ),
        scale=SMALL,
        test=_figure(3),
    ),
    Stated(
        id="figure-3-caption",
        where="Figure 3, caption",
        statement="All configurations of 8 layers with 12 heads or more surpass the original.",
        rule="holds if every shallower design with the original's heads or more has an interval above the original"
        + ALL,
        judge=_all_grids(
            cells_beat,
            lambda cell: _at(depth=FEWER, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] >= OWN_HEADS,
            ORIGINAL,
        ),
        scale=SMALL,
        test=_figure(3),
    ),
    Stated(
        id="figure-4-weaker",
        where="Figure 4, Section 4.1.1",
        statement="The width of MLPs has a weaker effect than the number of heads.",
        rule=LARGER + ALL,
        judge=_all_grids(_weaker),
        scale=SMALL,
        test=f"{_figure(3)}; {_figure(4)}",
    ),
    Stated(
        id="figure-4-slight",
        where="Figure 4, caption",
        statement="At the original's depth, a wider MLP gives a slight benefit.",
        rule=RISE + ALL,
        judge=_all_grids(rises, "mlp_dim", depth=MORE, heads=OWN_HEADS),
        scale=SMALL,
        test=_figure(4),
    ),
    Stated(
        id="figure-4-compensation",
        where="Figure 4, caption",
        statement="Wider MLPs cannot make up for a reduction of depth from 12 to 8 layers.",
        rule="holds if every shallower design with a wider MLP has a 95 % interval below the original; does not if one "
        "lies above it" + ALL,
        judge=_all_grids(
            none_beats,
            lambda cell: _at(depth=FEWER, heads=OWN_HEADS)(cell) and cell.values["mlp_dim"] > OWN_MLP,
            ORIGINAL,
        ),
        scale=SMALL,
        test=_figure(4),
    ),
    Stated(
        id="figure-5-mlp",
        where="Figure 5, caption",
        statement="For 6 to 8 layers, doubling the MLP's width gives little.",
        rule=f"holds if every 95 % interval of a doubling's gain ends below {LITTLE} points; not if one begins above"
        + ALL,
        judge=_all_grids(_doubling),
        scale=FIGURE_5,
        test=_figure(5),
    ),
    Stated(
        id="figure-5-heads",
        where="Figure 5, caption",
        statement="For 6 to 8 layers, the number of heads is more important than the width of the MLP.",
        rule=LARGER + ALL,
        judge=_all_grids(_weaker, FEWER),
        scale=SMALL,
        test=f"{_figure(3)}; {_figure(4)}",
    ),
    Stated(
        id="figure-5-all",
        where="Section 4.1.1, Best configurations",
        statement="All configurations of Figure 5 are more accurate than the original with fewer parameters.",
        rule="holds if every design with fewer layers, more heads and fewer parameters has a 95 % interval above the "
        "original" + ALL,
        judge=_all_grids(_fewer_params_beat),
        scale=FIGURE_5,
        test=_figure(5),
    ),
)
