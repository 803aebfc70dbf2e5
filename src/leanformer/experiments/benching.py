"""Time designs side by side on this machine, given by name, by folder, by sizes or as architectures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.costs.setting import Optimizer, Setting
from leanformer.costs.speed import ORIGINAL, WORKLOADS, Bench, Workload, bench_designs
from leanformer.costs.tracing import Precision
from leanformer.designing.plan import design
from leanformer.experiments.overrides import Sizes, redesigned
from leanformer.foundation.arguments import ArgumentError, check_types, writable
from leanformer.foundation.progress import RunsProgress, working
from leanformer.foundation.records.keeping import publish
from leanformer.foundation.yaml_files import is_yaml
from leanformer.models import families
from leanformer.models.base import Attention
from leanformer.models.names import architecture_of
from leanformer.models.weights import is_saved
from leanformer.training.randomness import process_state_kept, seed_everything

RECORD = "bench.json"
RECOMMENDED = "recommended"
"""In place of sizes: what `lf.design` recommends."""
Model = str | Path | Architecture | nn.Module


def bench(
    model: Model,
    against: Sizes | Sequence[Sizes] | None = None,
    *,
    what: str | Sequence[str] | None = None,
    batch: int = 8,
    tokens: int | None = None,
    decode: int | None = None,
    precision: Precision = "float32",
    attention: Attention = "fused",
    checkpointing: bool = False,
    optimizer: Optimizer = "adamw",
    device: str | None = None,
    threads: int | None = None,
    seconds: float = 20.0,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Bench:
    """How fast a model trains, predicts and decodes on this machine, and other designs of it beside it.

    >>> lf.bench("vit_base_patch16_224", against="depth=7,heads=16,mlp_dim=1536")
    >>> lf.bench("gpt2", against=["recommended", {"depth": 6}], what="decoding")

    All designs have fresh weights and random inputs and are timed in turns, so that other work on the machine affects
    all of them. Ratios are of times in the same round, with a 95 % interval over rounds. Parameters, MACs and training
    memory are counted; with CUDA, memory is measured if training is timed.

    Args:
        model: a name as for `lf.create`, the folder of a saved model or of a run, an architecture, or a module of a
            known family.
        against: designs to compare with: other sizes, as in "depth=7,heads=16", a mapping, an architecture, a YAML file
            of `leanformer design --emit yaml`, the name or the folder of another model that takes the same inputs, or
            "recommended" for what `lf.design` recommends; or several of them.
        what: of training, inference, latency and decoding [default: all that the models can do].
        batch: samples of a training step and of inference; latency takes one sample, decoding one text.
        tokens: tokens per text [default: 128, or what the model takes].
        decode: tokens of a generated text, if text is decoded [default: 64, or what fits].
        precision: "float32", or "bfloat16" for autocast.
        attention: "fused", or "explicit" for products that keep the weights.
        checkpointing: whether training recomputes activations.
        optimizer: "adamw", "sgd" or "none".
        device: such as "cpu" or "cuda:1" [default: a GPU if there is one]. All designs are on it together.
        threads: CPU threads [default: as they are].
        seconds: about how long each workload is timed, all designs together. Large models take longer: there are at
            least six rounds, and a multiple of twice the number of designs, so that none gains from its place.
        seed: of weights and inputs.
        out: a folder for bench.json and its figure; by default nothing is written.
        progress: whether to show what is being timed; by default where a person is watching.
    """
    check_types(
        locals(),
        model=(
            lambda value: isinstance(value, (str, Path, Architecture, nn.Module)),
            "a name, a folder, an architecture or a module",
        ),
        against=(_is_designs, "sizes, an architecture, a YAML file, recommended, or several of these"),
        what=(_are_words, "words"),
        **dict.fromkeys(("batch", "tokens", "decode", "threads"), (_is_count, "a whole number from 1 on")),
        seed=(lambda value: value == 0 or _is_count(value), "a whole number from 0 on"),
        checkpointing=(lambda value: isinstance(value, bool), "true or false"),
        seconds=(lambda value: isinstance(value, (int, float)) and 0 < value < float("inf"), "a positive number"),
    )
    setting = Setting(
        batch=batch,
        tokens=tokens,
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
        optimizer=optimizer,
    )
    folder = None if out is None else writable(Path(out))
    original = _architecture(model)
    designs = {ORIGINAL: original, **_others(original, against)}
    name = original.name if isinstance(model, (Architecture, nn.Module)) else str(model)
    with process_state_kept(), working(f"timing {name}", progress) as step:
        if threads is not None:
            torch.set_num_threads(threads)
        seed_everything(seed)
        record = bench_designs(
            designs,
            setting,
            model=name,
            workloads=_workloads(what),
            decoded=decode,
            device=_device(device),
            seconds=seconds,
            progress=step,
        )
    if folder is not None:
        publish(record, folder / RECORD, say=RunsProgress(progress).say)
    return record


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _are_words(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Sequence) and all(isinstance(word, str) for word in value))


def _is_designs(value: Any) -> bool:
    several = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(one, (str, Path, Mapping, Architecture)) for one in several)


def _architecture(model: Model) -> Architecture:
    if isinstance(model, Architecture):
        return families.family(model.family).canonical(model)
    return families.describe(model) if isinstance(model, nn.Module) else architecture_of(str(model))


def _others(original: Architecture, against: Sizes | Sequence[Sizes] | None) -> dict[str, Architecture]:
    """The other designs by what they are called: as they were typed, or by their sizes."""
    if against is None:
        return {}
    found: dict[str, Architecture] = {}
    for sizes in [against] if isinstance(against, (str, Path, Mapping, Architecture)) else against:
        other = _other(original, sizes)
        other = families.family(other.family).canonical(other)
        name = _name_of(sizes, other)
        if other == original:
            raise ArgumentError("{against}: {name} is the original", name=name)
        if other in found.values():
            raise ArgumentError("{against}: {name} is there already", name=name)
        found[name if name not in found else f"{name} ({len(found) + 1})"] = other
    return found


def _other(original: Architecture, sizes: Sizes) -> Architecture:
    """The original with other sizes, or another model."""
    if sizes == RECOMMENDED:
        return design(original, progress=False).recommended.architecture
    if isinstance(sizes, (str, Path)) and not is_yaml(sizes) and (is_saved(sizes) or "=" not in str(sizes)):
        return architecture_of(str(sizes))
    return redesigned(original, sizes)


def _name_of(sizes: Sizes, other: Architecture) -> str:
    """Sizes as they are typed; an architecture by what it is."""
    if isinstance(sizes, (str, Path)):
        return str(sizes)
    if isinstance(sizes, Mapping):
        return ",".join(f"{name}={value}" for name, value in sizes.items())
    return "; ".join(map(str, other.stages))


def _workloads(what: str | Sequence[str] | None) -> tuple[Workload, ...] | None:
    if what is None:
        return None
    asked = [part.strip() for part in what.split(",")] if isinstance(what, str) else list(what)
    if not asked or not set(asked) <= set(WORKLOADS):
        listed, given = ", ".join(WORKLOADS), ", ".join(asked)
        raise ArgumentError("{what} takes some of {listed}, got {given!r}", listed=listed, given=given)
    return tuple(one for one in WORKLOADS if one in asked)


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ArgumentError("{device} {name} cannot be used here: {reason}", name=repr(name), reason=reason) from error
    if device.type == "meta":
        raise ArgumentError("{device} 'meta' computes nothing, so nothing can be timed there")
    return device
