"""`leanformer measure` and `leanformer theory`: conditioning, measured and predicted."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from leanformer.cli.shared import AsJson, Model, Out, Seed, app, numbers, show, working, writable


@app.command()
def measure(
    model: Model,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights to load: a folder, .safetensors or .pt.")] = None,
    images: Annotated[Path | None, typer.Option(help="Measure on the images in this folder.")] = None,
    text: Annotated[Path | None, typer.Option(help="Measure on passages of this text file.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Measure on random images or tokens.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Images or passages.")] = 8,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens per passage [default: 128, or what the model takes].")
    ] = None,
    heads: Annotated[str, typer.Option(help='Measure these heads at initialisation, such as "2,4,8" or "2-18".')] = "",
    depth: Annotated[int | None, typer.Option(min=1, help="Layers to build with --heads [default: all].")] = None,
    rank: Annotated[bool, typer.Option("--rank", help="The rank of W_Q W_Kᵀ of every head instead of κ.")] = False,
    projections: Annotated[str | None, typer.Option(help='Name pattern of output projections, "*.attn.out".')] = None,
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
    table shows its median and quartiles, and κ of a Gaussian matrix of that size. With `--heads`, κ against the number
    of heads in both regimes. With `--rank`, how many directions each head can ask for, and how many its weights use.
    """
    counts = numbers("--heads", heads) if heads else []
    if rank and (heads or depth or tokens or random or any(x is not None for x in (projections, dtype, images, text))):
        raise ValueError(
            "--rank reads the weights alone: it takes no --heads, --depth, --projections, --dtype or inputs"
        )
    if heads and any(given is not None for given in (checkpoint, projections, dtype)):
        raise ValueError("--heads measures at initialisation: it takes no --checkpoint, --projections or --dtype")
    if depth is not None and not heads:
        raise ValueError("--depth goes with --heads")

    from leanformer.conditioning.heads import measure_heads
    from leanformer.conditioning.measurement import measure_named, measure_ranks
    from leanformer.report import measurement
    from leanformer.report.figures import measurement as figures
    from leanformer.training.run import held_out_inputs, is_run

    choice: dict[str, Any] = dict(images=images, text=text, random=random, batch=batch, tokens=tokens, seed=seed)
    folder = writable(out or Path("runs") / f"measure-{Path(model).name}")
    if rank:
        with working(f"reading {model}"):
            ranks = measure_ranks(model, checkpoint, seed)
        show(ranks, measurement.ranks, figures.rank_by_layer, folder / "rank_by_layer", as_json)
    elif heads:
        with working("measuring") as progress:
            by_heads = measure_heads(model, counts, depth=depth, progress=progress, **choice)
        show(by_heads, measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)
    else:
        with working(f"measuring {model}"):
            by_default = images is None and text is None and tokens is None and not random
            own = held_out_inputs(Path(model), batch) if by_default and is_run(Path(model)) else None
            by_layer = measure_named(model, checkpoint, projections=projections, inputs=own, dtype=dtype, **choice)
        show(by_layer, measurement.layers, figures.kappa_by_layer, folder / "kappa_by_layer", as_json)


@app.command()
def theory(
    tokens: Annotated[int, typer.Option(min=1, help="Tokens N: rows of a block.")] = 197,
    head_dim: Annotated[int, typer.Option(min=1, help="Columns of one head, d.")] = 64,
    heads: Annotated[str, typer.Option(help='Numbers of heads, such as "1,2,4" or "1-18".')] = "1-6,8,12,16,24,32,64",
    samples: Annotated[int, typer.Option(min=2, help="Sampled matrices per size.")] = 1000,
    model: Annotated[str, typer.Option(help='Real model to put beside it; "none" for none.')] = "vit_base_patch16_224",
    depth: Annotated[int, typer.Option(min=1, help="Layers of that model to build.")] = 2,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Theorem 3.2 against simulation and against a real model: κ as heads are added, through the cliff at h·d = N.

    The theorem is about Gaussian blocks. Its formula is compared with exact sampling; a real model's attention at
    initialisation stands beside both, in both head regimes.
    """
    counts, folder = numbers("--heads", heads), writable(out or Path("runs/theory"))

    from leanformer.conditioning.heads import measure_heads
    from leanformer.conditioning.theory import sampled_theory
    from leanformer.report import measurement
    from leanformer.report.figures import measurement as figures

    real = None
    if model != "none":
        with working(f"measuring {model}") as progress:
            real = measure_heads(model, counts, depth=depth, seed=seed, batch=4, progress=progress)
    with working("sampling") as progress:
        record = sampled_theory(tokens, head_dim, counts, samples, seed, progress, real)
    show(record, measurement.theory, figures.theory_against_simulation, folder / "theory", as_json)
    if real is not None and not as_json:
        show(real, measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)
