"""Families by name: read the architecture of a known model, build any variant of it, find its attention.

A family is one class by the shape of `leanformer.models.base.Family`. Those of this package are listed below; other
packages add theirs through the entry-point group `leanformer.families` or with `@FAMILIES.register("name")`, and they
take part in everything in the same way. A family, with timm or transformers, is imported when a name or a module asks
for it.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from leanformer.architecture import RENAMED_FAMILIES, Architecture
from leanformer.foundation.registry import Registry
from leanformer.models.base import UNSUITABLE, AttentionBlock, Family, Inputs, first_line
from leanformer.models.options import check_options
from leanformer.models.published import LEAN_MODELS
from leanformer.models.refusals import why_unknown, without_organisation

FAMILIES: Registry[type[Family]] = Registry(
    "family",
    group="leanformer.families",
    own={
        "vit": "leanformer.models.timm.vit:ViT",
        "xcit": "leanformer.models.timm.xcit:XCiT",
        "tnt": "leanformer.models.timm.tnt:TNT",
        "volo": "leanformer.models.timm.volo:VOLO",
        "davit": "leanformer.models.timm.davit:DaViT",
        "swin": "leanformer.models.timm.swin:Swin",
        "crammed-bert": "leanformer.models.own.crammed_bert:CrammedBert",
        "story-gpt": "leanformer.models.own.story_gpt:StoryGPT",
        "nystromformer": "leanformer.models.own.nystromformer:Nystromformer",
        "gpt2": "leanformer.models.huggingface.gpt2:GPT2",
        "bert": "leanformer.models.huggingface.bert:Bert",
        "roberta": "leanformer.models.huggingface.roberta:Roberta",
        "distilbert": "leanformer.models.huggingface.distilbert:DistilBert",
        "modernbert": "leanformer.models.huggingface.modernbert:ModernBert",
        "hf-vit": "leanformer.models.huggingface.vit:HuggingFaceViT",
        "dinov2": "leanformer.models.huggingface.dinov2:Dinov2",
        "decoder": "leanformer.models.huggingface.decoder:Decoder",
        "point-encoder": "leanformer.models.own.point_encoder:PointEncoder",
    },
    renamed=RENAMED_FAMILIES,
)
"""Family classes; each is registered under its `key`."""

_INSTANCES: dict[type[Family], Family] = {}

__all__ = [
    "FAMILIES",
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
    "known_names",
    "longest_text",
    "of",
    "only_upstream_knows",
    "read",
    "register",
]


def family(key: str) -> Family:
    """The family of that name. Names stand in files too, so one that points at a file of code is not simply run."""
    found = FAMILIES.get(key, from_record=True)
    if found not in _INSTANCES:
        if not (isinstance(found, type) and issubclass(found, Family)):
            raise ValueError(f'"{key}" is not a family: {found!r} must be a subclass of leanformer.models.Family')
        if ":" not in key and found.key != FAMILIES.current_name(key):
            raise ValueError(f'the family "{key}" has the key "{found.key}": register it under its key')
        _INSTANCES.setdefault(found, found())
    return _INSTANCES[found]


def _all(without: str = "") -> Iterator[Family]:
    """Every family; one of an installed package that cannot be loaded is warned of and passed over.

    Those whose module begins with `without` are left out, and are not imported.
    """
    for key in FAMILIES.names():
        if without and FAMILIES.reference(key).startswith(without):
            continue
        try:
            yield family(key)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)


def register(without: str = "") -> None:
    """Register every family's classes with the library that they extend; doing so again changes nothing."""
    for each in _all(without):
        each.register()


def known_names() -> dict[str, list[str]]:
    """The model names that each family knows."""
    return {each.key: list(each.names()) for each in _all()}


def find(name: str) -> Family:
    """The family that knows a model name."""
    for each in _all():
        if each.known(name):
            return each
    everything = [known for listed in known_names().values() for known in listed]
    raise ValueError(why_unknown(name, [*everything, *LEAN_MODELS], FAMILIES.names()))


def of(model: nn.Module) -> Family:
    """The family that a module belongs to: the one that built it, else the first that knows its class."""
    built_as = getattr(model, "architecture", None)
    if isinstance(built_as, Architecture):
        return family(built_as.family)
    for each in _all():
        if each.owns(model):
            return each
    raise ValueError(f"{type(model).__name__} belongs to no known family ({', '.join(FAMILIES.names())})")


def read(name: str, **options: Any) -> Architecture:
    """The architecture of a known name."""
    name = without_organisation(name)
    found = find(name)
    check_options(options, name)
    try:
        return found.read(name, **options)
    except UNSUITABLE as error:
        given = ", ".join(f"{option}={value!r:.60}" for option, value in options.items())
        raise ValueError(f"{name} cannot be built with {given or 'its own options'}: {first_line(error)}") from error


def build(architecture: Architecture, device: torch.device | str | None = None) -> nn.Module:
    """A module of exactly this architecture, freshly initialised; `device="meta"` gives shapes without weights."""
    return family(architecture.family).build(architecture, device)


def describe(model: nn.Module) -> Architecture:
    """The architecture of a module of a known family."""
    return of(model).describe(model)


def attention_blocks(model: nn.Module) -> list[AttentionBlock]:
    """Where a module's heads are concatenated, layer by layer."""
    return of(model).attention_blocks(model)


def example_inputs(architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
    """Random inputs of the right shape, by the name of the module's argument; `tokens` is the length of a text."""
    return family(architecture.family).example_inputs(architecture, batch, tokens)


# What timm and transformers have beyond the families


def only_upstream_knows(name: str) -> bool:
    """Whether timm has a model of that name whose layers no family here can resize; it can still be measured."""
    from leanformer.models.timm.base import upstream_has

    return upstream_has(name) and not any(name in each.names() for each in _all())


def create_upstream(name: str) -> nn.Module:
    """timm's model of that name, as it is."""
    from leanformer.models.timm import base

    return base.create_upstream(name)


def hugging_face_config() -> type:
    """The class of all Hugging Face configs, by which their models are recognised."""
    return importlib.import_module("leanformer.models.huggingface.base").PreTrainedConfig


def longest_text(config: Any) -> int:
    """How many tokens a Hugging Face model takes."""
    return int(importlib.import_module("leanformer.models.huggingface.base").longest_text(config))


def attention_interface(see: Callable[[nn.Module, torch.Tensor], None]) -> AbstractContextManager[None]:
    """While it is open, every Hugging Face attention shows its heads (batch, tokens, heads, head_dim) to `see`."""
    return importlib.import_module("leanformer.models.huggingface.base").attention_interface(see)
