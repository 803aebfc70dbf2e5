"""`leanformer sweep`: grids of designs and settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanformer.cli.shared import (
    AsJson,
    Batch,
    Jobs,
    Original,
    OtherModel,
    Out,
    Rate,
    RecipeName,
    Seeds,
    Settings,
    Steps,
    UserData,
    app,
    messages,
    print_record,
    print_written,
    writable,
)

if TYPE_CHECKING:
    from leanformer.experiments.sweep_records import Sweep


@app.command()
def sweep(
    recipe: RecipeName = "farthest",
    vary: Annotated[
        list[str], typer.Option(help='An axis of the grid, as in "heads=1,2,4,8" or "task.points=16,64"; repeatable.')
    ] = [],  # noqa: B006
    equal_params: Annotated[
        bool | None, typer.Option("--equal-params/--any-params", help="Let MLPs make up for what heads cost.")
    ] = None,
    seeds: Seeds = None,
    steps: Steps = None,
    batch: Batch = None,
    lr: Rate = None,
    data: UserData = None,
    model: OtherModel = None,
    original: Original = "",
    settings: Settings = [],  # noqa: B006
    jobs: Jobs = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A grid: every combination of sizes and settings with every seed, drawn as lines with intervals.

    `--vary` names depth, heads, head_dim, mlp_dim, width, groups (of heads that fill the width), regime (fixed keeps
    head_dim, split keeps the width), or any setting. Scores are drawn along the first axis; the second gives lines,
    the others panels. Without it, the recipe's own grid is run: `sweep farthest` is Figure 1 of "Quality over Quantity"
    at a quarter of its dimension (`sweep farthest-paper` at its own), `sweep fashion-mnist` and `sweep tinystories`
    compare heads that keep their size with heads that split the width.

    The same command resumes a sweep that was stopped; more values or seeds add to what is there.
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments import recipes
    from leanformer.experiments.overrides import adjusted, axes
    from leanformer.experiments.sweep import sweep as run
    from leanformer.foundation.machine import is_first_process

    with messages.status("reading the recipe"):
        chosen = adjusted(
            recipes.recipe(recipe),
            data=data,
            model=model,
            original=original,
            settings=settings,
            training={"steps": steps, "batch": batch, "lr": lr},
        )
    folder = writable(out or Path("runs") / f"sweep-{chosen.name}")
    with RunsProgress(messages) as progress:
        record = run(
            chosen,
            vary=axes(vary) if vary else None,
            equal_params=equal_params,
            out=folder,
            seeds=seeds,
            jobs=jobs,
            **progress.hooks,
        )
    if is_first_process():
        show_sweep(record, folder, as_json)


def show_sweep(record: "Sweep", folder: Path, as_json: bool) -> None:
    """Print the record or its table and words; write the page and the figure."""
    from leanformer.report import sweep as report

    files = report.write(record, folder)
    print_record(record, report.table, as_json)
    print_written(f"{folder}/sweep.json, {', '.join(file.name for file in files)}")
    if any(cell.diverged for cell in record.cells):
        raise typer.Exit(1)
