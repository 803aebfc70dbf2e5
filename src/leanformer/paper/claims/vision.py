"""Claims of "Leaner Transformers" about image models: Figures 1 and 3 to 7, Tables 4 to 6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leanformer.experiments.recipes.imagenet import recipe_name
from leanformer.models.published import FIGURE_3, VISION, Row
from leanformer.paper.claims.costs import hours
from leanformer.paper.evidence import Evidence
from leanformer.paper.memory import lean_shares
from leanformer.paper.record import ClaimStatus
from leanformer.paper.rules import (
    COUNTED,
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
    arms,
    cells_beat,
    count_words,
    counts,
    decided,
    every_decided,
    named,
    none_beats,
    reduction,
    rises,
    slope,
    verdict,
)
from leanformer.paper.studies import STUDIES

RECOUNT = "leanformer paper --recount"
SMALL = (
    "Fashion-MNIST, ViT of width 64 at 8 and 5 layers, 624 steps, 3 seeds, the learning rate tuned per depth (the "
    "paper: ImageNet-1k, ViT-B at 12 and 8)"
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
LITTLE = 0.5
"""Points that are little: the margin of the recipe."""
COMPARE = "leanformer compare fashion-mnist --seeds 5 --arms original,lean,shallow,wide"
WIDE = "leanformer paper figure 3; leanformer compare fashion-mnist --arms original,lean,shallow,wide"
IMAGES = tuple(zip(VISION[::2], VISION[1::2], strict=True))
SCORECARD = ("paper/scorecard.json",)


_all_image_models = hours([original.model for original, _ in IMAGES], "ImageNet-1k; original and lean of 11 models")


def _not_here(evidence: Evidence) -> Finding:
    return Finding("not testable here", "ImageNet-1k trainings of 300 epochs; the command is ready")


def _ranges(evidence: Evidence) -> Finding:
    """Section 4.1.2: base models of 60–90 M parameters, large ones of 180–200 M."""
    bounds = {"Tab. 4": (60e6, 90e6), "Tab. 5": (180e6, 204e6)}
    rows = [row for row in evidence.rows if row.table in bounds and row.variant == "original"]
    if not rows:
        return UNKNOWN
    inside = [bounds[row.table][0] <= row.params <= bounds[row.table][1] for row in rows]
    as_printed = [bounds[row.table][0] <= row.params_as_printed <= bounds[row.table][1] for row in rows]
    (good, whole), (strict, _) = count_words(inside), count_words(as_printed)
    status: ClaimStatus = "holds under another reading" if good == whole > strict else decided(good == whole)
    words = f"{strict} of {whole} with the printed sizes, {good} by the readings that give the printed counts"
    return Finding(status, words, good / whole, records=SCORECARD)


def _thirty_to_fifty(evidence: Evidence) -> Finding:
    models = [original.model for original, _ in IMAGES] + ["Crammed BERT", "GPT-2, TinyStories"]
    found = {model: share for model in models if (share := reduction(evidence, model)) is not None}
    if len(found) < len(models):
        return UNKNOWN
    inside = [round(share, 1) in (0.3, 0.4, 0.5) for share in found.values()]
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    words = f"{100 * found[low]:.0f} % ({low}) to {100 * found[high]:.0f} % ({high}) fewer, counted"
    status = decided(all(inside))
    return Finding(status, words, None, (found[low], found[high]), SCORECARD, "range")


def _about_half(evidence: Evidence) -> Finding:
    share = reduction(evidence, "ViT-B")
    if share is None:
        return UNKNOWN
    status = decided(round(share, 1) == 0.5)
    return Finding(status, f"ViT-B: {100 * share:.1f} % fewer, counted", share, records=SCORECARD)


def _memory(table: str) -> Judge:
    def judge(evidence: Evidence) -> Finding:
        found = [row.memory for row in evidence.rows if row.table == table and row.memory is not None]
        if not found:
            return UNKNOWN
        good, whole = count_words(memory.status == "within 10 %" for memory in found)
        status: ClaimStatus = "holds under another reading" if good == whole else "does not hold here"
        words = f"{good} of {whole} figures within 10 % of float32, explicit attention, 8 devices and a fitted constant"
        return Finding(status, words, good / whole, records=SCORECARD)

    return judge


def _memory_falls(evidence: Evidence) -> Finding:
    shares = {model: counted for model, (_, counted) in lean_shares(evidence.rows).items()}
    if not shares:
        return UNKNOWN
    low, high = min(shares.values()), max(shares.values())
    words = f"lean models take {100 * low:.0f} to {100 * high:.0f} % of the original's memory, counted"
    return Finding(decided(high < 0.9), words, high, (low, high), SCORECARD, "range")


def _figure_3_counts(evidence: Evidence) -> Finding:
    return counts(FIGURE_3)(evidence)


def _table_6(evidence: Evidence) -> Finding:
    found = [row for row in evidence.settings if "Table 6" in row.source]
    if not found:
        return UNKNOWN
    good, whole = count_words(row.same for row in found)
    status = decided(good == whole)
    return Finding(
        status, f"{good} of {whole} settings are the recipes' in all of them", good / whole, records=SCORECARD
    )


def _at(*, depth: int, heads: int | None = None, mlp_dim: int | None = None) -> Which:
    """Designs of these sizes; sizes that are not given do not matter."""
    wanted = {"depth": depth, "heads": heads, "mlp_dim": mlp_dim}
    return lambda cell: all(value in (None, cell.values[name]) for name, value in wanted.items())


ORIGINAL = _at(depth=MORE, heads=OWN_HEADS, mlp_dim=OWN_MLP)


def _all_grids(rule: Callable[..., Judge], *arguments: Any, **sizes: int) -> Judge:
    """A rule on every grid that is committed."""
    return every_decided(*(rule(grid, *arguments, **sizes) for grid in GRIDS))


def _weaker(grid: str) -> Judge:
    """The slope over heads minus the slope over the MLP, at the original's depth."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        first = record and slope(record, "heads", {"depth": MORE, "mlp_dim": OWN_MLP})
        second = record and slope(record, "mlp_dim", {"depth": MORE, "heads": OWN_HEADS})
        if record is None or not first or not second or first.t is None or second.t is None:
            return UNKNOWN
        low, high = first.t.low - second.t.high, first.t.high - second.t.low
        status = decided(low > 0, high < 0)
        both = f"{named(grid)}: heads {first.mean:+.2f} points per doubling, MLP {second.mean:+.2f}"
        words = f"{both}; the difference is in [{low:+.2f}, {high:+.2f}]"
        return Finding(status, words, first.mean - second.mean, (low, high), (f"{grid}/sweep.json",))

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
        intervals = [part.interval for part in found if part.interval]
        if not intervals:
            return UNKNOWN
        status = decided(all(high < LITTLE for _, high in intervals), any(low > LITTLE for low, _ in intervals))
        return Finding(status, "; ".join(part.result for part in found), records=found[0].records)

    return judge


