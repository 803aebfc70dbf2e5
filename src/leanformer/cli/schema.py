"""`leanformer schema`: the JSON Schemas of records."""

from typing import Annotated

import typer

from leanformer.cli.shared import app, print_json


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(help="A kind of record; without it, the kinds are listed.")] = "",
) -> None:
    """The JSON Schema of a kind of record: plan, run, result, comparison, sweep, measurement, design, …

    Every record that leanformer writes names its kind and version. Records of earlier versions are read too.
    """
    from leanformer.foundation import records

    if kind:
        print_json(records.record_class(kind).schema_of_file())
    else:
        print("\n".join(records.KINDS))
