"""Measure a model by name: load it, feed it, and record κ by layer beside the Gaussian prediction.

May import probing, ranks, theory, zoo, weights, inputs, runs and records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from leanformer.architecture import REGIMES, Keep
from leanformer.conditioning import gaussian as theory
from leanformer.conditioning import inputs
from leanformer.conditioning.inputs import Inputs
from leanformer.conditioning.probing import measure
from leanformer.conditioning.query_key import query_key_ranks
from leanformer.models import names as zoo
from leanformer.models import registry as families
from leanformer.models.weights import from_pretrained, load_weights
from leanformer.records.circumstances import circumstances
from leanformer.records.numbers import quantiles


def load(name: str, checkpoint: Path | None = None, seed: int = 0) -> nn.Module:
    """A model by name, freshly initialised or from a checkpoint, or by folder, with the weights in it."""
    torch.manual_seed(seed)
    if Path(name).is_dir():
        model = from_pretrained(name)
    else:
        model = families.create_upstream(name) if families.only_upstream_knows(name) else zoo.create(name)
    if checkpoint is not None:
        load_weights(model, checkpoint)
    return model


def choose_inputs(
    model: nn.Module,
    name: str,
    *,
    images: Path | None = None,
    text: Path | None = None,
    random: bool = False,
    batch: int = 8,
    tokens: int | None = None,
    seed: int = 0,
) -> Inputs:
    """What was asked for; by default real text for a model with a tokenizer, and noise of the right shape otherwise."""
    if sum((images is not None, text is not None, random)) > 1:
        raise ValueError("--images, --text and --random exclude each other")
    if batch < 1:
        raise ValueError(f"--batch must be at least 1, got {batch}")
    config = getattr(model, "config", None)
    if hasattr(config, "point_dim"):
        if images is not None or text is not None:
            raise ValueError(f"{name} takes points: it is measured on random ones")
        return inputs.random_points(families.describe(model), batch, tokens, seed)
    if config is None or not hasattr(config, "vocab_size"):
        if text is not None or tokens is not None:
            raise ValueError(f"{name} takes images: give --images DIR or --random, and no --text or --tokens")
        return inputs.from_images(model, images, batch) if images else inputs.random_images(model, batch, seed)
    if images is not None:
        raise ValueError(f"{name} takes text: give --text FILE or --random")
    return _choose_text(model, name, text, random, batch, tokens, seed)


def _choose_text(
    model: nn.Module, name: str, text: Path | None, random: bool, batch: int, tokens: int | None, seed: int
) -> Inputs:
    config = cast(Any, model.config)
    longest = cast(int, getattr(config, "max_position_embeddings", 128))
    tokens = min(longest, 128) if tokens is None else tokens
    if tokens < 1:
        raise ValueError(f"--tokens must be at least 1, got {tokens}")
    if getattr(config, "two_towers", False):
        raise ValueError(f"{name} takes pairs of documents: measure it in Python, with lf.measure(model, batch)")
    if tokens > longest:
        raise ValueError(f"--tokens {tokens} is more than {name} takes: {longest}")
    folder = Path(name) if Path(name).is_dir() else None
    tokenizer = None if random else inputs.tokenizer_of(model, folder)
    if tokenizer is None or (text is None and isinstance(tokenizer, inputs.Bytes)):
        if text is not None:
            raise ValueError(f"{name} brings no tokenizer (tokenizer.json, vocab.txt or vocab.json): use --random")
        return inputs.random_tokens(config, batch, tokens, seed)
    if text is not None:
        return inputs.from_text(tokenizer, inputs.read_text(text), str(text), batch, tokens)
    return inputs.from_text(tokenizer, inputs.embedded_text(), "Python's documentation", batch, tokens)


def measure_named(
    name: str,
    checkpoint: Path | None = None,
    seed: int = 0,
    projections: str | None = None,
    inputs: Inputs | None = None,
    **choice: Any,
) -> dict[str, Any]:
    """The record of `leanformer measure`: κ layer by layer with the Gaussian prediction beside it."""
    model = load(name, checkpoint, seed)
    chosen = inputs or choose_inputs(model, name, seed=seed, **choice)
    layers = measure(model, chosen.batch, projections=projections).summaries()
    for layer in layers:
        layer["gaussian"] = math.exp(theory.expected_log_kappa(layer["tokens"], layer["columns"]))
    return {
        "kind": "measurement",
        "model": name,
        "weights": _weights(name, checkpoint, seed),
        "inputs": chosen.source,
        "layers": layers,
        "warnings": warnings(layers),
        **circumstances().model_dump(),
    }


def measure_ranks(name: str, checkpoint: Path | None = None, seed: int = 0) -> dict[str, Any]:
    """The record of `leanformer measure --rank`: the rank of W_Q W_Kᵀ, head by head, from the weights alone."""
    layers = query_key_ranks(load(name, checkpoint, seed))
    if not layers:
        raise ValueError(f"{name} has no attention whose weights of queries and keys are known by their names")
    return {
        "kind": "ranks",
        "model": name,
        "weights": _weights(name, checkpoint, seed),
        "layers": layers,
        **circumstances().model_dump(),
    }


def _weights(name: str, checkpoint: Path | None, seed: int) -> str:
    return str(checkpoint) if checkpoint else "as saved" if Path(name).is_dir() else f"initial, seed {seed}"


def warnings(layers: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader of these numbers should know."""
    found = []
    near = {(layer["tokens"], layer["columns"], layer["head_dim"]) for layer in layers if _near_cliff(layer)}
    for tokens, columns, head_dim in sorted(near, key=str):
        clear = (
            ""
            if head_dim is None
            else f"; {theory.safe_heads(tokens, head_dim)} heads of {head_dim} and more are clear"
        )
        found.append(
            f"{columns} columns beside {tokens} tokens are near the square, where any block is worst conditioned{clear}"
        )
    if limited := sum(layer["limited_by_dtype"] for layer in layers):
        found.append(f"{limited} values are as large as the weights' precision allows: the true κ may be larger")
    if deficient := sum(layer["rank_deficient"] for layer in layers):
        found.append(f"{deficient} blocks have not full rank: their κ is infinite")
    return found


