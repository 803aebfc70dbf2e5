"""What the families of Hugging Face models share: the architecture travels in the config, and resizing keeps upstream's
classes.

A config's `architecture` field holds the plain description, so `save_pretrained` and the Auto classes rebuild exactly
what was planned, per-layer schedules included.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    masking_utils,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Attention, Family, Part


class HuggingFaceFamily(Family):
    """A family whose modules are `PreTrainedModel`s with an architecture in their config."""

    catalogue: ClassVar[Mapping[str, tuple[tuple[Stage, ...], dict[str, Any]]]]
    """Known names, each with its stages and the config fields that differ from the defaults."""
    config_class: ClassVar[type[PreTrainedConfig]]
    model_class: ClassVar[type[PreTrainedModel]]
    """What `build` makes."""
    base_class: ClassVar[type[PreTrainedModel]]
    """What all the family's models are."""
    auto_classes: ClassVar[Mapping[Any, type[PreTrainedModel]]] = {}
    """Our class for each of transformers' Auto classes."""
    kernels_by_config: ClassVar[bool] = True
    """Whether `attn_implementation` chooses the attention kernel."""

    def names(self) -> Sequence[str]:
        return list(self.catalogue)

    def read(self, name: str, **options: Any) -> Architecture:
        self.refuse(options)
        check_fields(self.config_class(), options)
        stages, _ = self.catalogue[name]
        return Architecture(family=self.key, name=name, stages=stages, options=options)

    def register(self) -> None:
        if self.auto_classes:
            AutoConfig.register(self.config_class.model_type, self.config_class, exist_ok=True)
        for auto_class, model_class in self.auto_classes.items():
            auto_class.register(self.config_class, model_class, exist_ok=True)

    def config(self, architecture: Architecture) -> PreTrainedConfig:
        """The whole configuration of a model."""
        _, fields = self.catalogue.get(architecture.name, ((), {}))
        try:
            return self.config_class(architecture=architecture.to_dict(), **{**fields, **architecture.options})
        except StrictDataclassError as error:
            raise ValueError(" ".join(str(error).split())) from error

    def assemble(self, architecture: Architecture) -> nn.Module:
        return self.model_class(self.config(architecture))

    def owns(self, model: nn.Module) -> bool:
        return isinstance(model, self.base_class)

    def configure(self, model: nn.Module, attention: Attention, checkpointing: bool) -> AbstractContextManager[Any]:
        language = cast(PreTrainedModel, model)
        if self.kernels_by_config:
            language.set_attn_implementation("sdpa" if attention == "fused" else "eager")
        if checkpointing:
            language.gradient_checkpointing_enable()
        else:
            language.gradient_checkpointing_disable()
        language.config.use_cache = False
        return without_packing()

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        config = cast(Any, model).config
        if getattr(config, "architecture", None) is None:  # upstream's own model
            return self.names()[0], config_options(config, exclude=tuple(self.reserved))
        described = Architecture.from_dict(config.architecture)
        options = dict(described.options)
        if self.config(described).vocab_size != config.vocab_size:  # resized since
            options["vocab_size"] = config.vocab_size
        return described.name, options

    def example_inputs(
        self, architecture: Architecture, batch: int = 2, tokens: int | None = None
    ) -> dict[str, torch.Tensor]:
        config = cast(Any, self.config(architecture))
        return {"input_ids": torch.randint(config.vocab_size, (batch, self.length(config, tokens)))}

    @staticmethod
    def length(config: Any, tokens: int | None, usual: int = 128) -> int:
        """How long an example text is."""
        tokens = min(config.max_position_embeddings, usual) if tokens is None else tokens
        if tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {tokens}")
        check_tokens(config, tokens)
        return tokens


