"""`leanformer paper`: the scorecard."""

import json
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, messages, output


@app.command()
def paper(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    table: Annotated[str, typer.Option(help='Only rows of this table, such as "Tab. 4" or "Fig. 3".')] = "",
    memory: Annotated[bool, typer.Option(help="Count the training memory of Tables 4 and 5 too.")] = True,
) -> None:
    """The scorecard: each printed figure of the paper beside a recount from built models.

    Builds every model of Tables 1 to 5 and the Long-Range Arena grid without weights, counts its parameters and, for
    image models, the memory that training takes: about 40 seconds.
    """
    from leanformer.models.published import ROWS
    from leanformer.paper.memory import memory as count_memory
    from leanformer.paper.scorecard import scorecard
    from leanformer.report.scorecard import markdown, memory_summary, summary, terminal_table

    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    rows = [row for row in ROWS if row.table == table] if table else ROWS
    if not rows:
        known = ", ".join(dict.fromkeys(f'"{row.table}"' for row in ROWS))
        raise ValueError(f'--table "{table}" names no table; there are {known}')
    with messages.status("counting") as status:
        recounts = scorecard(rows, progress=lambda row: status.update(f"counting {row.model}"))
        found = count_memory(recounts, lambda row: status.update(f"memory of {row.model}")) if memory else {}
    if as_json:
        listed = [r.to_dict() | ({"memory": found[r.row].to_dict()} if r.row in found else {}) for r in recounts]
        print(json.dumps({"summary": summary(recounts), "rows": listed}, indent=2))
    elif as_markdown:
        print(markdown(recounts, found))
    else:
        output.print(terminal_table(recounts, found))
        output.print(summary(recounts))
        if found:
            output.print(memory_summary(found))
