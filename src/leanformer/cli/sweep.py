"""`leanformer sweep`: grids of designs and settings."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from leanformer.cli.shared import (
    MODELS,
    AsJson,
    Batch,
    Cpus,
    DryRun,
    Gpus,
    HeldOut,
    Jobs,
    LabelColumn,
    Memory,
    On,
    Original,
    OtherModel,
    OutOrUrl,
    PlanOnly,
    Precision,
    Rate,
    RecipeName,
    Retries,
    Seeds,
    Settings,
    SkipBad,
    Steps,
    TextColumn,
    UserData,
    app,
    given,
    show,
    show_forecast,
    show_planned,
)

if TYPE_CHECKING:
    from leanformer.experiments.sweep_records import Sweep


@app.command()
def sweep(
    recipe: RecipeName = "farthest",
    data: UserData = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    held_out: HeldOut = None,
    skip_bad: SkipBad = None,
    model: OtherModel = None,
    original: Original = None,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES",
            help='An axis of the grid, as in "heads=1,2,4,8" or "task.points=16,64"; repeatable.',
            rich_help_panel=MODELS,
        ),
    ] = [],  # noqa: B006
    equal_params: Annotated[
        bool | None,
        typer.Option(
            "--equal-params/--any-params",
            help="Let MLPs make up for what heads cost, or not [default: as the recipe says].",
            rich_help_panel=MODELS,
        ),
    ] = None,
    steps: Steps = None,
    batch: Batch = None,
    lr: Rate = None,
    precision: Precision = None,
    settings: Settings = [],  # noqa: B006
    seeds: Seeds = None,
    on: On = None,
    jobs: Jobs = None,
    retries: Retries = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    dry_run: DryRun = None,
    plan_only: PlanOnly = None,
    out: OutOrUrl = None,
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
    arguments = given(locals())
    from leanformer.experiments.sweep import sweep as run
    from leanformer.foundation.machine import is_first_process

    record = run(**arguments, progress=True)
    if dry_run:
        show_forecast(cast(Any, record), as_json)
    elif plan_only:
        show_planned(cast(Any, record), as_json)
    elif is_first_process():
        show_sweep(record, as_json)


def show_sweep(record: "Sweep", as_json: bool) -> None:
    """Print a sweep; runs that did not finish are a failure of the command."""
    show(record, as_json)
    if any(cell.diverged for cell in record.cells):
        raise typer.Exit(1)
