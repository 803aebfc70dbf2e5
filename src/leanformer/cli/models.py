"""`leanformer models`: names that can be built."""

from typing import Annotated

import typer
from rich.markup import escape

from leanformer.cli.shared import AsJson, app, output, print_json


@app.command()
def models(
    containing: Annotated[str, typer.Argument(metavar="TEXT", help="Only names that contain this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The model names that every other command and `leanformer.create` take."""
    from leanformer.models.catalogue import matching

    found = matching(containing)
    if as_json:
        print_json(found)
        return
    for family, names in found.items():
        output.print(f"[bold]{escape(family)}[/]  {escape('  '.join(names))}")
