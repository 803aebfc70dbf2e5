"""One file per architecture family: read an architecture off a known name, build any variant, find its attention.

Models of timm and transformers are imported in these rooms only, each only when a name or a module asks for it. To add
a family, write its file by the shape of its neighbours and add a line to `ROOMS`.
"""

import difflib
import functools
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionBlock, Family
from leanformer.models.torchvision import ensure_importable

ensure_importable()

ROOMS = {
    "vit": "timm.vit.ViT",
    "xcit": "timm.xcit.XCiT",
    "tnt": "timm.tnt.TNT",
    "volo": "timm.volo.VOLO",
    "davit": "timm.davit.DaViT",
    "crammed-bert": "own.crammed_bert.CrammedBert",
    "stories": "own.story_gpt.Stories",
    "nystromformer": "own.nystromformer.Nystromformer",
    "gpt2": "huggingface.gpt2.GPT2",
    "bert": "huggingface.bert.Bert",
    "decoder": "huggingface.decoder.Decoder",
    "points": "own.point_encoder.Points",
}

__all__ = [
    "ROOMS",
    "AttentionBlock",
    "Family",
    "attention_blocks",
    "attention_interface",
    "build",
    "create_upstream",
    "describe",
    "example_inputs",
    "family",
    "find",
    "hugging_face_config",
    "names",
    "of",
    "only_upstream_knows",
    "read",
    "register",
]


@functools.cache
def family(key: str) -> Family:
    """The family of that key."""
    if key not in ROOMS:
        raise ValueError(f"unknown family {key!r}; there are {', '.join(ROOMS)}")
    module, _, name = ROOMS[key].rpartition(".")
    return getattr(importlib.import_module(f"leanformer.models.{module}"), name)()


@functools.cache
def register() -> None:
    """Make every family's classes known to the library that they extend."""
    for key in ROOMS:
        family(key).register()


def names() -> dict[str, list[str]]:
    """The model names each family knows."""
    return {key: list(family(key).names()) for key in ROOMS}


def find(name: str) -> Family:
    """The family that knows a model name."""
    for key in ROOMS:
        if family(key).known(name):
            return family(key)
    everything = [known for listed in names().values() for known in listed]
    near = difflib.get_close_matches(name, everything, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`leanformer models` lists them"
    raise ValueError(f"unknown model {name!r}: {hint}")


def of(model: nn.Module) -> Family:
    """The family that a module belongs to."""
    for key in ROOMS:
        if family(key).owns(model):
            return family(key)
    raise ValueError(f"{type(model).__name__} belongs to no known family ({', '.join(ROOMS)})")


def read(name: str, **options: Any) -> Architecture:
    """The architecture of a known name."""
    name = name.removeprefix("openai-community/").removeprefix("google-bert/")
    return find(name).read(name, **options)


def build(architecture: Architecture, device: torch.device | str | None = None) -> nn.Module:
    """A module of exactly this architecture, freshly initialised; `device="meta"` gives shapes without weights."""
    return family(architecture.family).build(architecture, device)


def describe(model: nn.Module) -> Architecture:
    """The architecture of a module of a known family."""
    return of(model).describe(model)


def attention_blocks(model: nn.Module) -> list[AttentionBlock]:
    """Where a module's heads are concatenated, layer by layer."""
    return of(model).attention_blocks(model)


def only_upstream_knows(name: str) -> bool:
    """Whether timm has a model of that name whose layers no family here can resize; it can still be measured."""
    from leanformer.models.timm import base as _timm

    return _timm.upstream_has(name) and name not in {known for key in ROOMS for known in family(key).names()}


def create_upstream(name: str) -> nn.Module:
    """timm's model of that name, as it is."""
    from leanformer.models.timm import base as _timm

    return _timm.create_upstream(name)


def hugging_face_config() -> type:
    """The class of all Hugging Face configs, by which their models are known."""
    return importlib.import_module("leanformer.models.huggingface.base").PreTrainedConfig


def attention_interface(see: Callable[[nn.Module, torch.Tensor], None]) -> AbstractContextManager[None]:
    """While it is open, every Hugging Face attention shows its heads (batch, tokens, heads, head_dim) to `see`."""
    return importlib.import_module("leanformer.models.huggingface.base").attention_interface(see)


def example_inputs(architecture: Architecture, batch: int = 2, tokens: int | None = None) -> dict[str, torch.Tensor]:
    """Random inputs of the right shape, by the name of the module's argument; `tokens` is a text's length."""
    return family(architecture.family).example_inputs(architecture, batch, tokens)
