"""Claims of "Leaner Transformers" about the image models of Tables 4 to 6: counts, memory and printed figures."""

from __future__ import annotations

from leanformer.experiments.recipes.imagenet import recipe_name
from leanformer.models.published import FIGURE_3, VISION, Row
from leanformer.paper.claims.costs import hours
from leanformer.paper.evidence import Evidence
from leanformer.paper.memory import lean_shares
from leanformer.paper.record import ClaimStatus, ScorecardRow
from leanformer.paper.rules import (
    COUNTED,
    RECOUNT,
    UNKNOWN,
    Finding,
    Judge,
    Stated,
    at_least,
    at_most,
    count_words,
    counts,
    decided,
    reduction,
)

IMAGES = tuple(zip(VISION[::2], VISION[1::2], strict=True))
SCORECARD = ("paper/scorecard.json",)


def _not_here(evidence: Evidence) -> Finding:
    return Finding("not testable here", "ImageNet-1k trainings of 300 epochs; the command is ready")


def _ranges(evidence: Evidence) -> Finding:
    """Section 4.1.2: base models of 60–90 M parameters, large ones of 180–200 M."""
    bounds = {"Tab. 4": (60, 90), "Tab. 5": (180, 200)}
    rows = [row for row in evidence.rows if row.table in bounds and row.variant == "original"]
    if not rows:
        return UNKNOWN

    def inside(table: str, params: int) -> bool:
        low, high = bounds[table]
        return low <= round(params / 1e6, -1) <= high

    by_reading = [inside(row.table, row.params) for row in rows]
    as_printed = [inside(row.table, row.params_as_printed) for row in rows]
    (good, whole), (strict, _) = count_words(by_reading), count_words(as_printed)
    status: ClaimStatus = "holds under another reading" if good == whole > strict else decided(good == whole)
    words = f"{strict} of {whole} with the printed sizes, {good} by the readings that give the printed counts"
    return Finding(status, words, 100 * strict / whole, records=SCORECARD, limit=at_least(100))


def _thirty_to_fifty(evidence: Evidence) -> Finding:
    models = [original.model for original, _ in IMAGES] + ["Crammed BERT", "GPT-2, TinyStories"]
    found = {model: share for model in models if (share := reduction(evidence, model)) is not None}
    strict = [reduction(evidence, model, as_printed=True) or 0.0 for model in found]
    if len(found) < len(models):
        return UNKNOWN
    inside, exact = ([round(share, 1) in (0.3, 0.4, 0.5) for share in shares] for shares in (found.values(), strict))
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    words = f"{100 * found[low]:.0f} % ({low}) to {100 * found[high]:.0f} % ({high}) fewer, counted"
    outside = ", ".join(
        f"{model} {100 * share:.0f} %" for model, share, good in zip(found, strict, exact, strict=True) if not good
    )
    words += f"; with the printed sizes {outside}" if outside else ""
    status: ClaimStatus = "holds under another reading" if all(inside) and outside else decided(all(inside))
    return Finding(status, words, None, (100 * found[low], 100 * found[high]), SCORECARD, "range")


def with_mlps_of(lean: ScorecardRow, original: ScorecardRow) -> int:
    """Parameters of the lean model if its MLPs were as wide as the original's.

    A hidden unit has the weights of its input and output, and a bias.
    """
    pairs = zip(lean.architecture.stages, original.architecture.stages, strict=True)
    return lean.params + sum(own.depth * (wide.mlp_dim - own.mlp_dim) * (2 * own.width + 1) for own, wide in pairs)


def with_more_heads(original: ScorecardRow, heads: int) -> int:
    """Parameters of a ViT with so many heads of the original's size: queries, keys and values have biases."""
    (stage,) = original.architecture.stages
    return original.params + stage.depth * (heads - stage.heads) * stage.head_dim * (4 * stage.width + 3)


def _depth_and_heads(evidence: Evidence) -> Finding:
    """What fewer layers and more heads alone save, with the original's MLPs."""
    alone, whole = {}, {}
    for original, _ in IMAGES:
        first, lean = (evidence.row(original.model, variant) for variant in ("original", "lean"))
        if first is None or lean is None:
            return UNKNOWN
        whole[original.model] = 100 * (1 - lean.params / first.params)
        alone[original.model] = 100 * (1 - with_mlps_of(lean, first) / first.params)
    short = [model for model in alone if round(alone[model]) < round(whole[model])]
    listed = ", ".join(f"{model} {alone[model]:.0f} of {whole[model]:.0f} %" for model in short)
    words = f"fewer layers and more heads alone give the reduction of {len(alone) - len(short)} of {len(alone)} models"
    words += f"; the rest comes from narrower MLPs for {listed}" if short else ""
    least = min(alone.values())
    status: ClaimStatus = "holds under another reading" if short and least > 0 else decided(least > 0)
    return Finding(status, words, least, records=SCORECARD, limit=at_least(0))


