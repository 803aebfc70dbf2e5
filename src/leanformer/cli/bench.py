"""`leanformer bench`: how fast designs run here."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from leanformer.cli.shared import MACHINE, MODELS, TRAINING, AsJson, Model, Out, Seed, app, given, show
from leanformer.foundation.arguments import writable


@app.command()
def bench(
    model: Model,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SIZES",
            help='Another design to time beside it: "depth=7,heads=16", a YAML file, another model or its folder, or '
            "recommended; repeatable.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="What to time: some of training,inference,latency,decoding [default: all the models can do].",
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Samples per training step, and per batch of inference.")
    ] = 8,
    tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens per text [default: 128, or what the model takes].",
        ),
    ] = None,
    decode: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens of a generated text [default: 64, or what fits]."),
    ] = None,
    precision: Annotated[Literal["float32", "bfloat16"], typer.Option(help="bfloat16 is autocast.")] = "float32",
    attention: Annotated[Literal["fused", "explicit"], typer.Option(help="How attention is computed.")] = "fused",
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="With gradient checkpointing.", rich_help_panel=TRAINING)
    ] = False,
    optimizer: Annotated[
        Literal["adamw", "sgd", "none"], typer.Option(help="What updates the weights.", rich_help_panel=TRAINING)
    ] = "adamw",
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where to run, such as cpu or cuda:1 [default: a GPU if there is one].",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="CPU threads [default: as PyTorch has it].", rich_help_panel=MACHINE),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            help="About how long each workload is timed, all designs together; with large models it takes longer.",
        ),
    ] = 20.0,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """How fast a model trains, predicts and decodes on this machine, and other designs of it beside it.

    All designs are timed in turns, with fresh weights and random inputs. Ratios are times divided by the original's,
    with 95 % intervals over rounds. Beside them stand the parameters, MACs and training memory that the designs are
    counted to take: a design may save more of these than of time.
    """
    arguments = given(locals()) | {"out": writable(out or Path("runs") / f"bench-{Path(model).name}")}
    from leanformer.experiments.benching import bench as run

    show(run(**arguments, progress=True), as_json)
