"""What the commands share: the app, consoles, options that several take, and how results are shown."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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


Model = Annotated[
    str, typer.Argument(help="A name from `leanformer models` or of any timm model, or a saved model's folder.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the record and the figure [default: runs/…].", file_okay=False)
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of initial weights and random inputs.")]


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, where a person is watching."""
    with messages.status(what) as status:
        yield lambda step: status.update(f"{what}: {step}")


def show(
    record: Mapping[str, Any], table: Callable[..., Any], draw: Callable[..., Any], path: Path, as_json: bool
) -> None:
    """Write the record and its figure; print the record or its table."""
    from leanformer.records.files import plain, write_json
    from leanformer.report.figures.style import save

    write_json(path.with_suffix(".json"), record)
    files = save(draw(record), path)
    if as_json:
        print(json.dumps(plain(record), indent=2))
    else:
        output.print(table(record))
        for warning in record.get("warnings", ()):
            output.print(f"[yellow]note[/] {warning}", highlight=False)
    messages.print(
        f"written: {path.with_suffix('.json')}, {files[0].name}, {files[1].name}", style="dim", highlight=False
    )


def numbers(option: str, text: str) -> list[int]:
    """ "2,4,8-10" as a list."""
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise ValueError(f'{option} takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "{text}"')
    return found


def count(option: str, text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError(f'{option} takes a whole number of at least 1, got "{text}"')
    return int(text)


def names(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None
