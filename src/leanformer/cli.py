"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    name="leanformer",
    help="Measure how well conditioned a transformer's attention is, redesign it, prove whether the lean model holds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
output = Console(width=None if sys.stdout.isatty() else 120)
messages = Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def _version(wanted: bool) -> None:
    if wanted:
        from leanformer import __version__

        print(f"leanformer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


@app.command()
def paper(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    table: Annotated[str, typer.Option(help='Only rows of this table, such as "Tab. 4" or "Fig. 3".')] = "",
) -> None:
    """The scorecard: each printed figure of the paper beside a recount from built models.

    Builds every model of Tables 1 to 5 and the Long-Range Arena grid without weights and counts its parameters: about
    10 seconds.
    """
    from leanformer.paper.ledger import ROWS
    from leanformer.paper.scorecard import scorecard
    from leanformer.report.scorecard import markdown, summary, terminal_table

    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    rows = [row for row in ROWS if row.table == table] if table else ROWS
    if not rows:
        known = ", ".join(dict.fromkeys(f'"{row.table}"' for row in ROWS))
        raise ValueError(f'--table "{table}" names no table; there are {known}')
    with messages.status("counting") as status:
        recounts = scorecard(rows, progress=lambda row: status.update(f"counting {row.model}"))
    if as_json:
        print(json.dumps({"summary": summary(recounts), "rows": [recount.to_dict() for recount in recounts]}, indent=2))
    elif as_markdown:
        print(markdown(recounts))
    else:
        output.print(terminal_table(recounts))
        output.print(summary(recounts))


@app.command()
def models(
    containing: Annotated[str, typer.Argument(help="Only names that contain this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The model names that every other command and `leanformer.create` take."""
    from leanformer import families
    from leanformer.paper.ledger import LEAN_MODELS

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


def main() -> None:
    """Run the command; a user's mistake is one clear line and exit code 2."""
    try:
        app()
    except ValueError as error:
        messages.print(f"leanformer: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
