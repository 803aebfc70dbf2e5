"""`leanformer glue`: fine-tuning after pre-training."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, count, messages, names, output


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
    from leanformer.records.files import plain
    from leanformer.report import glue as report
    from leanformer.report.page import sentence
    from leanformer.tasks.sentence_classes import GLUE_TASKS

    folder = out or start / "glue"
    with RunsProgress(messages) as progress:
        record = run(
            start,
            tasks=names(tasks) or list(GLUE_TASKS),
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