def _figure_3_cost(evidence: Evidence) -> Finding:
    """Parameters of 12 layers with more heads of 64 columns."""
    original = evidence.row("ViT-B", "original")
    if original is None:
        return UNKNOWN
    counted = {heads: with_more_heads(original, heads) for heads in (14, 16, 18)}
    words = ", ".join(f"{count / 1e6:.1f} M with {heads} heads" for heads, count in counted.items())
    more = min(counted.values()) / original.params
    result = f"{words}; original {original.params / 1e6:.1f} M"
    return Finding(decided(more > 1), result, more, records=SCORECARD, limit=at_least(1))


def _about_half(evidence: Evidence) -> Finding:
    found = {original.model: reduction(evidence, original.model) for original, _ in IMAGES}
    shares = {model: 100 * share for model, share in found.items() if share is not None}
    if len(shares) < len(IMAGES):
        return UNKNOWN
    half = [model for model, share in shares.items() if round(share, -1) == 50]
    low, high = min(shares.values()), max(shares.values())
    words = f"{low:.0f} to {high:.0f} % fewer; about 50 % for {', '.join(half) or 'none'}"
    status: ClaimStatus = "holds under another reading" if 0 < len(half) < len(shares) else decided(bool(half))
    return Finding(status, words, None, (low, high), SCORECARD, "range")


LESS = 90.0
"""Percent of the original's memory below which a model takes substantially less."""
MEMORY = (
    "holds under another reading if all figures are within 10 % of the count; else cannot tell, since the paper does "
    "not say what its figures cover"
)


def _memory(table: str) -> Judge:
    def judge(evidence: Evidence) -> Finding:
        found = [row.memory for row in evidence.rows if row.table == table and row.memory is not None]
        if not found:
            return UNKNOWN
        good, whole = count_words(memory.status == "within 10 %" for memory in found)
        status: ClaimStatus = "holds under another reading" if good == whole else "cannot tell"
        words = f"{good} of {whole} figures within 10 % of float32, explicit attention, 8 devices and a fitted constant"
        return Finding(status, words, 100 * good / whole, records=SCORECARD, limit=at_least(100))

    return judge


def _memory_falls(evidence: Evidence) -> Finding:
    shares = lean_shares(evidence.rows).values()
    if not shares:
        return UNKNOWN
    printed, counted = ([100 * share for share in found] for found in zip(*shares, strict=True))
    words = (
        f"lean models take {min(counted):.0f} to {max(counted):.0f} % of the original's memory as counted, "
        f"{min(printed):.0f} to {max(printed):.0f} % as printed"
    )
    low, high = min(*counted, *printed), max(*counted, *printed)
    return Finding(decided(high < LESS), words, high, (low, high), SCORECARD, "range", limit=at_most(LESS))


def _figure_3_counts(evidence: Evidence) -> Finding:
    return counts(FIGURE_3)(evidence)


def _figure_3_fewer(evidence: Evidence) -> Finding:
    rows = [row for row in evidence.rows if row.table == "Fig. 3"]
    original = evidence.row("ViT-B", "original")
    if not rows or original is None:
        return UNKNOWN
    shares = [100 * (1 - row.params / original.params) for row in rows]
    words = ", ".join(f"{share:.1f} % fewer" for share in shares)
    low, high = min(shares), max(shares)
    return Finding(decided(low > 0), words, low, (low, high), SCORECARD, "range", limit=at_least(0))


def _as_printed(table: str) -> Judge:
    """Whether every lean model of a table is as good as its original or better, by the table's own figures."""

    def judge(evidence: Evidence) -> Finding:
        pairs = [(original, lean) for original, lean in IMAGES if original.table == table]
        gains = {
            f"{original.model}, {name}": lean.results[key] - original.results[key]
            for original, lean in pairs
            for key, name in (("top1", "top-1"), ("top5", "top-5"))
        }
        equal = [name for name, value in gains.items() if round(value, 1) == 0]
        words = f"printed gains of {min(gains.values()):+.1f} to {max(gains.values()):+.1f} points"
        note = f"; equal for {', '.join(equal)}" if equal else ""
        low, high = (round(pick(gains.values()), 1) for pick in (min, max))  # as many decimals as are printed
        status: ClaimStatus = "holds under another reading" if low == 0 else decided(low > 0)
        return Finding(status, f"{words}{note}", low, (low, high), (), "range", limit=at_least(0))

    return judge


