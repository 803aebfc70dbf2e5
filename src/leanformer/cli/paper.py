"""`leanformer paper`: the scorecard."""

from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, messages, output, print_json


@app.command()
def paper(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    table: Annotated[str, typer.Option(help='Only rows of this table, such as "Tab. 4" or "Fig. 3".')] = "",
    without_memory: Annotated[
        bool, typer.Option("--no-memory", help="Do not count the training memory of Tables 4 and 5.")
    ] = False,
) -> None:
    """The scorecard: each printed figure of the paper beside a recount from built models.

    Builds every model of Tables 1 to 5 and the Long-Range Arena grid without weights. Counts its parameters and, for
    image models, the memory that training takes. Takes about 40 seconds.
    """
    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    from leanformer.models.published import rows_of
    from leanformer.paper.scorecard import scorecard
    from leanformer.report.scorecard import markdown, sentences, terminal_table

    with messages.status("counting") as status:
        record = scorecard(rows_of(table), memory=not without_memory, progress=status.update)
    if as_json:
        print_json(record.to_dict())
    elif as_markdown:
        print(markdown(record))
    else:
        output.print(terminal_table(record))
        for sentence in sentences(record):
            output.print(sentence)
