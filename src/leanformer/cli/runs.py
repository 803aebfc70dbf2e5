"""Commands that train, and what comes of it: compare, sweep, train, report, recipes, glue, generate."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Out, Seed, app, count, messages, output


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
    from leanformer.machine import is_first

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
            arms=[*(name.strip() for name in arms.split(",")), *chosen.others] if arms and arm else _names(arms),
            seeds=count("--seeds", seeds) if seeds else None,
            budget=budget,
            margin=margin,
            jobs=jobs,
            log_with=log_with,
            say=progress.say,
            planned=lambda plan, runs: progress.planned(plan.steps, runs),
            listen=progress.hear,
        )
    if is_first():
        _show_comparison(record, folder, as_json)


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
    from leanformer.machine import is_first

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
    if is_first():
        _show_sweep(record, folder, as_json)


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
    from leanformer.machine import from_first, is_first
    from leanformer.runners.workers import load
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
        from_first(lambda: write_run(run, folder))
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
    if not is_first():
        return
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        scores = ", ".join(f"{key} {value:.4g}" for key, value in result["final"].items() if key != "step")
        output.print(f"{run.name}, seed {run.seed}, {result['params']:,} parameters: {scores}", highlight=False)
    messages.print(f"written: {folder}/model, result.json, checkpoints/", style="dim", highlight=False)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="The folder of a comparison or of a sweep, or its record.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the pages [default: the first's own].")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a comparison's report again: report.html, report.md and figures as PNG, SVG and PDF; or a sweep's.

    Of a folder with runs, the record is made anew, with whatever has finished since; a record alone is enough too.
    Several sweeps are drawn side by side, in one figure.
    """
    from leanformer.experiments import sweep as sweeping
    from leanformer.experiments.comparison import read_record, write_record
    from leanformer.report import figures, sweep

    run = runs[0]
    folder = out or (run if run.is_dir() else run.parent)
    if len(runs) > 1:
        if as_json:
            raise ValueError("--json is for one folder: several are drawn side by side")
        files = figures.save(sweep.side_by_side([sweeping.read_record(path) for path in runs]), folder / "sweeps")
        messages.print(f"written: {', '.join(map(str, files))}", style="dim", highlight=False, soft_wrap=True)
    elif sweeping.is_sweep(run):
        swept = sweeping.read_record(run)
        sweeping.write_record(swept, folder)
        _show_sweep(swept, folder, as_json)
    else:
        record = read_record(run)
        write_record(record, folder)
        _show_comparison(record, folder, as_json)


@app.command()
def recipes(
    name: Annotated[str, typer.Argument(help="Show only this one.")] = "",
    as_json: AsJson = False,
) -> None:
    """The recipes that `compare` takes, each with its command, its time and what to expect."""
    import inspect

    from leanformer.experiments import recipes as listed

    texts = {key: inspect.getdoc(listed.function(key)) or "" for key in ([name] if name else listed.names())}
    if as_json:
        print(json.dumps(texts, indent=2))
        return
    for key, text in texts.items():
        output.print(f"[bold]{key}[/]  {text if name else text.splitlines()[0]}", highlight=False)


@app.command()
def glue(
    start: Annotated[Path, typer.Argument(help="The folder of a finished `leanformer compare crammed-bert`.")],
    tasks: Annotated[str, typer.Option(help='Which, such as "sst2,rte" [default: all eight].')] = "",
    seeds: Annotated[str, typer.Option(help="How many [default: 3].")] = "",
    data: Annotated[str | None, typer.Option(help="Folder that holds glue/ [default: LEANFORMER_DATA].")] = None,
    budget: Annotated[str | None, typer.Option(help='Of each task [default: "epochs=5"].')] = None,
    settings: Annotated[list[str], typer.Option("--set", help='Any setting, as in "training.lr=1e-4".')] = [],  # noqa: B006
    jobs: Annotated[int | None, typer.Option(help="Runs at a time [default: one per GPU or core].")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder [default: START/glue].", file_okay=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Fine-tune pre-trained models on GLUE: every task at hand, every arm, a table with intervals.

    Tasks whose data are missing are named as missing, and are in no average. Goes on where it was stopped.
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.experiments.glue import glue as run
    from leanformer.records.base import plain
    from leanformer.report import glue as report
    from leanformer.report.page import sentence
    from leanformer.tasks.sentence_classes import TASKS

    folder = out or start / "glue"
    with RunsProgress(messages) as progress:
        record = run(
            start,
            tasks=_names(tasks) or list(TASKS),
            out=folder,
            seeds=count("--seeds", seeds) if seeds else None,
            data=data,
            settings=settings,
            budget=budget,
            jobs=jobs,
            say=progress.say,
            planned=lambda plan, runs: progress.planned(plan.steps, runs),
            listen=progress.hear,
        )
    if as_json:
        print(json.dumps(plain(record), indent=2))
    else:
        output.print(report.table(record))
        for line in report.words(record):
            output.print(sentence(line), highlight=False, soft_wrap=True, markup=False)
    (folder / "glue.md").write_text(report.markdown(record), encoding="utf-8")
    messages.print(f"written: {folder}/glue.json, glue.md", style="dim", highlight=False, soft_wrap=True)


@app.command()
def generate(
    run: Annotated[Path, typer.Argument(help="A run on texts, or a saved causal model with its tokenizer.json.")],
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "Once upon a time",
    tokens: Annotated[int, typer.Option(help="How many to write at most.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest; 1 draws as the model says.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Draw from so many likeliest tokens.")] = 50,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let a trained language model write, so that a person can read what it learned."""
    from leanformer.models.generation import generate as write

    pieces = write(run, prompt, tokens, temperature, top_k, seed)
    if as_json:
        print(json.dumps({"prompt": prompt, "text": "".join(pieces), "seed": seed}, indent=2))
        return
    first = next(pieces, "")  # a mistake is told before anything is printed
    print(prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _names(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def _show_sweep(record: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print the record or its table and words; write the page and the figure."""
    from leanformer.records.base import plain
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


def _show_comparison(record: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print the record or its table and verdict; write the report."""
    from leanformer.records.base import plain
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
