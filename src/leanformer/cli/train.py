"""`leanformer train`: one run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, Out, Seed, app, messages, output


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe, or the folder of a run to go on with.")] = "digits",
    arm: Annotated[str, typer.Option(help="Which model: original, lean, shallow or wide.")] = "lean",
    seed: Seed = 0,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder with the data [default: LEANFORMER_DATA].")] = None,
    model: Annotated[str | None, typer.Option(help="Another original; lean is what `design` recommends.")] = None,
    settings: Annotated[
        list[str], typer.Option("--set", help='Any setting, as in "training.lr=1e-3" or "task.shift=2".')
    ] = [],  # noqa: B006
    log_with: Annotated[str, typer.Option(help="tensorboard, trackio or wandb.")] = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """One run: a model of a recipe, trained, checkpointed and saved; the same command goes on where it stopped.

    The trained model is in OUT/model: `leanformer measure OUT` shows its conditioning, `lf.from_pretrained` loads it.
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments import recipes
    from leanformer.experiments.overrides import adjusted
    from leanformer.machine import from_first_process, is_first_process
    from leanformer.tasks import load
    from leanformer.training.loop import train as run_training
    from leanformer.training.run import Run, read_run, write_run

    folder = Path(recipe)
    if (folder / "run.json").is_file():
        run = read_run(folder)
    else:
        chosen = adjusted(recipes.recipe(recipe), data=data, model=model, settings=settings, training={"steps": steps})
        chosen = chosen.fitted(load(chosen.task).options)
        run = Run(
            name=arm,
            architecture=chosen.architecture(arm),
            task=chosen.task,
            training=chosen.training,
            seed=seed,
        )
        folder = out or Path("runs") / f"train-{recipe}-{arm}-{seed}"
        from_first_process(lambda: write_run(run, folder))
    with RunsProgress(messages) as progress:
        progress.planned({run.name: run.training.steps}, [(run.name, run.seed)])
        result = run_training(
            folder,
            load(run.task),
            say=progress.say,
            progress=lambda step, loss: progress.hear(
                run.name, run.seed, {"event": "progress", "step": step, "loss": loss}
            ),
            log_with=log_with,
        )
    if not is_first_process():
        return
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        scores = ", ".join(f"{key} {value:.4g}" for key, value in result["final"].items() if key != "step")
        output.print(f"{run.name}, seed {run.seed}, {result['params']:,} parameters: {scores}", highlight=False)
    messages.print(f"written: {folder}/model, result.json, checkpoints/", style="dim", highlight=False)
