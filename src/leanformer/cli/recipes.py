"""`leanformer recipes`: what can be compared."""

import json
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, output


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
