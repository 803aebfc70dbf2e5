"""`leanformer compare`: arms × seeds, and the verdict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from leanformer.cli.completion import complete_arms
from leanformer.cli.shared import (
    MODELS,
    STATISTICS,
    TRAINING,
    AsJson,
    Batch,
    Cpus,
    DryRun,
    Gpus,
    HeldOut,
    Jobs,
    LabelColumn,
    LogWith,
    Memory,
    On,
    Original,
    OtherModel,
    OutOrUrl,
    PlanOnly,
    Precision,
    Rate,
    RecipeName,
    Retries,
    Seeds,
    Settings,
    SkipBad,
    Steps,
    TextColumn,
    UserData,
    app,
    given,
    print_models,
    show,
    show_forecast,
    show_planned,
)

OWN_LOOP = "Your own training loop"
"""A panel of the help."""

if TYPE_CHECKING:
    from leanformer.experiments.comparison_records import Comparison


@app.command()
def compare(
    recipe: RecipeName = "digits",
    data: UserData = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    held_out: HeldOut = None,
    skip_bad: SkipBad = None,
    model: OtherModel = None,
    original: Original = None,
    lean: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help='Sizes of the lean model, as in "depth=4,heads=8,regime=split", or a YAML file of `design --emit`.',
            rich_help_panel=MODELS,
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help='Arms to train, from "original,lean,shallow,wide" [default: the recipe\'s].',
            autocompletion=complete_arms,
            rich_help_panel=MODELS,
        ),
    ] = None,
    arm: Annotated[
        list[str],
        typer.Option(
            metavar="NAME:SIZES",
            help='One more arm, as in "narrow:heads=2,mlp_dim=64"; repeatable.',
            rich_help_panel=MODELS,
        ),
    ] = [],  # noqa: B006
    start: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Start from the trained models of this comparison.", rich_help_panel=MODELS
        ),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="A trained model from which all arms but `random` start: a saved folder, a run or a .gguf file.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Which of its layers the shallower arms keep, as for `inherit` [default: influence].",
            rich_help_panel=MODELS,
        ),
    ] = None,
    new_heads: Annotated[
        Literal["fresh", "copied"] | None,
        typer.Option(help="How new heads are initialised [default: fresh].", rich_help_panel=MODELS),
    ] = None,
    steps: Steps = None,
    batch: Batch = None,
    lr: Rate = None,
    precision: Precision = None,
    settings: Settings = [],  # noqa: B006
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[=AMOUNT]",
            help='What arms have in common: steps, epochs, tokens, flops or time; or with an amount, "time=10m".',
            rich_help_panel=TRAINING,
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help='Train with your own command: "python train.py --model {model} --seed {seed} --out {folder}".',
            rich_help_panel=OWN_LOOP,
        ),
    ] = None,
    score_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The JSON file that the command writes into {folder} [default: metrics.json].",
            rich_help_panel=OWN_LOOP,
        ),
    ] = None,
    score_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help='Key of the score in that file, as in "eval.accuracy" [default: score].',
            rich_help_panel=OWN_LOOP,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the score [default: its key].", rich_help_panel=OWN_LOOP),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help='Unit of the score, as in "%".', rich_help_panel=OWN_LOOP)
    ] = None,
    higher_is_better: Annotated[
        bool | None,
        typer.Option(
            "--higher-is-better/--lower-is-better",
            help="Which scores are better [default: lower for a loss or an error, else higher].",
            rich_help_panel=OWN_LOOP,
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='Time limit of one run, as in "30m".', rich_help_panel=OWN_LOOP),
    ] = None,
    seeds: Seeds = None,
    first_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="The first seed [default: 0]; with another one, the comparison is repeated with other seeds.",
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="decided",
            help='"decided": add seeds at planned looks until the verdict is decided, instead of --seeds.',
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Upper limit of seeds with --until [default: 30].", rich_help_panel=STATISTICS
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="M", min=0, help="By how much a model may be worse and still hold.", rich_help_panel=STATISTICS
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="SETTINGS",
            help='Tune "lr" or "lr,weight_decay" for every arm alike, on samples that the verdict never uses.',
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    tune_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Length of a trial, as a share of a run's steps [default: 1].",
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    tune_seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Seeds of a trial [default: 2].", rich_help_panel=STATISTICS),
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help='Also make the comparison with fewer steps, as in "1/4,1/2,1".',
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    on: On = None,
    jobs: Jobs = None,
    retries: Retries = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    log_with: LogWith = "",
    dry_run: DryRun = None,
    plan_only: PlanOnly = None,
    out: OutOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """The main job: train original, lean and control side by side, and say what holds.

    Every arm is trained with every seed on the same batches. The control, `shallow`, has lean's depth and the
    original's heads: it separates the effect of heads from the effect of depth.

    RECIPE may also be your own training function, `file.py:name`: it takes a fresh model, the seed and a folder, and
    returns a score. Give `--original` and `--lean`, as sizes of a known model or of your own `--model file.py:Name`.

    With `--command`, your own program trains. It gets a fresh model as a folder ({model}) or the sizes of the arm
    ({depth}, {heads}, …), the seed, and a folder for its output. It writes its score into a JSON file in that folder.

    The same command resumes a comparison that was stopped; more `--seeds` or `--arms` extend it.
    Several GPUs or hosts: `torchrun --nproc-per-node 8 -m leanformer compare …`
    """
    arguments = given(locals())
    from leanformer.experiments.comparison import compare as run
    from leanformer.foundation.machine import is_first_process
    from leanformer.foundation.storage import is_url

    record = run(**arguments, progress=True)
    if dry_run:
        show_forecast(cast(Any, record), as_json)
    elif plan_only:
        show_planned(cast(Any, record), as_json)
    elif is_first_process():
        folder = None if is_url(out or "") else Path(out or f"runs/compare-{record.name}")
        show_verdict(record, as_json, folder)


def show_verdict(record: "Comparison", as_json: bool, folder: Path | None = None) -> None:
    """Print a comparison, and where its models are; runs that did not finish are a failure of the command."""
    from leanformer.experiments.arms import LEAN

    show(record, as_json, without=("runs",))
    saved = [run.parent for run in sorted(folder.glob("*/seed-*/model"))] if folder is not None else []
    if saved:
        one = next((run for run in saved if run.parent.name == LEAN), saved[0])
        print_models(str(one), where=f"models are in {folder}/ARM/seed-N/model")
    if record.failures:
        raise typer.Exit(1)


def show_comparison(record: "Comparison", folder: Path, as_json: bool) -> None:
    """Write the record and its report, and print it."""
    from leanformer.experiments.summary import RECORD
    from leanformer.foundation.progress import RunsProgress
    from leanformer.foundation.records.keeping import publish

    publish(record, folder / RECORD, say=RunsProgress(True).say)
    show_verdict(record, as_json)
