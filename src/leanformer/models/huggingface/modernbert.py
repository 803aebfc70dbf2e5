"""Hugging Face's ModernBERT with any number of heads, layer by layer, and heads of any even size.

All layers share one table of rotary positions, so their heads have one size.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    ModernBertModel,
    ModernBertPreTrainedModel,
    PreTrainedConfig,
)

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart
from leanformer.models.huggingface.base import HuggingFaceFamily, one_head, set_linear, take_architecture

SPECIAL_TOKENS = ("pad_token_id", "eos_token_id", "bos_token_id", "cls_token_id", "sep_token_id")


class LeanModernBertConfig(ModernBertConfig):
    model_type = "lean_modernbert"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default ModernBERT's own shape, from the other fields."""
    head_dim: int | None = None
    """Upstream's rotary positions read it; it follows the architecture."""
    global_attn_every_n_layers: int = 3
    """The first of so many layers attends to all tokens, the others to near ones; `layer_types` says it by layer."""

    def __post_init__(self, **kwargs: Any) -> None:
        take_architecture(self, "modernbert", "ModernBERT-base")
        self.head_dim = Architecture.from_dict(cast(Any, self.architecture)).stages[0].head_dim
        super().__post_init__(global_attn_every_n_layers=self.global_attn_every_n_layers, **kwargs)


class _Lean:
    """Construct as upstream does, then give each layer its own heads and MLP."""

    config_class = LeanModernBertConfig

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        with one_head(config):
            cast(Any, super()).__init__(config, *args, **kwargs)
        layers = Architecture.from_dict(config.architecture).layers
        for layer, stage in zip(cast(Any, self).base_model.layers, layers, strict=True):
            layer.attn.head_dim = stage.head_dim
            set_linear(self, layer.attn, "Wqkv", stage.width, 3 * stage.inner_width)
            set_linear(self, layer.attn, "Wo", stage.inner_width, stage.width)
            set_linear(self, layer.mlp, "Wi", stage.width, 2 * stage.mlp_dim)
            set_linear(self, layer.mlp, "Wo", stage.mlp_dim, stage.width)


class LeanModernBertModel(_Lean, ModernBertModel): ...


class LeanModernBertForMaskedLM(_Lean, ModernBertForMaskedLM): ...


class LeanModernBertForSequenceClassification(_Lean, ModernBertForSequenceClassification): ...


class ModernBert(HuggingFaceFamily):
    key = "modernbert"
    config_class = LeanModernBertConfig
    model_class = LeanModernBertForMaskedLM
    base_class = ModernBertPreTrainedModel
    auto_classes = {
        AutoModel: LeanModernBertModel,
        AutoModelForMaskedLM: LeanModernBertForMaskedLM,
        AutoModelForSequenceClassification: LeanModernBertForSequenceClassification,
    }
    catalogue = {
        "ModernBERT-base": ((Stage(width=768, depth=22, heads=12, head_dim=64, mlp_dim=1152),), {}),
        "ModernBERT-large": ((Stage(width=1024, depth=28, heads=16, head_dim=64, mlp_dim=2624),), {}),
    }
    reserved = {
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
        "intermediate_size": "mlp_dim",
        "head_dim": "head_dim",
    }

    def check(self, architecture: Architecture) -> None:
        sizes = sorted({stage.head_dim for stage in architecture.stages})
        if len(sizes) > 1:
            raise ValueError(
                f"head_dim must be the same in all layers, which share their rotary positions, got {sizes}"
            )
        if sizes[0] % 2:
            raise ValueError(f"head_dim must be even for rotary positions, got {sizes[0]}")
        kinds = architecture.options.get("layer_types")
        if kinds is not None and len(kinds) != architecture.depth:
            raise ValueError(f"depth is {architecture.depth}, but layer_types names {len(kinds)} layers")

    def config(self, architecture: Architecture) -> PreTrainedConfig:
        """Special tokens beyond a smaller vocabulary do not exist in it."""
        config = cast(Any, super().config(architecture))
        for token in SPECIAL_TOKENS:
            if token not in architecture.options and (getattr(config, token) or 0) >= config.vocab_size:
                setattr(config, token, None)
        return cast(PreTrainedConfig, config)

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        """Upstream's pattern of local and global layers, as the one number that any depth can follow."""
        name, options = super().record(model)
        kinds = options.get("layer_types", [])
        for every in range(1, len(kinds) + 1):
            if kinds == ["sliding_attention" if i % every else "full_attention" for i in range(len(kinds))]:
                del options["layer_types"]
                return name, {**options, "global_attn_every_n_layers": every}
        return name, options

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        base = cast(Any, model).base_model
        prefix = "" if base is model else f"{model.base_model_prefix}."
        return [
            AttentionPart(
                path=f"{prefix}layers.{index}.attn", kind="self", layer=index, attention=layer.attn, mlp=layer.mlp
            )
            for index, layer in enumerate(base.layers)
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention, mlp = cast(Any, part.attention), cast(Any, part.mlp)
        return Stage(
            width=attention.Wo.out_features,
            depth=1,
            heads=attention.Wo.in_features // attention.head_dim,
            head_dim=attention.head_dim,
            mlp_dim=mlp.Wo.in_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.Wo"
