"""Any Hugging Face decoder whose config has `head_dim`: Llama, Qwen3, Mistral, Gemma, … built of upstream's classes.

All layers are alike, since upstream's config has one number for each size. Grouped-query attention keeps its group
size: `kv_groups` query heads share one head of keys and values.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, cast

from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart
from leanformer.models.huggingface.base import HuggingFaceFamily, check_fields, config_options, with_classes

WELL_KNOWN = ("llama", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "glm", "arcee", "seed_oss")
UNSUITABLE = (ValueError, KeyError, StrictDataclassError)
"""What upstream raises for default configs, and for models of one layer, that it cannot build."""


@functools.cache
def default_config(model_type: str) -> Any:
    return CONFIG_MAPPING[model_type]()


class Decoder(HuggingFaceFamily):
    key = "decoder"
    causal = True
    base_class = nn.Module  # any model with this shape: see `owns`
    reserved = {
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
        "head_dim": "head_dim",
        "intermediate_size": "mlp_dim",
        "num_key_value_heads": "kv_groups",
        "num_global_key_value_heads": "kv_groups",
    }

    def names(self) -> list[str]:
        return list(WELL_KNOWN)

    def known(self, name: str) -> bool:
        """Whether a model type's config has a decoder's sizes; no model is built to find out."""
        if name in WELL_KNOWN:
            return True
        if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or name not in CONFIG_MAPPING:
            return False
        try:
            return carries_head_dim(default_config(name))
        except UNSUITABLE:
            return False

    def read(self, name: str, **options: Any) -> Architecture:
        self.refuse(options)
        if name not in WELL_KNOWN and (reason := why_not_plain(name)):
            raise ValueError(f"{name} is known to transformers but cannot be redesigned: {reason}")
        config = default_config(name)
        check_fields(config, {key: value for key, value in options.items() if key != "kv_groups"})
        return Architecture(family=self.key, name=name, stages=(upstream_stage(config),), options=options)

    def origin(self, architecture: Architecture) -> str:
        """A model type stands for transformers' default configuration, which need not be a published model's."""
        if architecture.stages != (stage := upstream_stage(default_config(architecture.name)),):
            return ""
        return (
            f"{architecture.name}: transformers' default configuration, {stage}. "
            "For another, give a folder with its config.json."
        )

    def config(self, architecture: Architecture) -> PreTrainedConfig:
        stage, options = architecture.stages[0], dict(architecture.options)
        groups = options.pop("kv_groups", None) or kv_groups(default_config(architecture.name))
        try:
            return CONFIG_MAPPING[architecture.name](
                hidden_size=stage.width,
                num_hidden_layers=stage.depth,
                num_attention_heads=stage.heads,
                num_key_value_heads=stage.heads // groups,
                head_dim=stage.head_dim,
                intermediate_size=stage.mlp_dim,
                **options,
            )
        except (ValueError, StrictDataclassError) as error:
            message = " ".join(str(error).split())
            raise ValueError(
                f"heads, width or an option does not suit upstream's {architecture.name} config: {message}"
            ) from error

    def check(self, architecture: Architecture) -> None:
        if len(architecture.stages) > 1:
            raise ValueError(
                f"stages: a Hugging Face decoder has layers of one shape, got {len(architecture.stages)} stages"
            )
        stage = architecture.stages[0]
        groups = architecture.options.get("kv_groups", kv_groups(default_config(architecture.name)))
        if groups < 1:
            raise ValueError(f"kv_groups must be at least 1, got {groups}")
        if stage.heads % groups:
            raise ValueError(
                f"heads={stage.heads} must be a multiple of kv_groups={groups}: that many query heads share one key"
            )
        if stage.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary positions, got {stage.head_dim}")
        self.config(architecture)

    def head_unit(self, architecture: Architecture) -> int:
        return int(architecture.options.get("kv_groups", kv_groups(default_config(architecture.name))))

    def assemble(self, architecture: Architecture) -> nn.Module:
        """A language model, or with the option `num_labels` a classifier of texts."""
        made: Any = AutoModelForCausalLM
        if "num_labels" in architecture.options:
            if architecture.name not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
                raise ValueError(f"transformers has no classifier of texts for {architecture.name}")
            made = AutoModelForSequenceClassification
        return cast(nn.Module, made.from_config(self.config(architecture), trust_remote_code=False))

    def assemble_like(self, architecture: Architecture, model: nn.Module) -> nn.Module:
        """The model's own class, which is upstream's."""
        return cast(nn.Module, cast(Any, type(model))._from_config(self.config(architecture)))

    def owns(self, model: nn.Module) -> bool:
        config = getattr(model, "config", None)
        return isinstance(config, PreTrainedConfig) and carries_head_dim(config) and bool(_layers(model)[1])

    def canonical(self, architecture: Architecture) -> Architecture:
        """Without options that are upstream's own values: a config does not say that they were asked for."""
        architecture = super().canonical(architecture)
        groups = self.head_unit(architecture)
        usual = {**vars(self._usual(architecture.name, architecture.stages, groups)), "num_labels": None}
        usual["kv_groups"] = kv_groups(default_config(architecture.name))
        given = architecture.options
        return replace(architecture, options={key: given[key] for key in given if given[key] != usual.get(key)})

    def _usual(self, name: str, stages: tuple[Stage, ...], groups: int) -> PreTrainedConfig:
        """Upstream's config with these sizes and no options. Fields that upstream derives from sizes are no options."""
        return self.config(Architecture(family=self.key, name=name, stages=stages, options={"kv_groups": groups}))

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        config = cast(Any, model).config
        groups, stages = kv_groups(config), self.stages(model)
        usual = self._usual(config.model_type, stages, groups)
        options = config_options(config, exclude=tuple(self.reserved), usual=usual)
        if groups != kv_groups(default_config(config.model_type)):
            options["kv_groups"] = groups
        return config.model_type, with_classes(model, options)

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        prefix, layers = _layers(model)
        if not layers:
            raise ValueError(f"name: {type(model).__name__} has no layers that are made of self_attn and mlp")
        return [
            AttentionPart(
                path=f"{prefix}layers.{index}.self_attn",
                kind="self",
                layer=index,
                attention=layer.self_attn,
                mlp=layer.mlp,
            )
            for index, layer in enumerate(layers)
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention, mlp = cast(Any, part.attention), cast(Any, part.mlp)
        if not (hasattr(mlp, "down_proj") and hasattr(attention, "o_proj") and hasattr(attention, "head_dim")):
            raise ValueError(
                f"name: a layer of {type(attention).__name__} and {type(mlp).__name__} is not a plain decoder layer"
            )
        columns = attention.o_proj.in_features
        if hasattr(attention, "q_proj") and attention.q_proj.out_features != columns:
            raise ValueError(
                f"heads: the queries of {type(attention).__name__} have {attention.q_proj.out_features} columns, "
                f"its output projection takes {columns}"
            )
        return Stage(
            width=attention.o_proj.out_features,
            depth=1,
            heads=columns // attention.head_dim,
            head_dim=attention.head_dim,
            mlp_dim=mlp.down_proj.in_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.o_proj"


@functools.cache
def why_not_plain(model_type: str) -> str:
    """Why a model type cannot be resized; empty if it can.

    Layers with experts or latent heads, and hybrid layers, are not described by the sizes in the config. So models are
    built on the meta device and compared with what was asked for: one layer of upstream's sizes, then all layers with
    other sizes. One of them takes a training step, as costs need it.
    """
    family = Decoder()
    stage = upstream_stage(default_config(model_type))
    upstream = Architecture(family=family.key, name=model_type, stages=(stage,))
    unit = family.head_unit(upstream)
    smaller = upstream.resized(
        heads=2 * unit if stage.heads != 2 * unit else unit, head_dim=stage.head_dim // 2, mlp_dim=8
    )
    try:
        family.build(upstream.resized(depth=1), device="meta")
    except UNSUITABLE as error:
        return f"one layer of it cannot be built and read back ({_one_line(error)})"
    try:
        layers = _layers(family.build(smaller, device="meta"))[1]
        if unlike := next((i for i, layer in enumerate(layers, 1) if _shapes(layer) != _shapes(layers[0])), 0):
            return f"its layer {unlike} is made of other parts than its layer 1"
        model = family.build(smaller.resized(depth=1), device="meta")
        inputs = {name: tensor.to("meta") for name, tensor in family.example_inputs(smaller, tokens=8).items()}
        with family.configure(model, "fused", checkpointing=False):
            family.loss(model, inputs).backward()
    except (*UNSUITABLE, RuntimeError) as error:
        return f"with other sizes it cannot be built and trained ({_one_line(error)})"
    return ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _shapes(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}


def upstream_stage(config: Any) -> Stage:
    return Stage(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        heads=config.num_attention_heads,
        head_dim=config.head_dim,
        mlp_dim=config.intermediate_size,
    )


def carries_head_dim(config: PreTrainedConfig) -> bool:
    """Whether a config has one number for each size of a decoder."""
    wanted = (
        "head_dim",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "hidden_size",
        "num_hidden_layers",
    )
    try:
        return all(isinstance(getattr(config, field, None), int) for field in wanted)
    except RuntimeError:  # transformers raises it for a size that differs by layer
        return False


def kv_groups(config: Any) -> int:
    return int(config.num_attention_heads // config.num_key_value_heads)


def _layers(model: nn.Module) -> tuple[str, Any]:
    base = getattr(model, "base_model", model)
    layers = getattr(base, "layers", None)
    ours = isinstance(layers, nn.ModuleList) and all(hasattr(layer, "self_attn") for layer in layers)
    return ("" if base is model else f"{model.base_model_prefix}."), (layers if ours else None)
