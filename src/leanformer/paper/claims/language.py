"""Claims of "Leaner Transformers" about language and long sequences: Tables 1 to 3, Figures 8 and 9."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from leanformer.experiments.glue import MARGIN
from leanformer.experiments.judging.estimates import paired
from leanformer.models.published import GLUE_TASKS, LANGUAGE, LONG_RANGE_ARENA, Row
from leanformer.paper import counts as token_counts
from leanformer.paper.claims.costs import hours
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import ClaimStatus
from leanformer.paper.rules import (
    BEATS,
    COUNTED,
    EVERY,
    GAIN,
    HELD,
    RECOUNT,
    RISE,
    UNKNOWN,
    Finding,
    Judge,
    Stated,
    all_of,
    arms,
    at_least,
    at_most,
    cells_beat,
    counts,
    decided,
    every_decided,
    first_of,
    gain,
    rises,
    share_printed,
    verdict,
    worst_of,
)
from leanformer.paper.studies import STUDIES

GLUE = "glue/glue.json"
BERT, GPT = "Crammed BERT", "GPT-2, TinyStories"
SMALL_BERT = "TinyStories, Crammed BERT of width 128, 8 layers × 4 heads against 5 × 8 (split), 3 seeds"
SMALL_GPT = (
    "TinyStories, GPT-2 of width 128 and 64, 6 layers × 4 heads against 2 × 8, 3 and 5 seeds; heads keep their size, "
    "but for the arm split, which has the paper's regime"
)
NEAR = 10.0
"""Percent that a counted memory may be off."""
LAST_DIGIT = 0.05
"""Half of the last digit of the printed averages."""
PERCENT = "holds if the counts give the printed percentage, rounded or cut off"


def _glue(against: str) -> Judge:
    """Lean's average over the tasks of GLUE: not worse than the original's, or better than the control's."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.glue()
        found = next((v for v in record.verdicts if v.against == against), None) if record is not None else None
        if record is None or found is None:
            return UNKNOWN
        if against != "original":
            return gain(found.difference, MARGIN, "%", (GLUE,)).called("GLUE")
        interval = found.difference.t and (found.difference.t.low, found.difference.t.high)
        missing = f"; without {', '.join(record.missing)}" if record.missing else ""
        status = decided(found.outcome == "holds", found.outcome == "loses")
        words, limit = f"{found.words}{missing}", at_least(-MARGIN)
        return Finding(status, words, found.difference.mean, interval or None, (GLUE,), limit=limit)

    return judge


def _each_task(evidence: Evidence) -> Finding:
    """Lean against the original on every task of GLUE for which there are data."""
    record = evidence.glue()
    found, same = [], []
    for name, task in record.tasks.items() if record is not None else ():
        ours, theirs = task.arms["lean"].scores, task.arms["original"].scores
        difference = paired(ours, theirs)
        if len({*ours.values(), *theirs.values()}) == 1:
            same.append(name)
        elif difference is not None and difference.t is not None:
            low, high = difference.t.low, difference.t.high
            words = f"{difference.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
            status = decided(low > -MARGIN, high < -MARGIN)
            judged = Finding(status, words, difference.mean, (low, high), (GLUE,), limit=at_least(-MARGIN))
            found.append(judged.called(name))
    if not found:
        return UNKNOWN
    worst = worst_of(found)
    note = f"; {', '.join(same)} not counted, since every run gives a constant answer" if same else ""
    return replace(worst, result=f"{worst.result}{note}")


def _memory(model: str) -> Judge:
    """The printed gigabytes against the count at the recipe's batch, without any fitted constant."""

    def judge(evidence: Evidence) -> Finding:
        rows = [evidence.row(model, variant) for variant in ("original", "lean")]
        pairs = [(row.printed.memory_gb, row.training.memory_gb) for row in rows if row and row.training]
        if len(pairs) < 2:
            return UNKNOWN
        (printed, counted), (lean_printed, lean_counted) = pairs
        off = max(100 * abs(ours / theirs - 1) for theirs, ours in pairs)
        shares = f"lean takes {100 * lean_counted / counted:.0f} %, printed {100 * lean_printed / printed:.0f} %"
        words = f"counted {counted:.1f} and {lean_counted:.1f} GB; {shares}"
        status: ClaimStatus = "holds under another reading" if off <= NEAR else "cannot tell"
        return Finding(status, words, off, records=("paper/scorecard.json",), limit=at_most(NEAR))

    return judge


