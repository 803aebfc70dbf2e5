"""What the families of Hugging Face models share.

A config's `architecture` field holds the plain description, so that `save_pretrained` and the Auto classes rebuild
exactly what was planned, per-layer schedules included. Resizing keeps upstream's classes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from jaxtyping import Float
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    masking_utils,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Attention, Family, Inputs


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
    """Whether the config's `attn_implementation` chooses the attention kernel."""

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
        """The family's usual model, or with the option `num_labels` its classifier of texts."""
        usual = self.model_class
        if "num_labels" in architecture.options:
            usual = self.auto_classes.get(AutoModelForSequenceClassification, usual)
        return usual(self.config(architecture))

    def assemble_like(self, architecture: Architecture, model: nn.Module) -> nn.Module:
        """Our class for the kind of the model, which may be upstream's own."""
        for ours in dict.fromkeys((self.model_class, *self.auto_classes.values())):
            if isinstance(model, ours) or issubclass(ours, type(model)):
                return ours(self.config(architecture))
        able = ", ".join(dict.fromkeys(ours.__name__ for ours in (self.model_class, *self.auto_classes.values())))
        raise ValueError(f"a {type(model).__name__} has no resizable form; the family {self.key} has {able}")

    def owns(self, model: nn.Module) -> bool:
        return isinstance(model, self.base_class)

    def configure(self, model: nn.Module, attention: Attention, checkpointing: bool) -> AbstractContextManager[Any]:
        language = cast(PreTrainedModel, model)
        if self.kernels_by_config:
            fused = attention == "fused" and language._supports_sdpa  # upstream's Gemma 2 has no fused attention
            language.set_attn_implementation("sdpa" if fused else "eager")
        if checkpointing:
            language.gradient_checkpointing_enable()
        else:
            language.gradient_checkpointing_disable()
        language.config.use_cache = False
        return without_packing()

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        config = cast(Any, model).config
        if getattr(config, "architecture", None) is None:  # upstream's own model
            name = self.names()[0]
            usual = self.config(Architecture(family=self.key, name=name, stages=self.stages(model)))
            return name, with_classes(model, config_options(config, exclude=tuple(self.reserved), usual=usual))
        described = Architecture.from_dict(config.architecture)
        options = dict(described.options)
        if self.config(described).vocab_size != config.vocab_size:  # resized since
            options["vocab_size"] = config.vocab_size
        return described.name, options if isinstance(model, self.model_class) else with_classes(model, options)

    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        config = cast(Any, self.config(architecture))
        return {"input_ids": torch.randint(config.vocab_size, (batch, self.length(config, tokens)))}

    @staticmethod
    def length(config: Any, tokens: int | None, usual: int = 128) -> int:
        """How long an example text is."""
        tokens = min(longest_text(config), usual) if tokens is None else tokens
        if tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {tokens}")
        check_tokens(config, tokens)
        return tokens


def upstream_has(name: str) -> bool:
    """Whether transformers has a model type of that name."""
    return name in CONFIG_MAPPING and not name.startswith("lean_")


# Configs


def check_fields(config: PreTrainedConfig, options: Mapping[str, Any]) -> None:
    for option in options:
        if not hasattr(config, option):
            raise ValueError(f"{option} is not a field of {type(config).__name__}")


def config_options(
    config: PreTrainedConfig, exclude: Sequence[str], usual: PreTrainedConfig | None = None
) -> dict[str, Any]:
    """The fields of a config that differ from the usual one, by default its class's, as options of an architecture."""
    default = type(config)() if usual is None else usual
    shared = {item.name for item in dataclasses.fields(cast(Any, PreTrainedConfig))}
    names = [item.name for item in dataclasses.fields(cast(Any, config)) if item.name not in (*shared, *exclude)]
    names.append("num_labels")
    return {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}


def with_classes(model: nn.Module, options: dict[str, Any]) -> dict[str, Any]:
    """The options with `num_labels` where the model is a classifier of texts, and else without."""
    if type(model).__name__.endswith("ForSequenceClassification"):
        return {**options, "num_labels": cast(Any, model).config.num_labels}
    if type(model).__name__.endswith(("ForMaskedLM", "ForCausalLM", "LMHeadModel")):
        return {name: value for name, value in options.items() if name != "num_labels"}
    return options


