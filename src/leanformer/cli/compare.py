"""`leanformer compare`: arms × seeds, and the verdict."""

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
    names,
    print_record,
    print_written,
    writable,
)

if TYPE_CHECKING:
    from leanformer.experiments.comparison_records import Comparison


@app.command()
def compare(
    recipe: RecipeName = "digits",
    arms: Annotated[str, typer.Option(help='Of "original,lean,shallow,wide" [default: the recipe\'s].')] = "",
    seeds: Seeds = None,
    steps: Steps = None,
    batch: Batch = None,
    lr: Rate = None,
    budget: Annotated[
        str | None, typer.Option(help='Held equal: steps, epochs, tokens, flops, time; or with an amount, "time=10m".')
    ] = None,
    margin: Annotated[float | None, typer.Option(min=0, help="By how much a model may be worse and hold.")] = None,
    data: UserData = None,
    model: OtherModel = None,
    original: Original = "",
    lean: Annotated[str, typer.Option(help='Sizes of the lean model, as in "depth=4,heads=8,regime=split".')] = "",
    start: Annotated[str, typer.Option(help="A comparison whose trained models these begin with.")] = "",
    arm: Annotated[list[str], typer.Option(help='One more arm, as in "narrow:heads=2,mlp_dim=64"; repeatable.')] = [],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    log_with: Annotated[str, typer.Option(help="tensorboard, trackio or wandb.")] = "",
    jobs: Jobs = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """The main job: train original, lean and control side by side, and say what holds.

    Every arm is trained with every seed on the same batches. The control, `shallow`, has lean's depth and the
    original's layers: it separates what heads do from what depth does.

    The same command resumes a comparison that was stopped; more `--seeds` or `--arms` add to what is there.
    Several GPUs or hosts: `torchrun --nproc-per-node 8 -m leanformer compare …`
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments import recipes
    from leanformer.experiments.comparison import compare as run
    from leanformer.experiments.overrides import adjusted
    from leanformer.foundation.machine import is_first_process

    with messages.status("reading the recipe"):
        chosen = adjusted(
            recipes.recipe(recipe),
            data=data,
            model=model,
            original=original,
            lean=lean,
            arms=arm,
            settings=settings,
            start=start,
            training={"steps": steps, "batch": batch, "lr": lr, "precision": precision},
        )
    folder = writable(out or Path("runs") / f"compare-{chosen.name}")
    listed = names(arms)
    with RunsProgress(messages) as progress:
        record = run(
            chosen,
            out=folder,
            arms=None if listed is None else [*listed, *(item.partition(":")[0] for item in arm)],
            seeds=seeds,
            budget=budget,
            margin=margin,
            jobs=jobs,
            log_with=log_with,
            **progress.hooks,
        )
    if is_first_process():
        show_comparison(record, folder, as_json)


def show_comparison(record: "Comparison", folder: Path, as_json: bool) -> None:
    """Print the record or its table and verdict; write the report."""
    from leanformer.report import comparison, page

    pages = page.write(record, folder)
    print_record(record, comparison.table, as_json, without=("runs",))
    print_written(f"{pages[0]}, {pages[1].name}, figures/")
    if record.failures:
        raise typer.Exit(1)
