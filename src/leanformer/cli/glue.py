"""`leanformer glue`: fine-tuning after pre-training."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import (
    AsJson,
    Jobs,
    Seeds,
    Settings,
    app,
    messages,
    names,
    print_record,
    print_written,
    writable,
)


@app.command()
def glue(
    start: Annotated[Path, typer.Argument(help="The folder of a finished `leanformer compare crammed-bert`.")],
    tasks: Annotated[str, typer.Option(help='Which, such as "sst2,rte" [default: all eight].')] = "",
    seeds: Seeds = None,
    data: Annotated[str | None, typer.Option(help="Folder that holds glue/ [default: LEANFORMER_DATA].")] = None,
    budget: Annotated[str | None, typer.Option(help='Of each task [default: "epochs=5"].')] = None,
    settings: Settings = [],  # noqa: B006
    jobs: Jobs = None,
    out: Annotated[Path | None, typer.Option(help="Folder [default: START/glue].", file_okay=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Fine-tune pre-trained models on GLUE: every available task, every arm, a table with intervals.

    Tasks whose data are missing are named as missing, and are in no average. The same command resumes.
    """
    from leanformer.cli.progress import RunsProgress
    from leanformer.data.glue import GLUE_TASKS
    from leanformer.experiments.glue import glue as run
    from leanformer.foundation.machine import is_first_process
    from leanformer.report import glue as report

    folder = out or start / "glue"
    if out is not None or start.is_dir():
        writable(folder)
    with RunsProgress(messages) as progress:
        record = run(
            start,
            tasks=names(tasks) or list(GLUE_TASKS),
            out=folder,
            seeds=seeds,
            data=data,
            settings=settings,
            budget=budget,
            jobs=jobs,
            **progress.hooks,
        )
    if not is_first_process():
        return
    page = report.write(record, folder)
    print_record(record, report.table, as_json)
    print_written(f"{folder}/glue.json, {page.name}")