FIELDS: Mapping[str, str] = {
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
}
"""Our words for the sizes, and what most configs call them."""


def take_architecture(
    config: Any, family: str, name: str, fields: Mapping[str, str] = FIELDS, mlp_dim: int | None = None
) -> None:
    """Let a config's sizes follow its `architecture`; without one, make it of the sizes.

    `mlp_dim` is for configs that have no field for it.
    """
    if config.architecture is None:
        mlp_dim = getattr(config, fields["mlp_dim"]) if mlp_dim is None else mlp_dim
        config.architecture = single_stage(config, family, name, mlp_dim)
    described = Architecture.from_dict(config.architecture)
    first = described.stages[0]
    sizes = {"width": first.width, "depth": described.depth, "heads": first.heads, "mlp_dim": first.mlp_dim}
    for word, field in fields.items():
        setattr(config, field, sizes[word])


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
    """Put a new module in place and initialise it as the model does, by itself and then as part of its parent.

    `PreTrainedModel.initialize_weights` is not enough: for classes outside transformers it skips modules that hold no
    parameters of their own, and with them the scaling that GPT-2's attention applies to its projection.
    """
    setattr(parent, name, new)
    model._init_weights(new)
    model._init_weights(parent)


def set_linear(model: Any, parent: nn.Module, name: str, in_features: int, out_features: int) -> None:
    old = cast(nn.Linear, getattr(parent, name))
    if (old.in_features, old.out_features) != (in_features, out_features):
        set_module(model, parent, name, nn.Linear(in_features, out_features, bias=old.bias is not None))


@contextmanager
def without_packing() -> Iterator[None]:
    """Let transformers skip its search for packed sequences on the meta device, where position ids hold no values.

    transformers has no argument for it. Models on other devices are searched as always, also while this is open.
    """
    original = masking_utils.find_packed_sequence_indices

    def search(position_ids: Tensor) -> Tensor | None:
        return None if position_ids.device.type == "meta" else original(position_ids)

    masking_utils.find_packed_sequence_indices = search
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original


def _eager(module: nn.Module) -> Callable[..., Any]:
    """The explicit attention function in a module's own file, or in that of its parent class."""
    homes = [cast(Any, sys.modules.get(cls.__module__)) for cls in type(module).__mro__]
    return next(home.eager_attention_forward for home in homes if hasattr(home, "eager_attention_forward"))


@contextmanager
def attention_interface(
    see: Callable[[nn.Module, Float[Tensor, "batch tokens heads head_dim"]], None],
) -> Iterator[None]:
    """Wrap transformers' attention functions so that each shows the heads it returns; afterwards all is as before."""
    interface = ALL_ATTENTION_FUNCTIONS

    def showing(function: Callable[..., Any] | None) -> Callable[..., Any]:
        def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            output = (function or _eager(module))(module, *args, **kwargs)
            see(module, output[0])
            return output

        return attend

    functions: dict[str, Any] = {"eager": None, **interface}  # each model brings its own eager attention
    overridden = {}
    for name, function in functions.items():
        with suppress(KeyError):  # deleting removes an override of this instance only, and says whether there was one
            del interface[name]
            overridden[name] = function
    try:
        for name, function in functions.items():
            interface[name] = showing(function)
        yield
    finally:
        for name in functions:
            with suppress(KeyError):
                del interface[name]
        for name, function in overridden.items():
            interface[name] = function


AFTER_PADDING = ("lean_roberta", "roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "data2vec-text", "ibert")
"""Model types whose positions are numbered from the padding's on."""


def longest_text(config: Any) -> int:
    """How many tokens a model takes."""
    before = config.pad_token_id + 1 if config.model_type in AFTER_PADDING else 0
    return int(config.max_position_embeddings) - before


def check_tokens(config: Any, tokens: int) -> None:
    if tokens > (longest := longest_text(config)):
        raise ValueError(f"the model takes at most {longest} tokens, got a sequence of {tokens}")
