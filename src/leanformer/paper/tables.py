"""The paper's tables as commands: printed values beside a recount and beside what training at laptop scale gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leanformer.experiments.comparison import compare, place_of
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.hooks import Say
from leanformer.foundation.formats import decimals, parameters
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import publish
from leanformer.paper.drawn import PaperTable, Plan, PlannedDesign, Scale
from leanformer.paper.record import Scorecard
from leanformer.paper.scorecard import paper

RECORD = "table.json"
TITLES = {
    1: "Crammed BERT on GLUE",
    2: "GPT-2 on TinyStories",
    3: "Nyströmformers on the Long-Range Arena",
    4: "base image models on ImageNet-1k",
    5: "large image models on ImageNet-1k",
    6: "settings of all image models",
}
RECIPES: dict[int, tuple[str, ...]] = {
    1: ("crammed-bert",),
    2: ("tinystories", "pycode"),
    3: ("listops", "text", "retrieval", "image", "pathfinder"),
}
"""What is trained at laptop scale. Tables 4 and 5 have no small version: their models take images of 224 × 224."""
COMMANDS = {
    1: "torchrun --nproc-per-node 8 -m leanformer compare crammed-bert-paper, then leanformer glue",
    2: "leanformer compare tinystories-paper --data DIR",
    3: "leanformer compare TASK-paper, for each task",
    4: "torchrun --nproc-per-node 8 -m leanformer compare imagenet-MODEL --data DIR, for each model",
    5: "torchrun --nproc-per-node 8 -m leanformer compare imagenet-MODEL --data DIR, for each model",
}
DATA = {
    1: "the Pile and GLUE",
    2: "TinyStories",
    3: "the Long-Range Arena",
    4: "ImageNet-1k",
    5: "ImageNet-1k",
}


def table(
    number: int,
    *,
    scale: Scale = "laptop",
    recipes: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    steps: int | None = None,
    data: str | Path | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
    say: Say | None = None,
) -> PaperTable:
    """One table of the paper: printed, recounted, and trained at laptop scale or planned at the paper's.

    Args:
        number: 1 to 6.
        scale: "laptop" trains what the folder lacks; "paper" says what the paper's own trainings would take.
        recipes: which of the table's laptop recipes, such as "listops,text" [default: all].
        out: the folder [default: runs/paper-table-NUMBER]. The same call resumes what was stopped.
        report: whether to write pages and figures of the comparisons too.
        seeds, steps, data, jobs, progress, say: as for `lf.compare`.
    """
    if number not in TITLES:
        raise ValueError(f"the tables are {', '.join(map(str, TITLES))}, got {number}")
    if scale not in ("laptop", "paper"):
        raise ValueError(f"scale must be laptop or paper, got {scale!r}")
    chosen = _chosen(number, recipes)
    folder = place_of(out, f"paper-table-{number}")
    if number == 6:
        record = _settings()
    else:
        counted = paper(table=f"Tab. {number}")
        found = {
            name: compare(
                name,
                seeds=seeds,
                steps=steps,
                data=data,
                jobs=jobs,
                out=folder / name,
                report=report,
                progress=progress,
                say=say,
            )
            for name in (chosen if scale == "laptop" else ())
        }
        record = made(number, scale, counted, found)
    if is_first_process():
        publish(record, folder / RECORD, report=report, say=say or (lambda words: None))
    return record


def _chosen(number: int, recipes: str | Sequence[str] | None) -> tuple[str, ...]:
    known = RECIPES.get(number, ())
    asked = tuple(recipes.split(",")) if isinstance(recipes, str) else tuple(recipes or known)
    if unknown := [name for name in asked if name not in known]:
        there = f"it has {', '.join(known)}" if known else "it has none at laptop scale"
        raise ValueError(f"Table {number} has no recipe {', '.join(unknown)}; {there}")
    return asked


HEAD = ("", "model", "layers", "heads", "parameters", "score", "memory")


def made(number: int, scale: Scale, counted: Scorecard, found: dict[str, Comparison]) -> PaperTable:
    """The table of recounted rows, and of comparisons at laptop scale."""
    rows: list[tuple[str, ...]] = []
    for row in counted.rows:
        if row.variant == "control":
            continue
        extra: dict[str, Any] = dict(row.printed.__pydantic_extra__ or {})
        gigabytes = extra.pop("memory_gb", None)
        score = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in extra.items())
        layers, heads = _show(row.printed.depth), _show(row.printed.heads)
        printed = "–" if gigabytes is None else f"{gigabytes:g} GB"
        rows.append(
            ("printed", f"{row.model}, {row.variant}", layers, heads, row.printed.params or "–", score, printed)
        )
        memory = (
            f"{row.memory.counted_gb:.1f} GB"
            if row.memory
            else f"{row.training.memory_gb:.1f} GB"
            if row.training
            else "–"
        )
        rows.append(("counted", row.reading, layers, heads, f"{row.params:,}", "–", memory))
    words = [counted.summary]
    for name, record in found.items():
        unit = record.metric.unit
        for arm, result in record.arms.items():
            design = result.architecture
            score = "–" if result.score is None else f"{result.score.mean:.{decimals(unit)}f} {unit}"
            layers, heads = (f"{design.depth}", f"{design.stages[0].heads}") if design else ("–", "–")
            cells = (layers, heads, parameters(result.params), score, "–")
            rows.append((f"{name}, here", arm, *cells))
        words.append(f"{name}: {record.verdict.words}.")
    designs = tuple(
        PlannedDesign(design=f"{row.model}, {row.variant}", params=row.params, hours=row.training.hours)
        for row in counted.rows
        if row.training is not None
    )
    device = next((row.training.device for row in counted.rows if row.training is not None), "a100")
    return PaperTable(
        number=number,
        title=TITLES[number],
        scale=scale,
        head=HEAD,
        rows=tuple(rows),
        words=tuple(words),
        plan=Plan(device=device, data=DATA[number], command=COMMANDS[number], designs=designs),
        **fields_of(circumstances()),
    )


def _show(numbers: int | tuple[int, ...]) -> str:
    return str(numbers) if isinstance(numbers, int) else " ".join(map(str, numbers))


def _settings() -> PaperTable:
    """Table 6 beside our recipes."""
    record = paper()
    rows = [row for row in record.settings if "Table 6" in row.source]
    return PaperTable(
        number=6,
        title=TITLES[6],
        scale="paper",
        head=("setting", "as Table 6 gives it", "our recipes"),
        rows=tuple((row.setting, row.cited, "the same" if row.same else "differ") for row in rows),
        words=(
            "Batches are those of base and of large models; steps follow from the printed epochs. It does not name "
            "the schedule after the warm-up, or clipping.",
        ),
        **fields_of(circumstances()),
    )
