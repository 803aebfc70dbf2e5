"""`leanformer recipes`: what can be compared."""

from typing import Annotated

import typer
from rich.markup import escape

from leanformer.cli.shared import AsJson, app, output, print_json


@app.command()
def recipes(
    name: Annotated[str, typer.Argument(help="Show only this one, in full.")] = "",
    as_json: AsJson = False,
) -> None:
    """The recipes that `compare`, `sweep` and `train` take, each with its command, its time and what to expect."""
    from leanformer.experiments import recipes as known

    described = {key: known.description(key) for key in ([name] if name else known.names())}
    if as_json:
        print_json(described)
        return
    for key, text in described.items():
        shown = text if name else (text.splitlines() or [""])[0]
        output.print(f"[bold]{escape(key)}[/]  ", end="")
        output.print(shown, highlight=False, markup=False)