def _fewer_params_beat(grid: str) -> Judge:
    """Whether every design of Figure 5 with fewer layers and fewer parameters is better than the original."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.sweep(grid)
        original = next((cell for cell in record.cells if ORIGINAL(cell)), None) if record is not None else None
        if original is None or original.params is None:
            return UNKNOWN
        most = original.params
        sizes = STUDIES[5].grid
        return cells_beat(
            grid,
            lambda cell: (
                all(cell.values[name] in values for name, values in sizes.items())
                and cell.values["depth"] < MORE
                and (cell.params or 0) < most
            ),
            ORIGINAL,
        )(evidence)

    return judge


def _pair(original: Row, lean: Row) -> tuple[Stated, Stated]:
    figure = "Figure 6" if original.table == "Tab. 4" else "Figure 7"
    slug = original.model.lower()
    command = f"torchrun --nproc-per-node 8 -m leanformer compare {recipe_name(original.model)} --data DIR"
    accuracy = Stated(
        id=f"accuracy-{slug}",
        where=f"{original.table.replace('Tab.', 'Table')}, {figure}",
        statement=f"{original.model} with fewer layers and more heads is as accurate as the original, or more so.",
        printed=tuple(
            f"{row.variant} {row.results['top1']} % top-1, {row.results['top5']} % top-5" for row in (original, lean)
        ),
        rule="holds if lean is not worse than the original by more than 0.3 points over 3 seeds",
        judge=_not_here,
        scale="the paper's",
        test=command,
        at_scale=hours([original.model], "ImageNet-1k"),
    )
    params = Stated(
        id=f"params-{slug}",
        where=original.table.replace("Tab.", "Table"),
        statement=f"{original.model} and its lean design have the printed numbers of parameters.",
        printed=tuple(f"{row.variant} {row.params}" for row in (original, lean)),
        rule=COUNTED,
        judge=counts((original, lean)),
        scale="built models",
        test=RECOUNT,
    )
    return accuracy, params


CLAIMS = (
    Stated(
        id="figure-1-half",
        where="Figure 1",
        statement="The lean design uses about 50 % fewer parameters.",
        rule="holds if the counted reduction of ViT-B rounds to 50 % in tens",
        judge=_about_half,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="abstract-thirty-to-fifty",
        where="Abstract, Section 4.1",
        statement="Parameters fall by 30 to 50 %.",
        rule="holds if the counted reduction of every image and language model rounds to 30, 40 or 50 %",
        judge=_thirty_to_fifty,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="abstract-accuracy",
        where="Abstract, Section 4.1",
        statement="Image models with fewer layers and more heads keep the accuracy of the original.",
        rule=HELD + EVERY,
        judge=every_decided(*map(verdict, COMPARED), *(verdict(name, tuned=True) for name in TUNED)),
        scale=PAIRS,
        test=COMPARE,
        at_scale=_all_image_models,
    ),
    Stated(
        id="abstract-heads",
        where="Abstract, Section 3.3",
        statement="It is the heads that make up for the layers: lean is better than the shallow model without them.",
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
        rule=RISE,
        judge=_all_grids(rises, "heads", depth=MORE, mlp_dim=OWN_MLP),
        scale=SMALL,
        test="leanformer paper figure 3",
        at_scale=hours(["ViT-B"], "ImageNet-1k, one design; Figure 3 has 18"),
    ),
    Stated(
        id="figure-3-shallow",
        where="Figure 3, right",
        statement="At fewer layers too, accuracy is correlated with the number of heads.",
        rule=RISE,
        judge=every_decided(
            _all_grids(rises, "heads", depth=FEWER, mlp_dim=OWN_MLP),
            rises("sweep-fashion-mnist", "heads", regime="fixed"),
        ),
        scale=f"{SMALL}; Fashion-MNIST, ViT of 4 layers at equal parameters, 3 seeds",
        test="leanformer paper figure 3; leanformer sweep fashion-mnist",
    ),
    Stated(
        id="figure-3-wide",
        where="Figure 3, left",
        statement="At the original's depth, more heads than the original's are more accurate than the original.",
        rule=GAIN + EVERY,
        judge=every_decided(
            _all_grids(
                cells_beat,
                lambda cell: _at(depth=MORE, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] > OWN_HEADS,
                ORIGINAL,
            ),
            *(arms(name, "wide", "original") for name in COMPARED),
        ),
        scale=f"{SMALL}; {PAIRS}",
        test=WIDE,
    ),
    Stated(
        id="figure-3-all",
        where="Section 4.1.1",
        statement="All configurations of 8 layers with more than 12 heads surpass the original.",
        rule="holds if every shallower design with more than the original's heads has an interval above the original",
        judge=_all_grids(
            cells_beat,
            lambda cell: _at(depth=FEWER, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] > OWN_HEADS,
            ORIGINAL,
        ),
        scale=SMALL,
        test="leanformer paper figure 3",
    ),
    Stated(
        id="figure-3-caption",
        where="Figure 3, caption",
        statement="All configurations of 8 layers with 12 heads or more surpass the original.",
        rule="holds if every shallower design with the original's heads or more has an interval above the original",
        judge=_all_grids(
            cells_beat,
            lambda cell: _at(depth=FEWER, mlp_dim=OWN_MLP)(cell) and cell.values["heads"] >= OWN_HEADS,
            ORIGINAL,
        ),
        scale=SMALL,
        test="leanformer paper figure 3",
    ),
    Stated(
        id="figure-3-params",
        where="Section 4.1.1",
        statement="ViT-B of 8 layers with 14 to 18 heads has the printed range of parameters.",
        printed=tuple(f"{row.heads} heads {row.params}" for row in FIGURE_3),
        rule=COUNTED,
        judge=_figure_3_counts,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="figure-4-weaker",
        where="Figure 4, Section 4.1.1",
        statement="The width of MLPs has a weaker effect than the number of heads.",
        rule="holds if the slope over heads is above the slope over the MLP's width, by their 95 % intervals",
        judge=_all_grids(_weaker),
        scale=SMALL,
        test="leanformer paper figure 3; leanformer paper figure 4",
    ),
    Stated(
        id="figure-4-compensation",
        where="Figure 4, caption",
        statement="Wider MLPs cannot make up for a reduction of depth from 12 to 8 layers.",
        rule="holds if no shallower design with a wider MLP is better than the original, by 95 % intervals",
        judge=_all_grids(
            none_beats,
            lambda cell: _at(depth=FEWER, heads=OWN_HEADS)(cell) and cell.values["mlp_dim"] > OWN_MLP,
            ORIGINAL,
        ),
        scale=SMALL,
        test="leanformer paper figure 4",
    ),
    Stated(
        id="figure-5-mlp",
        where="Figure 5, caption",
        statement="For 6 to 8 layers, doubling the MLP's width gives little.",
        rule=f"holds if every 95 % interval of a doubling's gain ends below {LITTLE} points; not if one begins above",
        judge=_all_grids(_doubling),
        scale=SMALL,
        test="leanformer paper figure 5",
    ),
    Stated(
        id="figure-5-all",
        where="Section 4.1.1, Best configurations",
        statement="All configurations of Figure 5 are more accurate than the original with fewer parameters.",
        rule="holds if every design with fewer layers and fewer parameters has a 95 % interval above the original",
        judge=_all_grids(_fewer_params_beat),
        scale=SMALL,
        test="leanformer paper figure 5",
    ),
    *(claim for pair in IMAGES for claim in _pair(*pair)),
    Stated(
        id="sizes-of-originals",
        where="Section 4.1.2, Appendix B.1",
        statement="The base models have 60 to 90 million parameters, the large ones 180 to 200 million.",
        rule="holds if all built originals lie in the range; under another reading if other sizes than printed do",
        judge=_ranges,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-table-4",
        where="Table 4, Figure 6",
        statement="Training the base models takes the printed memory.",
        rule="holds (under the reading found) if all figures are within 10 % of the count",
        judge=_memory("Tab. 4"),
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-table-5",
        where="Table 5, Figure 7",
        statement="Training the large models takes the printed memory.",
        rule="holds (under the reading found) if all figures are within 10 % of the count",
        judge=_memory("Tab. 5"),
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-falls",
        where="Section 4.1.2, Figures 6 and 7",
        statement="Lean image models take substantially less memory in training.",
        rule="holds if every lean model takes less than 90 % of its original's counted memory",
        judge=_memory_falls,
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="table-6",
        where="Table 6",
        statement="All image models are trained with Table 6's settings.",
        rule="holds if our recipes have every setting of the table",
        judge=_table_6,
        scale="11 recipes",
        test="leanformer paper table 6",
    ),
)
