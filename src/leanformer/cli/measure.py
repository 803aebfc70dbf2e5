"""`leanformer measure` and `leanformer theory`: conditioning, measured and predicted."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from leanformer.cli.shared import (
    DATA,
    MODELS,
    AsJson,
    Model,
    Out,
    Seed,
    app,
    given,
    show,
    working,
)
from leanformer.foundation.arguments import writable


@app.command()
def measure(
    model: Model,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Weights to load: a folder, .safetensors or .pt.", rich_help_panel=MODELS),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Measure on the images in this folder.", rich_help_panel=DATA),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure on passages of this text file.", rich_help_panel=DATA),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Measure on random images or tokens.", rich_help_panel=DATA)
    ] = False,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Images or passages.", rich_help_panel=DATA)] = 8,
    tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens per passage [default: 128, or what the model takes].",
            rich_help_panel=DATA,
        ),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help='Measure these numbers of heads at initialisation: "2,4,8" or "2-18".'),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Layers to build with --heads [default: all].")
    ] = None,
    rank: Annotated[bool, typer.Option("--rank", help="The rank of W_Q W_Kᵀ of every head instead of κ.")] = False,
    projections: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help='Name pattern of output projections: "*.attn.out".', rich_help_panel=MODELS
        ),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(help="Compute in this precision [default: the weights']; float64 shows κ that rounding hides."),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """κ of the attention, layer by layer: at initialisation, of a checkpoint, or of a pretrained model.

    The condition number is that of the concatenated heads before the output projection, one matrix per sample. The
    table shows its median and quartiles, and κ of a Gaussian matrix of that size. `--heads` measures κ against the
    number of heads, in both regimes. `--rank` shows the largest possible rank of each head's W_Q W_Kᵀ, and how much of
    it the weights use.
    """
    arguments = given(locals()) | {"out": writable(out or Path("runs") / f"measure-{Path(model).name}")}
    from leanformer.experiments.measuring import measure as run

    show(run(**arguments, progress=True), as_json)


@app.command()
def theory(
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Tokens N: rows of a block.")] = 197,
    head_dim: Annotated[int, typer.Option(metavar="N", min=1, help="Columns of one head, d.")] = 64,
    heads: Annotated[
        str, typer.Option(metavar="NUMBERS", help='Numbers of heads, such as "1,2,4" or "1-18".')
    ] = "1-6,8,12,16,24,32,64",
    samples: Annotated[int, typer.Option(metavar="N", min=2, help="Sampled matrices per size.")] = 1000,
    model: Annotated[
        str, typer.Option(metavar="NAME", help='Real model to compare with; "none" for none.')
    ] = "vit_base_patch16_224",
    depth: Annotated[int, typer.Option(metavar="N", min=1, help="Layers of that model to build.")] = 2,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Theorem 3.2 against simulation and against a real model: κ as heads are added, through the cliff at h·d = N.

    The theorem is about Gaussian blocks. Its formula is compared with exact sampling, and both with a real model's
    attention at initialisation, in both head regimes.
    """
    from leanformer.foundation.arguments import numbers

    counts, folder = numbers("heads", heads), writable(out or Path("runs/theory"))

    from leanformer.conditioning.heads import measure_heads
    from leanformer.conditioning.theory import sampled_theory
    from leanformer.foundation.progress import RunsProgress
    from leanformer.foundation.records.keeping import publish

    real, say = None, RunsProgress(True).say
    if model != "none":
        with working(f"measuring {model}") as progress:
            real = measure_heads(model, counts, depth=depth, seed=seed, batch=4, progress=progress)
    with working("sampling") as progress:
        record = sampled_theory(tokens, head_dim, counts, samples, seed, progress, real)
    publish(record, folder / "theory.json", say=say)
    show(record, as_json)
    if real is not None:
        publish(real, folder / "kappa_by_heads.json", say=say)
        if not as_json:
            show(real, as_json)
