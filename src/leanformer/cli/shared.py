"""What the commands share: the app, consoles, options that several take, and how results are shown."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from leanformer.foundation.records.base import Record

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


# Options

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Model = Annotated[
    str, typer.Argument(help="A name from `leanformer models` or of any timm model, or a saved model's folder.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the record and the figure [default: runs/…].", file_okay=False)
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of initial weights and random inputs.")]
RecipeName = Annotated[
    str,
    typer.Argument(help="What to run: a name (`leanformer recipes` lists them), package.module:name or file.py:name."),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds [default: the recipe's].")]
Steps = Annotated[int | None, typer.Option(min=1, help="Optimizer steps of the original.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Samples per step.")]
Rate = Annotated[float | None, typer.Option("--lr", help="Peak learning rate.")]
UserData = Annotated[
    str | None, typer.Option("--data", help="Your data, or the folder that holds the recipe's data sets.")
]
OtherModel = Annotated[str | None, typer.Option("--model", help="Another original; lean is what `design` recommends.")]
Original = Annotated[str, typer.Option(help='Sizes of the original, as in "depth=8,heads=4".')]
Settings = Annotated[
    list[str], typer.Option("--set", help='Any setting, as in "training.clip=0.5" or "task.shift=2"; repeatable.')
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at a time [default: one per GPU or core].")]


def names(text: str) -> list[str] | None:
    """ "a, b" as a list; None if the option was not given."""
    return [name.strip() for name in text.split(",")] if text else None


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


def writable(folder: Path) -> Path:
    """The folder, if results can be written to it. Nobody should learn after hours of work that they cannot."""
    made: list[Path] = []
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: the name holds a null character
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{folder} cannot be written to: {reason}; name another folder by --out") from error
    finally:
        for place in made:
            with suppress(OSError, ValueError):
                place.rmdir()
    return folder


# Output


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, where a person is watching."""
    with messages.status(escape(what)) as status:
        yield lambda step: status.update(escape(f"{what}: {step}"))


def print_json(value: Any) -> None:
    from leanformer.foundation.records.files import plain

    print(json.dumps(plain(value), indent=2))


def print_sentences(phrases: Sequence[str]) -> None:
    from leanformer.experiments.sentences import as_sentence

    for phrase in phrases:
        output.print(as_sentence(phrase), highlight=False, soft_wrap=True, markup=False)


def print_record(record: Any, table: Callable[[Any], Any], as_json: bool, without: Sequence[str] = ()) -> None:
    """Print a record as JSON, but for some fields; or as a table and sentences."""
    if as_json:
        print_json({key: value for key, value in record.to_dict().items() if key not in without})
    else:
        output.print(table(record))
        print_sentences(record.sentences())


def print_written(what: str) -> None:
    """Say on stderr which files were written."""
    messages.print(f"written: {what}", style="dim", highlight=False, markup=False, soft_wrap=True)


def show(record: Record, table: Callable[[Any], Any], draw: Callable[[Any], Any], path: Path, as_json: bool) -> None:
    """Write the record and its figure; print the record or its table and notes."""
    from leanformer.report.figures.style import save

    record.write(path.with_suffix(".json"), indent=2)
    files = save(draw(record), path)
    if as_json:
        print_json(record.to_dict())
    else:
        output.print(table(record))
        for warning in getattr(record, "warnings", ()):
            output.print(f"[yellow]note[/] {escape(warning)}", highlight=False)
    print_written(f"{path.with_suffix('.json')}, {', '.join(file.name for file in files)}")
