"""`leanformer sweep`: grids of designs and settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Out, app, count, messages, output


@app.command()
def sweep(
    recipe: Annotated[str, typer.Argument(help="What to run; `leanformer recipes` lists them.")] = "farthest",
    vary: Annotated[
        list[str], typer.Option(help='An axis of the grid, as in "heads=1,2,4,8" or "task.points=16,64".')
    ] = [],  # noqa: B006
    equal_params: Annotated[
        bool | None, typer.Option("--equal-params/--any-params", help="Let MLPs make up for what heads cost.")
    ] = None,
    seeds: Annotated[str, typer.Option(help='How many, such as "5" [default: the recipe\'s].')] = "",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples of a step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder with the data [default: LEANFORMER_DATA].")] = None,
    model: Annotated[str | None, typer.Option(help="Another original.")] = None,
    original: Annotated[str, typer.Option(help='Sizes of the original, as in "depth=8,heads=4".')] = "",
    settings: Annotated[
        list[str], typer.Option("--set", help='Any setting, as in "training.clip=0.5" or "task.shift=2".')
    ] = [],  # noqa: B006
    jobs: Annotated[int | None, typer.Option(help="Runs at a time [default: one per GPU or core].")] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A grid: every combination of sizes and settings with every seed, drawn as lines with intervals.

    `--vary` names depth, heads, head_dim, mlp_dim, width, groups (of heads that fill the width), regime (fixed keeps
    head_dim, split keeps the width), or any setting; the first is drawn along, the second gives lines, others panels.
    Without it, the recipe's own grid is run: `sweep farthest` is Figure 1 of "Quality over Quantity" at a quarter of
    its dimension (`sweep farthest-paper` at its own), `sweep fashion-mnist` and `sweep tinystories` set heads that
    keep their size against heads that split the width.

    The same command goes on where it was stopped; more values or seeds add to what is there.
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments import recipes
    from leanformer.experiments.overrides import adjusted, axes
    from leanformer.experiments.sweep import sweep as run
    from leanformer.machine import is_first_process

    with messages.status("reading the recipe"):
        chosen = adjusted(
            recipes.recipe(recipe),
            data=data,
            model=model,
            original=original,
            settings=settings,
            training={"steps": steps, "batch": batch, "lr": lr},
        )
    folder = out or Path("runs") / f"sweep-{recipe}"
    with RunsProgress(messages) as progress:
        record = run(
            chosen,
            vary=axes(vary) if vary else None,
            equal_params=equal_params,
            out=folder,
            seeds=count("--seeds", seeds) if seeds else None,
            jobs=jobs,
            say=progress.say,
            planned=lambda plan, runs: progress.planned(plan.steps, runs),
            listen=progress.hear,
        )
    if is_first_process():
        show_sweep(record, folder, as_json)


def show_sweep(record: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print the record or its table and words; write the page and the figure."""
    from leanformer.records.files import plain
    from leanformer.report import sweep
    from leanformer.report.page import sentence

    record = plain(record)
    files = sweep.write(record, folder)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        output.print(sweep.table(record))
        for line in sweep.words(record):
            output.print(sentence(line), highlight=False, soft_wrap=True, markup=False)
    messages.print(
        f"written: {folder}/sweep.json, {', '.join(file.name for file in files)}", style="dim", highlight=False
    )
    if any(cell["diverged"] for cell in record["cells"]):
        raise typer.Exit(1)
