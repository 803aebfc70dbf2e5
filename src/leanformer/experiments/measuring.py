"""Measure a model, however it is given: by name, by folder, as an architecture or as a module."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args, overload

from jaxtyping import Shaped
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.conditioning import probing
from leanformer.conditioning.heads import HeadsMeasurement, initialised, measure_heads
from leanformer.conditioning.inputs import Inputs, choose_inputs
from leanformer.conditioning.measurement import (
    Measurement,
    Precision,
    Ranks,
    load,
    measure_module,
    measurement_of,
    origin,
    ranks_of_module,
)
from leanformer.conditioning.probing import Call, Probe, Rule
from leanformer.foundation.arguments import ArgumentError, check_types, numbers, writable
from leanformer.foundation.progress import RunsProgress, working
from leanformer.foundation.records.keeping import publish
from leanformer.models import families
from leanformer.models.weights import load_weights
from leanformer.training.run import held_out_inputs, is_run

FILES = {"measurement": "kappa_by_layer.json", "heads": "kappa_by_heads.json", "ranks": "rank_by_layer.json"}
"""By kind of record, its file."""
OWN, GIVEN = "a batch of your own", "as given"
"""Where inputs and weights come from that the caller has made."""

Model = str | Path | Architecture | nn.Module
Heads = str | int | Sequence[int]


@overload
def measure(
    model: nn.Module,
    batch: Tensor | tuple[Any, ...] | list[Any] | dict[str, Any] | Call,
    projections: Rule | None = None,
    mask: Shaped[Tensor, "batch tokens"] | None = None,
    *,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Probe: ...


@overload
def measure(
    model: str | Path | Architecture,
    batch: int = 8,
    *,
    heads: Heads,
    depth: int | None = None,
    images: str | Path | None = None,
    text: str | Path | None = None,
    random: bool = False,
    tokens: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> HeadsMeasurement: ...


@overload
def measure(
    model: Model,
    *,
    rank: Literal[True],
    checkpoint: str | Path | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Ranks: ...


@overload
def measure(
    model: Model,
    batch: int = 8,
    projections: Rule | None = None,
    *,
    checkpoint: str | Path | None = None,
    images: str | Path | None = None,
    text: str | Path | None = None,
    random: bool = False,
    tokens: int | None = None,
    dtype: Precision | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Measurement: ...


def measure(
    model: Model,
    batch: Any = 8,
    projections: Rule | None = None,
    mask: Shaped[Tensor, "batch tokens"] | None = None,
    *,
    checkpoint: str | Path | None = None,
    images: str | Path | None = None,
    text: str | Path | None = None,
    random: bool = False,
    tokens: int | None = None,
    heads: Heads | None = None,
    depth: int | None = None,
    rank: bool = False,
    dtype: Precision | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Probe | Measurement | HeadsMeasurement | Ranks:
    """κ of every attention block: at initialisation, of a checkpoint, or of a module of your own.

    >>> lf.measure("vit_base_patch16_224")  # a Measurement: κ layer by layer, beside the Gaussian prediction
    >>> lf.measure(model, batch)  # a Probe: κ of every sample of your batch
    >>> lf.measure("vit_base_patch16_224", heads="2-18", depth=2)  # a HeadsMeasurement: κ against heads
    >>> lf.measure("path/to/run", rank=True)  # Ranks: how many directions each head's W_Q W_Kᵀ uses

    A module is left as it was: its modes, gradients and buffers, and the state of every random generator. It runs in
    evaluation mode and without autocast.

    Args:
        model: a name as for `lf.create` or of any timm model, the folder of a saved model or of a run, an architecture,
            or any module that `lf.probe` understands.
        batch: how many images or passages to measure on; or a batch of your own in a form that the model takes (a
            tensor, a tuple of arguments, a mapping of keyword arguments).
        projections: for a model whose attention is not found, patterns of its output projections; see `lf.probe`.
        mask: for a batch of your own, True on true tokens. A batch with an `attention_mask` or `lengths` needs none.
        checkpoint: weights to load: a folder, .safetensors or .pt.
        images, text, random: measure on the images of a folder, on passages of a text file, or on random inputs. By
            default on held-out samples of a run, on real text if there is a tokenizer, otherwise on noise.
        tokens: tokens per passage [default: 128, or what the model takes].
        heads: measure these numbers of heads at initialisation, in both regimes: [2, 4, 8] or "2-18".
        depth: layers to build with `heads` [default: all].
        rank: measure the rank of W_Q W_Kᵀ of every head instead of κ.
        dtype: compute in "float32" or "float64" [default: the weights' precision]; float64 shows κ that rounding hides.
        seed: of initial weights and random inputs.
        out: a folder to write the record and its figure to; by default nothing is written.
        progress: whether to show what is being done; by default where a person is watching.
    """
    check_types(
        locals(),
        model=(
            lambda value: isinstance(value, (str, Path, Architecture, nn.Module)),
            "a name, a folder, an architecture or a module",
        ),
        batch=(lambda value: not isinstance(value, (str, bool)), "a whole number or a batch of your own"),
        dtype=(lambda value: value in get_args(Precision), " or ".join(get_args(Precision))),
    )
    own = None if _is_count(batch) else Inputs(batch, OWN)
    choice = {"images": images, "text": text, "random": random, "tokens": tokens}
    _check(
        model,
        own_batch=own is not None,
        inputs=any(value not in (None, False) for value in choice.values()),
        given=dict(heads=heads, depth=depth, rank=rank or None, projections=projections, dtype=dtype, mask=mask),
        checkpoint=checkpoint,
    )
    counts = None if heads is None else numbers("heads", heads)
    folder = None if out is None else writable(Path(out))
    if isinstance(model, nn.Module) and own is not None and dtype is None and checkpoint is None:
        seen = probing.measure(model, batch, projections, mask)
        if folder is not None:
            _write(measurement_of(seen, _name(model), GIVEN, OWN), folder, progress)
        return seen
    found: Measurement | HeadsMeasurement | Ranks
    with working(f"measuring {_name(model)}", progress) as step:
        if counts is not None:
            named = model if isinstance(model, Architecture) else str(model)
            found = measure_heads(named, counts, depth=depth, seed=seed, progress=step, batch=batch, **_paths(choice))
        else:
            loaded, weights = _loaded(model, checkpoint, seed, copied=dtype is not None or checkpoint is not None)
            if rank:
                found = ranks_of_module(loaded, _name(model), weights)
            else:
                inputs = own or _inputs(model, loaded, batch, seed, choice)
                found = measure_module(loaded, inputs, _name(model), weights, projections, dtype)
    if folder is not None:
        _write(found, folder, progress)
    return found


def _is_count(batch: Any) -> bool:
    return isinstance(batch, Integral) and not isinstance(batch, bool)


def _check(
    model: Model, *, own_batch: bool, inputs: bool, given: dict[str, Any], checkpoint: str | Path | None
) -> None:
    """Arguments that exclude each other."""
    has = {name for name, value in given.items() if value is not None}
    if "rank" in has and (own_batch or inputs or has > {"rank"}):
        raise ArgumentError(
            "{rank} reads the weights alone: it takes no {heads}, {depth}, {projections}, {dtype} or inputs"
        )
    if "heads" in has and (own_batch or checkpoint is not None or has - {"heads", "depth"}):
        raise ArgumentError("{heads} measures at initialisation: it takes no {checkpoint}, {projections} or {dtype}")
    if "heads" in has and isinstance(model, nn.Module):
        raise ArgumentError("{heads} builds the model again: give its name or its architecture, not a module")
    if "depth" in has and "heads" not in has:
        raise ArgumentError("{depth} goes with {heads}")
    if own_batch and inputs:
        raise ArgumentError("a {batch} of your own leaves no choice of {images}, {text}, {random} or {tokens}")
    if "mask" in has and not (own_batch and isinstance(model, nn.Module)):
        raise ArgumentError("{mask} goes with a module and a {batch} of your own")


def _name(model: Model) -> str:
    if isinstance(model, nn.Module):
        return type(model).__name__
    return model.name if isinstance(model, Architecture) else str(model)


def _paths(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: Path(value) if isinstance(value, str) else value for name, value in choice.items()}


def _loaded(model: Model, checkpoint: str | Path | None, seed: int, copied: bool) -> tuple[nn.Module, str]:
    """The module to measure, and where its weights came from."""
    file = None if checkpoint is None else Path(checkpoint)
    if isinstance(model, (str, Path)):
        return load(str(model), file, seed), origin(str(model), file, seed)
    fresh = isinstance(model, Architecture)
    loaded = initialised(model, seed) if isinstance(model, Architecture) else copy.deepcopy(model) if copied else model
    if file is not None:
        load_weights(loaded, file)
    return loaded, str(file) if file is not None else f"initial, seed {seed}" if fresh else GIVEN


def _inputs(model: Model, loaded: nn.Module, count: int, seed: int, choice: dict[str, Any]) -> Inputs:
    by_default = all(value in (None, False) for value in choice.values())
    if by_default and isinstance(model, (str, Path)) and is_run(Path(model)):
        return held_out_inputs(Path(model), count)
    if isinstance(model, nn.Module) and not _is_known(model):
        raise ArgumentError(
            "{kind} belongs to no known family, so its inputs are not known: give a {batch} of your own",
            kind=type(model).__name__,
        )
    return choose_inputs(loaded, _name(model), batch=count, seed=seed, **_paths(choice))


def _is_known(model: nn.Module) -> bool:
    """Whether the inputs that a module takes can be read from it."""
    if hasattr(model, "config") or hasattr(model, "pretrained_cfg"):
        return True
    try:
        families.of(model)
    except ValueError:
        return False
    return True


def _write(record: Measurement | HeadsMeasurement | Ranks, folder: Path, progress: bool | None) -> None:
    publish(record, folder / FILES[record.kind], say=RunsProgress(progress).say)