UNITS = {"glue": "on average", "memory_gb": "GB", "validation_loss": "nats", "accuracy": "%"}


def _printed(rows: tuple[Row, ...], *keys: str) -> tuple[str, ...]:
    return tuple(f"{row.variant} {', '.join(f'{row.results[key]} {UNITS[key]}' for key in keys)}" for row in rows)


def _rows(model: str) -> tuple[Row, ...]:
    return tuple(row for row in (*LANGUAGE, *LONG_RANGE_ARENA) if row.model == model and row.variant != "control")


def _printed_tasks() -> tuple[str, ...]:
    original, lean = (row.results for row in _rows(BERT))
    return tuple(f"{task} {original[task]} and {lean[task]}" for task in GLUE_TASKS)


TASKS = {
    "ListOps": ("listops", "drawn here"),
    "text": ("text", "IMDb"),
    "retrieval": ("retrieval", "AAN, with --data"),
    "image": ("image", "CIFAR-10"),
    "Pathfinder": ("pathfinder", "drawn here"),
}


NO_PAPERS = Finding("not testable here", "AAN's papers are not available here; the command takes a folder with them")


def _arena(task: str) -> tuple[Stated, ...]:
    recipe, data = TASKS[task]
    model = f"Nyströmformer, {task}"
    rows = _rows(model)
    printed_gain = rows[1].results["accuracy"] - rows[0].results["accuracy"]
    share = rows[1].reductions["params"]
    return (
        Stated(
            id=f"table-3-{recipe}",
            where="Table 3",
            statement=f"On {task}, one layer of four heads outperforms two layers of two.",
            printed=_printed(rows, "accuracy"),
            rule=GAIN + ", here the printed gain",
            judge=first_of(
                arms(f"paper/table-3-{recipe}", "lean", "original", margin=printed_gain),
                arms(f"compare-{recipe}", "lean", "original", margin=printed_gain),
                *([lambda evidence: NO_PAPERS] if task == "retrieval" else []),
            ),
            scale="shorter sequences and fewer steps than the Long-Range Arena, 3 seeds",
            test=f"leanformer compare {recipe}",
            at_scale=hours([model], data),
        ),
        Stated(
            id=f"table-3-{recipe}-share",
            where="Table 3",
            statement=f"On {task}, one layer of four heads has {f'{share} % fewer' if share else 'as many'} parameters "
            f"{'than' if share else 'as'} two layers of two.",
            printed=(f"−{share} %" if share else "same",),
            rule=PERCENT,
            judge=share_printed(model, share, "params_as_printed"),
            scale="built models",
            test=RECOUNT,
        ),
        Stated(
            id=f"table-3-{recipe}-params",
            where="Table 3",
            statement=f"The Nyströmformers of {task} have the printed numbers of parameters.",
            printed=tuple(f"{row.variant} {row.params}" for row in rows if row.params),
            rule=COUNTED,
            judge=counts(rows),
            scale="built models",
            test=RECOUNT,
        ),
    )


def _fewer_params(model: str) -> Judge:
    """One layer of four heads or more against two layers of two heads, as counted."""

    def judge(evidence: Evidence) -> Finding:
        rows = [row for row in evidence.rows if row.model == model]
        counted = {(row.printed.depth, row.printed.heads): row.params_as_printed for row in rows}
        original = counted.get((2, 2))
        shallow = {heads: count for (depth, heads), count in counted.items() if depth == 1 and heads in (4, 6, 8)}
        if original is None or len(shallow) < 3:
            return UNKNOWN
        listed = ", ".join(f"{count:,} at (1, {heads})" for heads, count in sorted(shallow.items()))
        fewer = decided(max(shallow.values()) < original)
        return Finding(fewer, f"{original:,} at (2, 2); {listed}", records=("paper/scorecard.json",))

    return judge


