"""`leanformer report`: draw a record again."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, messages


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
    from leanformer.cli.compare import show_comparison
    from leanformer.cli.sweep import show_sweep
    from leanformer.experiments import sweep as sweeping
    from leanformer.experiments.comparison import read_record, write_record
    from leanformer.report import sweep
    from leanformer.report.figures import style as figures

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
        show_sweep(swept, folder, as_json)
    else:
        record = read_record(run)
        write_record(record, folder)
        show_comparison(record, folder, as_json)
