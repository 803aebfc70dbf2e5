"""`leanformer report`: draw a record again."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.compare import show_comparison
from leanformer.cli.shared import AsJson, app, print_written, show
from leanformer.cli.sweep import show_sweep
from leanformer.foundation.arguments import writable


@app.command()
def report(
    folders: Annotated[
        list[str], typer.Argument(help="The folder or URL of a comparison, sweep or GLUE; or its record.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for the pages [default: the first folder].")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a report again: a comparison's report.html, report.md and figures as PNG, SVG and PDF; or a sweep's.

    In a folder with runs, the record is made again, including runs that have finished since. A record alone works too.
    Several sweeps are drawn side by side, in one figure.
    """
    from leanformer.experiments import summary, sweep
    from leanformer.experiments.glue import RECORD, Glue
    from leanformer.foundation.progress import RunsProgress
    from leanformer.foundation.records.keeping import publish
    from leanformer.foundation.storage import local, send
    from leanformer.report.figures.style import save
    from leanformer.report.figures.sweep import side_by_side

    paths, say = [local(folder) for folder in folders], RunsProgress(True).say
    first = paths[0]
    folder = out or (first if first.is_dir() else first.parent)
    if out is not None or first.exists():
        writable(folder)
    if len(folders) > 1:
        if as_json:
            raise ValueError("--json is for one folder: several are drawn side by side")
        files = save(side_by_side([sweep.read_record(path) for path in paths]), folder / "sweeps")
        print_written(", ".join(map(str, files)))
    elif sweep.is_sweep(first):
        swept = sweep.read_record(first)
        publish(swept, folder / sweep.RECORD, say=say)
        show_sweep(swept, as_json)
    elif (first / RECORD).is_file() or first.name == RECORD:
        record = Glue.read(first / RECORD if first.is_dir() else first)
        publish(record, folder / RECORD, say=say)
        show(record, as_json)
    else:
        show_comparison(summary.read_record(first), folder, as_json)
    send(folder)
