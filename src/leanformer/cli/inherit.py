"""`leanformer inherit`: a lean model that begins with a trained one's weights."""

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from leanformer.cli.shared import DATA, MODELS, OUTPUT, AsJson, Seed, app, given, messages, show
from leanformer.foundation.arguments import writable


@app.command()
def inherit(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A trained model: its folder, that of a run, or a .gguf file.")
    ],
    depth: Annotated[
        str | None,
        typer.Option(metavar="N", help='Layers to keep; one number per stage, "2,2,6,2".', rich_help_panel=MODELS),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(metavar="N", help="Heads of each layer, at least as many as before.", rich_help_panel=MODELS),
    ] = None,
    mlp_dim: Annotated[
        str | None, typer.Option(metavar="N", help="Neurons of each MLP.", rich_help_panel=MODELS)
    ] = None,
    keep: Annotated[
        Literal["fixed", "split"],
        typer.Option(
            "--regime",
            help="fixed adds heads of the same size and keeps the function; split divides the existing heads.",
            rich_help_panel=MODELS,
        ),
    ] = "fixed",
    layers: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help='Which layers to keep: influence, ablation, greedy, first, even, or their indices from 0, "0,2,4".',
            rich_help_panel=MODELS,
        ),
    ] = "influence",
    new_heads: Annotated[
        Literal["fresh", "copied"],
        typer.Option(
            help="fresh: new weights, with output weights of zero; copied: copies of old heads that share an output.",
            rich_help_panel=MODELS,
        ),
    ] = "fresh",
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Judge layers on these images.", rich_help_panel=DATA)
    ] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge layers on this text.", rich_help_panel=DATA)
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Judge layers on random inputs.", rich_help_panel=DATA)
    ] = False,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Images or passages.", rich_help_panel=DATA)] = 8,
    tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens per passage [default: 128].", rich_help_panel=DATA),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the model [default: runs/inherit-MODEL].",
            file_okay=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A lean model that begins with a trained one's weights: fewer layers, more heads, narrower MLPs.

    The layers that stay are chosen by what the trained model does on a few samples. Heads are added so that the model
    computes the same function until it is trained. The table shows every layer; the record is inheritance.json beside
    the model. `leanformer compare RECIPE --pretrained MODEL` proves what the lean model is worth after training.
    """
    usual = Path("runs") / f"inherit-{Path(model).name.removesuffix('.gguf')}"
    arguments = given({**locals(), "out": writable(out or usual)})
    del arguments["usual"]
    from leanformer.inheriting.inherit import inherit as run

    lean = run(**arguments, progress=True)
    show(cast(Any, lean).inheritance, as_json)
    place = str(arguments["out"])
    line = f"lf.from_pretrained({place!r}) loads the model"
    messages.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)
