"""`leanformer models`: names that can be built."""

import json
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, output


@app.command()
def models(
    containing: Annotated[str, typer.Argument(help="Only names that contain this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The model names that every other command and `leanformer.create` take."""
    from leanformer.models import registry as families
    from leanformer.models.published import LEAN_MODELS

    listed = {**families.names(), "lean": list(LEAN_MODELS)}
    listed = {key: [name for name in names if containing in name] for key, names in listed.items()}
    if not any(listed.values()):
        raise ValueError(f"no model name contains {containing!r}; `leanformer models` lists all")
    if as_json:
        print(json.dumps(listed, indent=2))
        return
    for key, names in listed.items():
        if names:
            output.print(f"[bold]{key}[/]  {'  '.join(names)}")
