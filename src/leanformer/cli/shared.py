"""What the commands share: the app, consoles, options that several take, and how results are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup, TyperOption

from leanformer.cli.completion import complete_models, complete_recipes
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.machine import is_first_process

if TYPE_CHECKING:
    from leanformer.experiments.forecast import Forecast
    from leanformer.experiments.status import Status
    from leanformer.foundation.records.base import Record


DATA, MODELS, TRAINING, STATISTICS = "Data", "Models", "Training", "Statistics"
MACHINE, OUTPUT = "Machine", "Output"
"""Panels of the help."""

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


METAVARS = {
    "str": "TEXT",
    "list[str]": "TEXT",
    "int": "N",
    "float": "X",
    "path": "PATH",
    "file": "PATH",
    "dir": "FOLDER",
}
"""What help shows for a value of each type, unless the option has a word of its own."""


def _made_readable(params: list[Any], ctx: Any) -> list[Any]:
    """A flag takes no value, so help shows none beside it. --help stands with what else decides the output."""
    panels = {getattr(param, "rich_help_panel", None) for param in params}
    for param in params:
        if isinstance(param, TyperOption) and param.metavar is None:
            kind = str(param.display_type(ctx)).strip("<>").removesuffix(" range")
            param.metavar = "" if param.is_flag else METAVARS.get(kind)
        if param.name == "help" and OUTPUT in panels:
            param.rich_help_panel = OUTPUT
    return params


class Command(TyperCommand):
    """A command: help shows flags as flags, and errors name options where the library names arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _made_readable(super().get_params(ctx), ctx)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ArgumentError as error:
            options = {param.name: param.opts[0] for param in self.params}
            raise ValueError(error.worded(lambda argument: options.get(argument, argument))) from error


class Group(TyperGroup):
    """All commands together."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _made_readable(super().get_params(ctx), ctx)


class App(typer.Typer):
    """The program, whose commands are all of the kind above."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **more: Any
    ) -> Callable[[CommandFunction], CommandFunction]:
        return super().command(name, cls=cls, **more)


