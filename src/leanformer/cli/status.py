"""`leanformer status` and `leanformer jobs`: what runs, what is open, and one command for each open run."""

import time
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, output, print_json, show

SECONDS = 2.0
"""Between two looks."""

Study = Annotated[str, typer.Argument(metavar="STUDY", help="The folder or URL of a comparison, a sweep or GLUE.")]


@app.command()
def status(
    study: Study,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds until all runs are over.")] = False,
    as_json: AsJson = False,
) -> None:
    """Which runs of a study are waiting, training, stopped, failed or done. Nothing is changed.

    For a run in training, it shows the host and process, the step, the speed and the remaining time.
    """
    from leanformer.experiments.status import status as look

    found = look(study)
    if not watch:
        show(found, as_json)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from leanformer.foundation.records.views import view_of

    view = view_of(found.kind)
    with Live(console=output, auto_refresh=False, transient=False) as live:
        while True:
            live.update(Group(view.table(found), *(Text(line) for line in view.sentences(found))), refresh=True)
            if found.is_over:
                return
            time.sleep(SECONDS)
            found = look(study)


@app.command()
def jobs(study: Study, as_json: AsJson = False) -> None:
    """One command for each open run of a study, one per line: for SLURM arrays, Kubernetes jobs, GNU parallel or ssh.

    Every command may be started on any host that sees the folder, in any order and more than once. It resumes from the
    last checkpoint, and leaves alone what is done. SIGTERM and SIGUSR1 write a checkpoint and end it with exit code 75,
    which means: start it again. When all are done, `leanformer report STUDY` gives the verdict.

    `leanformer jobs STUDY | parallel -j 4`
    """
    from leanformer.experiments.status import open_commands

    commands = open_commands(study)
    if as_json:
        print_json(commands)
        return
    for command in commands:
        print(command)