def _table_6(evidence: Evidence) -> Finding:
    found = [row for row in evidence.settings if "Table 6" in row.source]
    if not found:
        return UNKNOWN
    good, whole = count_words(row.same for row in found)
    status = decided(good == whole)
    words = f"{good} of {whole} settings are the recipes' in all of them"
    return Finding(status, words, 100 * good / whole, records=SCORECARD, limit=at_least(100))


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
        statement="Popular models, redesigned, have about 50 % fewer parameters.",
        rule="holds if the counted reduction of every image model rounds to 50 % in tens; under another reading if "
        "that of some does",
        judge=_about_half,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="abstract-thirty-to-fifty",
        where="Abstract, Section 4.1",
        statement="Parameters fall by up to 30 to 50 %.",
        printed=("30–50 %",),
        rule="holds if the counted reduction of every image and language model, with the printed sizes, rounds to 30, "
        "40 or 50 %; under another reading if the sizes that give the printed counts do",
        judge=_thirty_to_fifty,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="figure-3-params",
        where="Section 4.1.1",
        statement="ViT-B of 8 layers with more than 12 heads (read as 14 to 18) has the printed range of parameters.",
        printed=tuple(f"{row.heads} heads {row.params}" for row in FIGURE_3),
        rule=COUNTED,
        judge=_figure_3_counts,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="figure-3-fewer",
        where="Section 4.1.1",
        statement="ViT-B of 8 layers with 14 to 18 heads has fewer parameters than the original.",
        printed=(*(f"{row.heads} heads {row.params}" for row in FIGURE_3), f"original {VISION[0].params}"),
        rule="holds if every built design of the range has fewer parameters than the built original",
        judge=_figure_3_fewer,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="figure-3-cost",
        where="Section 4.1.1, Figure 3, left",
        statement="At 12 layers, more heads than 12 cost additional parameters.",
        rule="holds if ViT-B with 14, 16 and 18 heads has more parameters than with 12",
        judge=_figure_3_cost,
        scale="closed form",
        test=RECOUNT,
    ),
    Stated(
        id="depth-and-heads",
        where="Sections 1 and 3.3, captions of Tables 4 and 5",
        statement="Trading layers for heads is what makes the image models smaller.",
        rule="holds if fewer layers and more heads, with the original's MLPs, give the whole reduction of every model; "
        "under another reading if they give a part of it for some",
        judge=_depth_and_heads,
        scale="closed form",
        test=RECOUNT,
    ),
    *(claim for pair in IMAGES for claim in _pair(*pair)),
    *(
        Stated(
            id=f"table-{number}-as-printed",
            where=f"Table {number}, caption; Section 4.1.2, Appendix B.1",
            statement=f"The lean designs of the {kind} models outperform their originals, as printed.",
            rule="holds if the printed top-1 and top-5 of every lean model are above its original's; under another "
            "reading, at least as accurate, if some are equal",
            judge=_as_printed(f"Tab. {number}"),
            scale="printed figures, one training each",
            test=f"leanformer paper figure {figure}",
        )
        for number, figure, kind in ((4, 6, "base"), (5, 7, "large"))
    ),
    Stated(
        id="sizes-of-originals",
        where="Section 4.1.2, Appendix B.1",
        statement="The base models have 60 to 90 million parameters, the large ones 180 to 200 million.",
        rule="holds if all built originals, rounded to ten million, lie in the range; under another reading if other "
        "sizes than printed do",
        judge=_ranges,
        scale="built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-table-4",
        where="Table 4, Figure 6",
        statement="Training the base models takes the printed memory.",
        rule=MEMORY,
        judge=_memory("Tab. 4"),
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-table-5",
        where="Table 5, Figure 7",
        statement="Training the large models takes the printed memory.",
        rule=MEMORY,
        judge=_memory("Tab. 5"),
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="memory-falls",
        where="Section 4.1.2, Figures 6 and 7",
        statement="Lean image models take substantially less memory in training.",
        rule="holds if every lean model takes less than 90 % of its original's memory, printed and counted",
        judge=_memory_falls,
        scale="counted on built models",
        test=RECOUNT,
    ),
    Stated(
        id="table-6",
        where="Table 6",
        statement="Our recipes of the image models have Table 6's settings.",
        extension=True,
        rule="holds if our recipes have every setting of the table",
        judge=_table_6,
        scale="11 recipes",
        test="leanformer paper table 6",
    ),
)