def _figure(number: int, task: str) -> tuple[Stated, ...]:
    data = TASKS[task][1]
    name, model = f"paper/grid-{STUDIES[number].recipe}", f"Nyströmformer, {task}"
    scale = f"{task} at shorter sequences than the Long-Range Arena's, 3 seeds, the learning rate tuned per depth"
    return (
        Stated(
            id=f"figure-{number}-heads",
            where=f"Figure {number}, Section 4.3",
            statement=f"On {task}, additional heads increase the accuracy.",
            rule=RISE + "; at both depths",
            judge=all_of(rises(name, "heads", depth=2), rises(name, "heads", depth=1)),
            scale=scale,
            test=f"leanformer paper figure {number}",
            at_scale=hours([model], data),
        ),
        Stated(
            id=f"figure-{number}-one-layer",
            where=f"Figure {number}, caption",
            statement=f"On {task}, one layer with four heads or more surpasses two layers of two heads.",
            rule="holds if every such design beats (2, 2)" + BEATS,
            judge=cells_beat(
                name,
                lambda cell: cell.values["depth"] == 1 and cell.values["heads"] >= 4,
                lambda cell: cell.values["depth"] == 2 and cell.values["heads"] == 2,
            ),
            scale=scale,
            test=f"leanformer paper figure {number}",
            at_scale=hours([model], data),
        ),
        Stated(
            id=f"figure-{number}-fewer",
            where=f"Figure {number}, caption",
            statement=f"On {task}, one layer of four heads or more has fewer parameters than two layers of two.",
            rule="holds if the built models of one layer with 4, 6 and 8 heads all have fewer parameters",
            judge=_fewer_params(model),
            scale="built models",
            test=RECOUNT,
        ),
    )


def _above_counts(name: str) -> Judge:
    """The printed accuracies against those of a linear model of token counts."""

    def judge(evidence: Evidence) -> Finding:
        record = evidence.counts()
        row = record.of(TASK_NAMES[name]) if record is not None else None
        if row is None:
            return UNKNOWN
        words = token_counts.words(row).removeprefix(f"{row.task}: ")
        status = decided(len(row.above) == len(row.printed), any(value < row.low for value in row.printed.values()))
        words += f"; {row.train:,} training and {row.held_out:,} held-out samples"
        least = min(row.printed.values())
        above = (least - row.high, least - row.low)
        return Finding(status, words, least - row.linear, above, (COUNTS,), limit=at_least(0))

    return judge


TASK_NAMES = token_counts.TASKS
COUNTS = "paper/counts.json"
COUNT_TOKENS = "leanformer paper counts --out results/paper"
BASELINES = tuple(
    Stated(
        id=f"counts-{name}",
        where="Table 3",
        statement=f"On {TASK_NAMES[name]}, the printed accuracies are above what the counts of tokens and the first "
        "token give.",
        extension=True,
        rule="holds if both lie above Wilson's 95 % interval of a linear model of token counts and the first token; "
        "does not if one lies below it",
        judge=_above_counts(name),
        scale="the paper's lengths; the linear model is fitted to at most 20,000 samples",
        test=COUNT_TOKENS,
    )
    for name in token_counts.USUAL
)


def _counted(model: str, table: str) -> tuple[Stated, ...]:
    slug, name = table.lower().replace(" ", "-"), model.partition(",")[0]
    rows = _rows(model)
    printed, memory_printed = (rows[1].reductions[of] for of in ("params", "memory_gb"))
    return (
        Stated(
            id=f"{slug}-params",
            where=table,
            statement=f"{name} and its lean design have the printed numbers of parameters.",
            printed=tuple(f"{row.variant} {row.params}" for row in rows),
            rule=COUNTED,
            judge=counts(rows),
            scale="built models",
            test=RECOUNT,
        ),
        Stated(
            id=f"{slug}-params-share",
            where=table,
            statement=f"The lean {name} has {printed} % fewer parameters.",
            printed=(f"−{printed} %",),
            rule=PERCENT,
            judge=share_printed(model, printed, "params"),
            scale="built models",
            test=RECOUNT,
        ),
        Stated(
            id=f"{slug}-memory-share",
            where=table,
            statement=f"The lean {name} takes {memory_printed} % less memory: this follows from the printed figures.",
            printed=(f"−{memory_printed} %",),
            rule=PERCENT,
            judge=share_printed(model, memory_printed, "memory_gb"),
            scale="printed figures",
            test=RECOUNT,
        ),
        Stated(
            id=f"{slug}-memory",
            where=table,
            statement=f"Training {name} takes the printed memory.",
            printed=_printed(rows, "memory_gb"),
            rule="holds under another reading if both counts are within 10 % of print (float32, explicit attention, "
            "the recipe's batch); else cannot tell, since the paper does not say what its figures cover",
            judge=_memory(model),
            scale="counted on built models",
            test=RECOUNT,
        ),
    )


