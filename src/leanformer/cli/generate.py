"""`leanformer generate`: text of a trained language model."""

from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, Seed, app, print_json


@app.command()
def generate(
    run: Annotated[Path, typer.Argument(help="A run on texts, or a saved causal model with its tokenizer.json.")],
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "Once upon a time",
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens to write at most.")] = 200,
    temperature: Annotated[
        float, typer.Option(min=0, help="0 takes the likeliest token; 1 samples from the model's distribution.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(min=1, help="Sample only from this many likeliest tokens.")] = 50,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let a trained language model write, so that a person can read what it learned."""
    from leanformer.models.generation import generate as write

    pieces = write(run, prompt, tokens, temperature, top_k, seed)
    if as_json:
        print_json({"prompt": prompt, "text": "".join(pieces), "seed": seed})
        return
    first = next(pieces, "")  # bad input is reported before anything is printed
    print(prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