app = App(
    name="leanformer",
    cls=Group,
    help="Measure how well conditioned a transformer's attention is, redesign it, prove whether the lean model holds.",
    no_args_is_help=True,
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

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of a table.", rich_help_panel=OUTPUT)
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name from `leanformer models` or of any timm model, a saved model's folder, or a design's YAML file.",
        autocompletion=complete_models,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for the results [default: runs/…].",
        file_okay=False,
        rich_help_panel=OUTPUT,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of initial weights and random inputs.")]
RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="What to run: a name (`leanformer recipes` lists them), a YAML file, package.module:name or file.py:name.",
        autocompletion=complete_recipes,
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="How many seeds [default: the recipe's].", rich_help_panel=STATISTICS),
]
Steps = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Optimizer steps of the original.", rich_help_panel=TRAINING)
]
Batch = Annotated[int | None, typer.Option(metavar="N", min=1, help="Samples per step.", rich_help_panel=TRAINING)]
Rate = Annotated[
    float | None, typer.Option("--lr", metavar="RATE", help="Peak learning rate.", rich_help_panel=TRAINING)
]
UserData = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Your data, or the folder that holds the recipe's data sets.",
        rich_help_panel=DATA,
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Column of texts in a table [default: one of the usual names].", rich_help_panel=DATA
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Column of labels in a table [default: one of the usual names].", rich_help_panel=DATA
    ),
]
HeldOut = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of samples to hold out, if your data have no held-out part [default: 0.1].",
        rich_help_panel=DATA,
    ),
]
SkipBad = Annotated[
    bool | None,
    typer.Option("--skip-bad", help="Skip samples that cannot be read, and report how many.", rich_help_panel=DATA),
]
DryRun = Annotated[
    bool | None,
    typer.Option(
        "--dry-run", help="Only report the time, memory and disk it would take; write nothing.", rich_help_panel=OUTPUT
    ),
]
OtherModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Another original, by name, folder or YAML file; lean is then what `design` recommends.",
        autocompletion=complete_models,
        rich_help_panel=MODELS,
    ),
]
Original = Annotated[
    str | None,
    typer.Option(
        metavar="SIZES",
        help='Sizes of the original, as in "depth=8,heads=4", or a YAML file of `design --emit yaml`.',
        rich_help_panel=MODELS,
    ),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help='Any setting, as in "training.clip=0.5" or "task.shift=2"; repeatable.',
        rich_help_panel=TRAINING,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="float32, bfloat16 or float16.", rich_help_panel=TRAINING),
]
LogWith = Annotated[str, typer.Option(metavar="TRACKER", help="tensorboard, trackio or wandb.", rich_help_panel=OUTPUT)]
OutOrUrl = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for the study, or a URL such as s3://bucket/study [default: runs/…].",
        rich_help_panel=OUTPUT,
    ),
]
PlanOnly = Annotated[
    bool | None,
    typer.Option(
        "--plan-only",
        help="Only write the plan and the run folders; `leanformer jobs` prints a command for each run.",
        rich_help_panel=OUTPUT,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Where to train: local, ray (the running cluster, or else a new one) or ray://HOST:10001 "
        "[default: local].",
        rich_help_panel=MACHINE,
    ),
]
Retries = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="How often to retry a run whose process or node died [default: 2].",
        rich_help_panel=MACHINE,
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(metavar="X", min=0, help="Cores of one run on Ray [default: its threads].", rich_help_panel=MACHINE),
]
Gpus = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=0,
        help="GPUs of one run on Ray, such as 0.5 [default: 1 if there are any].",
        rich_help_panel=MACHINE,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help='Memory of one run on Ray, as in "8GB" [default: what the cost model predicts].',
        rich_help_panel=MACHINE,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Runs at a time [default: one per GPU or core].", rich_help_panel=MACHINE),
]


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a command passes on to the function of its name: its own arguments, but for how results are printed."""
    return {name: value for name, value in arguments.items() if name != "as_json"}


# Output


def working(what: str) -> AbstractContextManager[Callable[[str], None]]:
    """A line that says what is being done, where a person is watching."""
    from leanformer.foundation.progress import working as shown

    return shown(what, True)


def print_json(value: Any) -> None:
    from leanformer.foundation.records.files import plain

    print(json.dumps(plain(value), indent=2))


def show(record: Record, as_json: bool, without: Sequence[str] = ()) -> None:
    """Print a record as JSON, but for some fields; or as a table and sentences."""
    from leanformer.foundation.records.views import view_of

    if as_json:
        print_json({key: value for key, value in record.to_dict().items() if key not in without})
        return
    view = view_of(record.kind)
    output.print(view.table(record))
    for sentence in view.sentences(record):
        output.print(sentence, highlight=False, soft_wrap=True, markup=False)


def show_forecast(forecast: Forecast, as_json: bool) -> None:
    """Print what training will take."""
    if as_json:
        print_json(forecast.to_dict())
        return
    for line in forecast.words():
        output.print(line, highlight=False, soft_wrap=True, markup=False)


def show_planned(planned: Status, as_json: bool) -> None:
    """Print what was planned, and how it is trained."""
    if is_first_process():
        show(planned, as_json)
        line = f"one command for each open run: leanformer jobs {planned.study}"
        messages.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)


def print_models(folder: str, where: str = "") -> None:
    """Say on stderr where the trained models are, and how one is loaded."""
    line = (
        f"{where or f'the model is in {folder}/model'}: lf.from_pretrained({folder!r}) loads {'one' if where else 'it'}"
    )
    messages.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)


def print_written(what: str) -> None:
    """Say on stderr which files were written."""
    messages.print(f"written: {what}", style="dim", highlight=False, markup=False, soft_wrap=True)
