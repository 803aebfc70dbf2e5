"""`leanformer train`: one run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leanformer.cli.completion import complete_arms, complete_recipes
from leanformer.cli.shared import (
    MODELS,
    AsJson,
    DryRun,
    HeldOut,
    LabelColumn,
    LogWith,
    OtherModel,
    Out,
    Seed,
    Settings,
    SkipBad,
    Steps,
    TextColumn,
    UserData,
    app,
    output,
    print_json,
    print_models,
    print_written,
    show_forecast,
)
from leanformer.foundation.arguments import ArgumentError, writable

if TYPE_CHECKING:
    from leanformer.training.result import Result


def refuse_choices(choices: Mapping[str, Any]) -> None:
    """A run's folder says what is trained on what; a choice beside it would be ignored."""
    if named := [name for name, value in choices.items() if value is not None]:
        raise ArgumentError(f"{{{named[0]}}} does not go with the folder of a run, which says it already: leave it out")


def show_result(result: "Result", as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
    else:
        scores = ", ".join(f"{key} {value:.4g}" for key, value in result.final.items() if key != "step")
        output.print(f"{result.name}, seed {result.seed}, {result.params:,} parameters: {scores}", highlight=False)


@app.command()
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe, or the folder of a run to resume.",
            autocompletion=complete_recipes,
        ),
    ] = "digits",
    arm: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which model: original, lean, shallow or wide.",
            autocompletion=complete_arms,
            rich_help_panel=MODELS,
        ),
    ] = "lean",
    seed: Seed = 0,
    steps: Steps = None,
    data: UserData = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    held_out: HeldOut = None,
    skip_bad: SkipBad = None,
    model: OtherModel = None,
    settings: Settings = [],  # noqa: B006
    log_with: LogWith = "",
    dry_run: DryRun = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """One run: a model of a recipe, trained, checkpointed and saved. The same command resumes a run that was stopped.

    The trained model is in OUT/model: `leanformer measure OUT` shows its conditioning, `lf.from_pretrained` loads it.
    """
    from leanformer import tasks
    from leanformer.experiments import recipes
    from leanformer.experiments.overrides import adjusted
    from leanformer.experiments.plan import read_planned_run
    from leanformer.foundation.machine import from_first_process, is_first_process
    from leanformer.foundation.progress import RunsProgress
    from leanformer.foundation.storage import local, shown
    from leanformer.runners.base import in_storage
    from leanformer.training.loop import train as run_training
    from leanformer.training.run import Run, is_run, write_run

    folder = local(recipe)
    if is_run(folder):
        choices = dict(data=data, text_column=text_column, label_column=label_column, held_out=held_out, model=model)
        refuse_choices(choices | dict(skip_bad=skip_bad, steps=steps, settings=settings or None, dry_run=dry_run))
        run = read_planned_run(folder)
    else:
        chosen = adjusted(
            recipes.recipe(recipe),
            data=data,
            text_column=text_column,
            label_column=label_column,
            held_out=held_out,
            skip_bad=skip_bad,
            model=model,
            settings=settings,
            steps=steps,
        )
        chosen = chosen.fitted(tasks.load(chosen.task).options)
        run = Run(
            name=arm,
            architecture=chosen.architecture(arm),
            task=chosen.task,
            training=chosen.training,
            seed=seed,
        )
        folder = writable(out or Path("runs") / f"train-{chosen.name}-{arm}-{seed}")
        if dry_run:
            from leanformer.experiments.forecast import forecast_run

            show_forecast(forecast_run(run), as_json)
            return
        from_first_process(lambda: write_run(run, folder))
    with RunsProgress(True) as progress, in_storage(folder) as saved:
        progress.planned({run.name: run.training.steps}, [(run.name, run.seed)])
        result = run_training(
            folder,
            tasks.load(run.task),
            say=progress.say,
            progress=lambda step, loss: progress.hear(
                run.name, run.seed, {"event": "progress", "step": step, "loss": loss}
            ),
            log_with=log_with,
            saved=saved,
        )
    if not is_first_process():
        return
    show_result(result, as_json)
    print_written(f"{shown(folder)}/model, result.json, checkpoints/")
    print_models(str(folder))
