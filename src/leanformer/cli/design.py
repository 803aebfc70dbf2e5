"""`leanformer design`: leaner candidates and what they cost."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from leanformer.cli.shared import MODELS, OUTPUT, TRAINING, AsJson, Model, Out, app, given, show
from leanformer.foundation.arguments import writable

# Values of options are listed here as well as in the library, so that help does not have to import PyTorch.
Device = Literal["a100", "h100", "v100", "a6000", "rtx4090", "l4", "t4"]
LIMITS, RUN = "Limits", "A whole run"


@app.command()
def design(
    model: Model,
    params: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help='At most this many parameters: "50%" or "40M" [default: half of those in layers].',
            rich_help_panel=LIMITS,
        ),
    ] = None,
    fit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help='At most this training memory: "24GB" or "50%".', rich_help_panel=LIMITS),
    ] = None,
    macs: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help='At most this many MACs per sample: "50%" or "8G".', rich_help_panel=LIMITS),
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help='Only these depths, such as "7" or "6-8".', rich_help_panel=LIMITS),
    ] = None,
    head_dims: Annotated[
        str | None,
        typer.Option(
            "--head-dim",
            metavar="NUMBERS",
            help='Also try these head sizes, such as "32,96".',
            rich_help_panel=MODELS,
        ),
    ] = None,
    heads_multiple: Annotated[
        int | None,
        typer.Option(
            "--heads-divisible-by",
            metavar="N",
            min=1,
            help="Heads in multiples of this [default: 8, 4, 2 or 1, whichever divides the original's].",
            rich_help_panel=MODELS,
        ),
    ] = None,
    regimes: Annotated[
        Literal["fixed", "split", "both"],
        typer.Option("--regime", help="fixed keeps head_dim, split keeps the width.", rich_help_panel=MODELS),
    ] = "both",
    force: Annotated[
        bool,
        typer.Option("--force", help="Also show designs that the rank guard refuses.", rich_help_panel=MODELS),
    ] = False,
    batch: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Samples per device, for the memory count.", rich_help_panel=TRAINING),
    ] = 64,
    tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens per text [default: 128 or what fits].", rich_help_panel=TRAINING),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="bfloat16 is mixed precision by CUDA's autocast.", rich_help_panel=TRAINING),
    ] = "float32",
    attention: Annotated[
        Literal["fused", "explicit"], typer.Option(help="How attention is computed.", rich_help_panel=TRAINING)
    ] = "fused",
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="With gradient checkpointing.", rich_help_panel=TRAINING)
    ] = False,
    optimizer: Annotated[
        Literal["adamw", "sgd", "none"],
        typer.Option(help="Optimizer whose state is counted as memory.", rich_help_panel=TRAINING),
    ] = "adamw",
    shard: Annotated[
        Literal["none", "full"],
        typer.Option(help="full shards the model over the devices (FSDP2).", rich_help_panel=TRAINING),
    ] = "none",
    samples: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT", help='Cost a whole run over this many samples, such as "384M".', rich_help_panel=RUN
        ),
    ] = None,
    device: Annotated[Device, typer.Option(help="The device of that run.", rich_help_panel=RUN)] = "a100",
    devices: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many devices; --shard divides by it.", rich_help_panel=RUN)
    ] = 8,
    utilisation: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Share of the peak speed that devices reach.", rich_help_panel=RUN
        ),
    ] = 0.35,
    emit: Annotated[
        Literal["timm", "hf", "leanformer", "yaml"] | None,
        typer.Option(help="Print only the recommended design, in this form.", rich_help_panel=OUTPUT),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Leaner candidates: parameters, memory, MACs, κ theory, guards, and a plan in plain words.

    Costs are exact and need no GPU. A run of ImageNet for 300 epochs is `--samples 384M`.
    """
    arguments = {name: value for name, value in given(locals()).items() if name != "emit"}
    if emit is None:
        arguments["out"] = writable(out or Path("runs") / f"design-{Path(model).name}")
    from leanformer.designing.plan import design as run

    plan = run(**arguments, progress=True)
    if emit is not None:
        print(plan.emit(emit), end="")
    else:
        show(plan.record(), as_json)
