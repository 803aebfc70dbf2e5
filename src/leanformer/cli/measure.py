"""`leanformer measure` and `leanformer theory`: conditioning, measured and predicted."""

from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Model, Out, Seed, app, numbers, show, working


@app.command()
def measure(
    model: Model,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights to load: a folder, .safetensors or .pt.")] = None,
    images: Annotated[Path | None, typer.Option(help="Measure on the images in this folder.")] = None,
    text: Annotated[Path | None, typer.Option(help="Measure on passages of this text file.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Measure on random images or tokens.")] = False,
    batch: Annotated[int, typer.Option(help="Images or passages.")] = 8,
    tokens: Annotated[
        int | None, typer.Option(help="Tokens a passage [default: 128, or what the model takes].")
    ] = None,
    heads: Annotated[str, typer.Option(help='Sweep heads at initialisation, such as "2,4,8" or "2-18".')] = "",
    depth: Annotated[int | None, typer.Option(help="Layers to build in a sweep of heads [default: all].")] = None,
    rank: Annotated[bool, typer.Option("--rank", help="The rank of W_Q W_Kᵀ of every head instead of κ.")] = False,
    projections: Annotated[str | None, typer.Option(help='Name pattern of output projections, "*.attn.out".')] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """κ of the attention, layer by layer: at initialisation, of a checkpoint, or of a pretrained model.

    The condition number is of the concatenated heads before the output projection, one matrix per sample; the table
    shows its median and quartiles, and what a Gaussian matrix of that size would have. With `--heads`, κ against the
    number of heads in both regimes. With `--rank`, how many directions each head can ask for, and how many of them
    its weights use.
    """
    from leanformer.conditioning.measurement import measure_heads, measure_named, measure_ranks
    from leanformer.report import measurement
    from leanformer.report.figures import measurement as figures
    from leanformer.training.run import held_out_inputs, is_run

    choice: dict[str, Any] = dict(images=images, text=text, random=random, batch=batch, tokens=tokens, seed=seed)
    no_inputs_given = images is None and text is None and not random and tokens is None
    folder = out or Path("runs") / f"measure-{Path(model).name}"
    if rank:
        if heads or depth or tokens or projections is not None or images is not None or text is not None or random:
            raise ValueError("--rank reads the weights alone: it takes no --heads, --depth, --projections or inputs")
        with working(f"reading {model}"):
            record = measure_ranks(model, checkpoint, seed)
        show(record, measurement.ranks, figures.rank_by_layer, folder / "rank_by_layer", as_json)
    elif heads:
        if checkpoint is not None or projections is not None:
            raise ValueError("--heads measures at initialisation: it takes no --checkpoint and no --projections")
        with working("measuring") as progress:
            record = measure_heads(model, numbers("--heads", heads), depth=depth, progress=progress, **choice)
        show(record, measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)
    else:
        if depth is not None:
            raise ValueError("--depth goes with --heads")
        with working(f"measuring {model}"):
            own = held_out_inputs(Path(model), batch) if no_inputs_given and is_run(Path(model)) else None
            record = measure_named(model, checkpoint, projections=projections, inputs=own, **choice)
        show(record, measurement.layers, figures.kappa_by_layer, folder / "kappa_by_layer", as_json)


@app.command()
def theory(
    tokens: Annotated[int, typer.Option(help="Tokens N: rows of a block.")] = 197,
    head_dim: Annotated[int, typer.Option(help="Columns of one head, d.")] = 64,
    heads: Annotated[str, typer.Option(help='Heads to add up, such as "1,2,4" or "1-18".')] = "1-6,8,12,16,24,32,64",
    samples: Annotated[int, typer.Option(help="Sampled matrices per size.")] = 1000,
    model: Annotated[str, typer.Option(help='Real model to put beside it; "none" for none.')] = "vit_base_patch16_224",
    depth: Annotated[int, typer.Option(help="Layers of that model to build.")] = 2,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Theorem 3.2 against simulation and against a real model: κ as heads are added, through the cliff at h·d = N.

    The theorem speaks of Gaussian blocks. Its formula is compared with exact sampling; a real model's attention at
    initialisation stands beside both, in both head regimes.
    """
    from leanformer.conditioning.measurement import measure_heads, theory_record
    from leanformer.report import measurement
    from leanformer.report.figures import measurement as figures

    counts, folder = numbers("--heads", heads), out or Path("runs/theory")
    with working("sampling") as progress:
        record = theory_record(tokens, head_dim, counts, samples, seed, progress)
        if model != "none":
            record["real"] = measure_heads(model, counts, depth=depth, seed=seed, batch=4, progress=progress)
    show(record, measurement.theory, figures.theory_against_simulation, folder / "theory", as_json)
    if model != "none" and not as_json:
        show(record["real"], measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)