def _near_cliff(layer: dict[str, Any]) -> bool:
    return theory.near_cliff(layer["tokens"], layer["columns"])


def measure_heads(
    name: str,
    heads: Sequence[int],
    *,
    regimes: Sequence[Keep] = ("head_dim", "width"),
    depth: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
    **choice: Any,
) -> dict[str, Any]:
    """κ against heads at initialisation: the form of the paper's Fig. 2, with the two regimes told apart."""
    base = zoo.architecture_of(name)
    if len(base.stages) > 1:
        raise ValueError(f"--heads takes models of one stage; {name} has {len(base.stages)}")
    if depth is not None:
        base = base.with_depth(depth)
    rows: list[dict[str, Any]] = []
    chosen = None
    for keep in regimes:
        for count in heads:
            if keep == "width" and base.stages[0].width % count:
                continue
            progress(f"{REGIMES[keep]}, {count} heads")
            torch.manual_seed(seed)
            model = families.build(base.with_heads(count, keep))
            chosen = chosen or choose_inputs(model, name, seed=seed, **choice)
            layers = measure(model, chosen.batch).summaries()
            medians = [layer["kappa"]["median"] for layer in layers]
            first = layers[0]
            rows.append(
                {
                    "regime": REGIMES[keep],
                    "heads": count,
                    "head_dim": first["head_dim"],
                    "tokens": first["tokens"],
                    "columns": first["columns"],
                    "kappa": quantiles(medians, [0.5])[0],
                    "lowest_layer": min(medians),
                    "highest_layer": max(medians),
                    "mean_over_layers": sum(layer["kappa"]["mean"] for layer in layers) / len(layers),
                    "gaussian": math.exp(theory.expected_log_kappa(first["tokens"], first["columns"])),
                }
            )
    if not rows or chosen is None:
        raise ValueError(f"--heads: none of {list(heads)} divides the width {base.stages[0].width} of {name}")
    return {
        "kind": "heads",
        "model": name,
        "depth": base.depth,
        "weights": f"initial, seed {seed}",
        "inputs": chosen.source,
        "rows": rows,
        **circumstances().model_dump(),
    }


def theory_record(
    tokens: int, head_dim: int, heads: Sequence[int], samples: int, seed: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """The record of `leanformer theory`: formula against exact sampling as heads of one size are added."""
    rows = []
    for count in heads:
        columns = count * head_dim
        progress(f"{count} heads")
        simulated = theory.sample(tokens, columns, samples, seed)
        rows.append(
            {
                "heads": count,
                "columns": columns,
                "edge": theory.edge_kappa(tokens, columns),
                "finite": theory.finite_kappa(tokens, columns),
                "expected": math.exp(theory.expected_log_kappa(tokens, columns)),
                "simulated": math.exp(simulated.mean_log),
                "simulated_interval": [
                    math.exp(simulated.mean_log + sign * 1.96 * simulated.mean_log_error) for sign in (-1, 1)
                ],
                "median": simulated.median,
                "quartiles": [simulated.lower_quartile, simulated.upper_quartile],
                "smallest_sigma": simulated.smallest_sigma,
            }
        )
    dense = sorted(
        {*(round(head_dim * (max(heads) ** (i / 300))) for i in range(301)), tokens, *(r["columns"] for r in rows)}
    )
    return {
        "kind": "theory",
        "tokens": tokens,
        "head_dim": head_dim,
        "samples": samples,
        "seed": seed,
        "rows": rows,
        "curve": {
            "columns": dense,
            "edge": [theory.edge_kappa(tokens, columns) for columns in dense],
            "expected": [math.exp(theory.expected_log_kappa(tokens, columns)) for columns in dense],
        },
        **circumstances().model_dump(),
    }