def _stories(against: str) -> Judge:
    """Lean on TinyStories in all committed comparisons, at shared settings and at each arm's best."""
    longer = ("tuned-tinystories-500", "tuned-tinystories-1500")
    return every_decided(
        arms("compare-tinystories", "lean", against),
        *([arms("compare-tinystories", "split", against)] if against == "original" else []),
        *(arms(name, "lean", against, tuned=tuned) for name in longer for tuned in (False, True)),
    )


def _average(evidence: Evidence) -> Finding:
    """The printed averages over GLUE from the printed tasks."""
    rows = {row.variant: row.results for row in _rows(BERT)}
    found = {variant: fmean(results[task] for task in GLUE_TASKS) for variant, results in rows.items()}
    words = "; ".join(f"{variant} {value:.2f}" for variant, value in found.items())
    off = max(abs(found[variant] - results["glue"]) for variant, results in rows.items())
    return Finding(decided(round(off, 6) <= LAST_DIGIT), words, off, limit=at_most(LAST_DIGIT))


CLAIMS = (
    Stated(
        id="table-1-average",
        where="Table 1",
        statement="The averages over GLUE follow from the printed scores of its tasks.",
        printed=_printed(_rows(BERT), "glue"),
        rule="holds if the means of the printed tasks round to the printed averages",
        judge=_average,
        scale="printed figures",
        test=RECOUNT,
    ),
    Stated(
        id="table-1-glue",
        where="Table 1, Section 4.2",
        statement="Crammed BERT with 10 layers of 24 heads is as good on GLUE as with 16 of 12.",
        printed=_printed(_rows(BERT), "glue"),
        rule=HELD,
        judge=_glue("original"),
        scale=f"{SMALL_BERT}; 5 of 8 tasks",
        test="leanformer glue runs/compare-crammed-bert",
        at_scale=hours([BERT], "the Pile, and GLUE after it"),
    ),
    Stated(
        id="table-1-each-task",
        where="Table 1, caption",
        statement="On each task of GLUE, the lean Crammed BERT is comparable to the original.",
        printed=_printed_tasks(),
        rule=f"holds if on every task lean is at most {MARGIN:g} point worse, by its 95 % interval; not if one is more",
        judge=_each_task,
        scale=f"{SMALL_BERT}; 5 of 8 tasks",
        test="leanformer glue runs/compare-crammed-bert",
        at_scale=hours([BERT], "the Pile, and GLUE after it"),
    ),
    Stated(
        id="table-1-pretraining",
        extension=True,
        where="Section 4.2",
        statement="Crammed BERT with fewer layers and more heads performs as the original does in pre-training.",
        rule=HELD,
        judge=verdict("compare-crammed-bert"),
        scale=SMALL_BERT,
        test="leanformer compare crammed-bert",
        at_scale=hours([BERT], "the Pile"),
    ),
    Stated(
        id="table-1-heads",
        where="Section 4.2",
        statement="More heads lead to better performance of Crammed BERT.",
        rule=GAIN + "; in pre-training and on GLUE",
        judge=all_of(arms("compare-crammed-bert", "lean", "shallow"), _glue("shallow")),
        scale=SMALL_BERT,
        test="leanformer compare crammed-bert",
    ),
    *_counted(BERT, "Table 1"),
    Stated(
        id="table-2-loss",
        where="Table 2, Section 4.2",
        statement="GPT-2 with 4 layers of 16 heads has a lower validation loss than with 12 of 12.",
        printed=_printed(_rows(GPT), "validation_loss"),
        rule=GAIN + EVERY,
        judge=_stories("original"),
        scale=SMALL_GPT,
        test="leanformer compare tinystories",
        at_scale=hours([GPT], "TinyStories"),
    ),
    Stated(
        id="table-2-code",
        extension=True,
        where="Table 2, Section 4.2",
        statement="The same holds for another corpus: Python's own source.",
        rule=GAIN,
        judge=first_of(arms("paper/table-2-pycode", "lean", "original"), arms("compare-pycode", "lean", "original")),
        scale="Python's standard library, GPT-2 of width 128",
        test="leanformer compare pycode",
    ),
    Stated(
        id="table-2-heads",
        extension=True,
        where="Section 4.2",
        statement="The heads make up for the layers in GPT-2: lean is better than the shallow model without them.",
        rule=GAIN + EVERY,
        judge=_stories("shallow"),
        scale=SMALL_GPT,
        test="leanformer compare tinystories",
    ),
    *_counted(GPT, "Table 2"),
    *(claim for task in TASKS for claim in _arena(task)),
    *BASELINES,
    *_figure(8, "ListOps"),
    *_figure(9, "text"),
)
