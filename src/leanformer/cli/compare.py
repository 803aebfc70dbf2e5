"""`leanformer compare`: arms × seeds, and the verdict."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Out, app, count, messages, names, output


@app.command()
def compare(
    recipe: Annotated[str, typer.Argument(help="What to run; `leanformer recipes` lists them.")] = "digits",
    arms: Annotated[str, typer.Option(help='Of "original,lean,shallow,wide" [default: the recipe\'s].')] = "",
    seeds: Annotated[str, typer.Option(help='How many, such as "5" [default: the recipe\'s].')] = "",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps of the original.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples of a step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    budget: Annotated[
        str | None, typer.Option(help='Held equal: steps, epochs, tokens, flops, time; or with an amount, "time=10m".')
    ] = None,
    margin: Annotated[float | None, typer.Option(help="By how much a model may be worse and hold.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder with the data [default: LEANFORMER_DATA].")] = None,
    model: Annotated[str | None, typer.Option(help="Another original; lean is what `design` recommends.")] = None,
    original: Annotated[str, typer.Option(help='Sizes of the original, as in "depth=8,heads=4".')] = "",
    lean: Annotated[str, typer.Option(help='Sizes of the lean model, as in "depth=4,heads=8,keep=width".')] = "",
    start: Annotated[str, typer.Option(help="A comparison whose trained models these begin with.")] = "",
    arm: Annotated[list[str], typer.Option(help='One more arm, as in "narrow:heads=2,mlp_dim=64".')] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", help='Any setting, as in "training.clip=0.5" or "task.shift=2".')
    ] = [],  # noqa: B006
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time [default: one per GPU or core].")] = None,
    log_with: Annotated[str, typer.Option(help="tensorboard, trackio or wandb.")] = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """The main job: train original, lean and control side by side, and say what holds.

    Every arm runs with every seed, on the same batches. The verdict compares lean with the original, and with
    `shallow` (lean's depth, the original's layers), so that what heads do is told from what depth does.

    The same command goes on where it was stopped, however that was; more `--seeds` or `--arms` add to what is there.
    Several GPUs or hosts: `torchrun --nproc-per-node 8 -m leanformer compare …`
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments import recipes
    from leanformer.experiments.comparison import compare as run
    from leanformer.experiments.overrides import adjusted
    from leanformer.machine import is_first_process

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
    folder = out or Path("runs") / f"compare-{recipe}"
    with RunsProgress(messages) as progress:
        record = run(
            chosen,
            out=folder,
            arms=[*(name.strip() for name in arms.split(",")), *chosen.others] if arms and arm else names(arms),
            seeds=count("--seeds", seeds) if seeds else None,
            budget=budget,
            margin=margin,
            jobs=jobs,
            log_with=log_with,
            say=progress.say,
            planned=lambda plan, runs: progress.planned(plan.steps, runs),
            listen=progress.hear,
        )
    if is_first_process():
        show_comparison(record, folder, as_json)


def show_comparison(record: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print the record or its table and verdict; write the report."""
    from leanformer.records.files import plain
    from leanformer.report import comparison, page

    pages = page.write(plain(record), folder)
    if as_json:
        print(json.dumps(plain({key: value for key, value in record.items() if key != "runs"}), indent=2))
    else:
        output.print(comparison.table(record))
        for line in comparison.words(record):
            output.print(page.sentence(line), highlight=False, soft_wrap=True, markup=False)
    messages.print(f"written: {pages[0]}, {pages[1].name}, figures/", style="dim", highlight=False, soft_wrap=True)
    if record["failures"]:
        raise typer.Exit(1)