class ArchitectureConfig(PreTrainedConfig):
    """Config of a model of our own: the architecture says its layers, the fields say the rest."""

    default: ClassVar[Architecture]

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; the family's original by default."""

    def __post_init__(self, **kwargs: Any) -> None:
        if self.architecture is None:
            self.architecture = self.default.to_dict()
        described = Architecture.from_dict(self.architecture)
        # Where Hugging Face's own tools look for sizes; in a schedule of heads the first layer's stand in.
        self.hidden_size, self.num_hidden_layers = described.stages[0].width, described.depth
        self.num_attention_heads = described.stages[0].heads
        super().__post_init__(**kwargs)

    @property
    def layers(self) -> tuple[Stage, ...]:
        return Architecture.from_dict(cast(Any, self.architecture)).layers


class OwnFamily(HuggingFaceFamily):
    """A family whose modules are ours: `blocks` of `attn` and `mlp`."""

    reserved = {
        "architecture": "depth, heads",
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
    }

    def parts(self, model: nn.Module) -> list[Part]:
        prefix, holder = (
            ("", model) if hasattr(model, "blocks") else (f"{model.base_model_prefix}.", cast(Any, model).base_model)
        )
        return [
            Part(path=f"{prefix}blocks.{layer}.attn", kind="self", layer=layer, attention=block.attn, mlp=block.mlp)
            for layer, block in enumerate(cast(Any, holder).blocks)
        ]

    def shape(self, part: Part) -> Stage:
        attention = cast(Any, part.attention)
        first = next(module for module in cast(nn.Module, part.mlp).modules() if isinstance(module, nn.Linear))
        return Stage(
            width=attention.proj.out_features,
            depth=1,
            heads=attention.num_heads,
            head_dim=attention.head_dim,
            mlp_dim=first.out_features,
        )

    def projection(self, part: Part) -> str:
        return f"{part.path}.proj"


# Folders in Hugging Face's form


def model_from_folder(folder: Path) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(folder)
    return _auto_class(config).from_pretrained(folder, config=config)


def empty_model_from_folder(folder: Path) -> PreTrainedModel:
    """The folder's model on the meta device: shapes without weights."""
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        return _auto_class(config).from_config(config)


class _WithConfig:
    """A model class of transformers' own, to be called as an Auto class is."""

    def __init__(self, model_class: type[PreTrainedModel]) -> None:
        self.from_pretrained, self.from_config = model_class.from_pretrained, model_class._from_config


def _auto_class(config: PreTrainedConfig) -> Any:
    """The Auto class for the kind of model that a config was saved with."""
    saved = (config.architectures or [""])[0]
    if type(config).__module__.startswith("transformers.") and hasattr(transformers, saved):
        return _WithConfig(getattr(transformers, saved))
    for ending, auto_class in (
        ("ForSequenceClassification", AutoModelForSequenceClassification),
        ("ForMaskedLM", AutoModelForMaskedLM),
        ("ForCausalLM", AutoModelForCausalLM),
        ("LMHeadModel", AutoModelForCausalLM),
    ):
        if saved.endswith(ending):
            return auto_class
    return AutoModel


# Configs


def check_fields(config: PreTrainedConfig, options: Mapping[str, Any]) -> None:
    for option in options:
        if not hasattr(config, option):
            raise ValueError(f"{option} is not a field of {type(config).__name__}")


def config_options(config: PreTrainedConfig, exclude: Sequence[str]) -> dict[str, Any]:
    """The fields of a config that differ from its class's defaults, as options of an architecture."""
    default, shared = type(config)(), {item.name for item in dataclasses.fields(PreTrainedConfig)}  # type: ignore[arg-type]
    names = [item.name for item in dataclasses.fields(cast(Any, config)) if item.name not in (*shared, *exclude)]
    names.append("num_labels")
    return {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}


def single_stage(config: Any, family: str, name: str, mlp_dim: int) -> dict[str, Any]:
    """The architecture of a config that names none: upstream's own shape."""
    stage = Stage(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        heads=config.num_attention_heads,
        head_dim=config.hidden_size // config.num_attention_heads,
        mlp_dim=mlp_dim,
    )
    return Architecture(family=family, name=name, stages=(stage,)).to_dict()


