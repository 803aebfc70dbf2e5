"""`leanformer glue`: fine-tuning after pre-training."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import (
    DATA,
    OUTPUT,
    TRAINING,
    AsJson,
    Cpus,
    Gpus,
    Jobs,
    Memory,
    On,
    Retries,
    Seeds,
    Settings,
    app,
    given,
    show,
)


@app.command()
def glue(
    start: Annotated[
        Path, typer.Argument(metavar="START", help="The folder of a finished `leanformer compare crammed-bert`.")
    ],
    tasks: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help='Tasks, such as "sst2,rte" [default: all eight].', rich_help_panel=DATA),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Folder that holds glue/ [default: LEANFORMER_DATA].", rich_help_panel=DATA
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[=AMOUNT]", help='Budget of each task [default: "epochs=5"].', rich_help_panel=TRAINING
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    seeds: Seeds = None,
    on: On = None,
    jobs: Jobs = None,
    retries: Retries = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder [default: START/glue].", file_okay=False, rich_help_panel=OUTPUT),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fine-tune pre-trained models on GLUE: every available task, every arm, a table with intervals.

    Tasks whose data are missing are listed as missing, and are left out of averages. The same command resumes.
    """
    arguments = given(locals())
    from leanformer.experiments.glue import glue as run
    from leanformer.foundation.machine import is_first_process

    record = run(**arguments, progress=True)
    if is_first_process():
        show(record, as_json)
