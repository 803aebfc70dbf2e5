"""`leanformer explore`: the explorer in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.completion import complete_models
from leanformer.cli.shared import OUTPUT, app, given, print_written


@app.command()
def explore(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="What to show: results and studies [default: runs].")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="P", min=0, max=65535, help="Port of the server [default: 8642 or any free one]."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Only write the design view to one HTML file.",
            dir_okay=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model in that file; repeatable [default: a ViT, a BERT and a GPT-2].",
            autocompletion=complete_models,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """The explorer in the browser: move sliders and see costs, κ and guards; watch studies; read the scorecard.

    It answers on this machine only, reads this folder only and changes nothing. Ctrl-C stops it.
    """
    arguments = given(locals())
    arguments["browser"] = not arguments.pop("no_browser")
    from leanformer.app.explore import explore as run

    written = run(**arguments, progress=True)
    if written is not None:
        print_written(str(written))