# Resizing in place


@contextmanager
def one_head(config: PreTrainedConfig) -> Iterator[None]:
    """Construct with one head, which divides any width; the layers get their own heads right after."""
    heads = config.num_attention_heads
    config.num_attention_heads = 1
    try:
        yield
    finally:
        config.num_attention_heads = heads


@torch.no_grad()
def set_module(model: Any, parent: nn.Module, name: str, new: nn.Module) -> None:
    """Put a new module in place, drawn as the model draws it, by itself and then as part of its parent.

    `PreTrainedModel.initialize_weights` would not do: for classes outside transformers it passes over modules that hold
    no parameters of their own, and so over the scaling that GPT-2's attention applies to its projection.
    """
    setattr(parent, name, new)
    model._init_weights(new)
    model._init_weights(parent)


def set_linear(model: Any, parent: nn.Module, name: str, in_features: int, out_features: int) -> None:
    old = cast(nn.Linear, getattr(parent, name))
    if (old.in_features, old.out_features) != (in_features, out_features):
        set_module(model, parent, name, nn.Linear(in_features, out_features, bias=old.bias is not None))


# Attention of our own models


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention spelt out: transformers' `eager` implementation for models of our own."""
    scores = query @ key.transpose(-2, -1) * scaling
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(dim=-1, dtype=torch.float32)
    weights = nn.functional.dropout(weights.to(value.dtype), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights


class SelfAttention(nn.Module):
    """Multi-head attention of any inner width, through whichever kernel the config's `attn_implementation` names."""

    def __init__(
        self,
        config: PreTrainedConfig,
        stage: Stage,
        layer_idx: int,
        *,
        causal: bool,
        bias: bool,
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.config, self.layer_idx, self.is_causal, self.dropout = config, layer_idx, causal, dropout
        self.num_heads, self.head_dim = stage.heads, stage.head_dim
        self.qkv = nn.Linear(stage.width, 3 * stage.inner_width, bias=qkv_bias)
        self.proj = nn.Linear(stage.inner_width, stage.width, bias=bias)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None, cache: Any = None) -> torch.Tensor:
        batch, tokens, _ = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.num_heads, self.head_dim)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        heads, _ = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.head_dim**-0.5,
            is_causal=self.is_causal,
        )
        return self.proj(heads.reshape(batch, tokens, -1))


@contextmanager
def without_packing() -> Iterator[None]:
    """Do not look for packed sequences in position ids: on the meta device there is nothing to look at."""
    original = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original


def _eager(module: nn.Module) -> Callable[..., Any]:
    """The explicit attention that a module's file, or its parent class's, brings along."""
    homes = [cast(Any, sys.modules.get(cls.__module__)) for cls in type(module).__mro__]
    return next(home.eager_attention_forward for home in homes if hasattr(home, "eager_attention_forward"))


@contextmanager
def attention_interface(see: Callable[[nn.Module, torch.Tensor], None]) -> Iterator[None]:
    """Wrap transformers' attention functions so that each shows the heads it returns; all as before afterwards."""
    before = dict(ALL_ATTENTION_FUNCTIONS._local_mapping)

    def showing(function: Callable[..., Any] | None) -> Callable[..., Any]:
        def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            output = (function or _eager(module))(module, *args, **kwargs)
            see(module, output[0])
            return output

        return attend

    try:
        for name in list(ALL_ATTENTION_FUNCTIONS):
            ALL_ATTENTION_FUNCTIONS[name] = showing(ALL_ATTENTION_FUNCTIONS[name])
        ALL_ATTENTION_FUNCTIONS["eager"] = showing(None)  # each model brings its own
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS._local_mapping.clear()
        ALL_ATTENTION_FUNCTIONS._local_mapping.update(before)


def check_tokens(config: Any, tokens: int) -> None:
    if tokens > config.max_position_embeddings:
        raise ValueError(f"the model takes at most {config.max_position_embeddings} tokens, got a sequence of {tokens}")
