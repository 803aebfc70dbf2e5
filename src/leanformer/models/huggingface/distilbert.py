"""Hugging Face's DistilBERT with heads of any number and size, layer by layer.

Upstream's forward reads its sizes from attributes, so it is not rewritten.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    DistilBertModel,
    DistilBertPreTrainedModel,
)

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart
from leanformer.models.huggingface.base import HuggingFaceFamily, one_head, set_linear, take_architecture

FIELDS = {"width": "dim", "depth": "n_layers", "heads": "n_heads", "mlp_dim": "hidden_dim"}
"""Our words for the sizes, and the config's."""


class LeanDistilBertConfig(DistilBertConfig):
    model_type = "lean_distilbert"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default DistilBERT's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        take_architecture(self, "distilbert", "distilbert-base-uncased", FIELDS)
        super().__post_init__(**kwargs)


class _Lean:
    """Construct as upstream does, then give each layer its own heads and MLP."""

    config_class = LeanDistilBertConfig

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        with one_head(config):
            cast(Any, super()).__init__(config, *args, **kwargs)
        layers = Architecture.from_dict(config.architecture).layers
        for layer, stage in zip(cast(Any, self).base_model.transformer.layer, layers, strict=True):
            attention = layer.attention
            attention.n_heads, attention.attention_head_size = stage.heads, stage.head_dim
            attention.scaling = stage.head_dim**-0.5
            for name in ("q_lin", "k_lin", "v_lin"):
                set_linear(self, attention, name, stage.width, stage.inner_width)
            set_linear(self, attention, "out_lin", stage.inner_width, stage.width)
            set_linear(self, layer.ffn, "lin1", stage.width, stage.mlp_dim)
            set_linear(self, layer.ffn, "lin2", stage.mlp_dim, stage.width)


class LeanDistilBertModel(_Lean, DistilBertModel): ...


class LeanDistilBertForMaskedLM(_Lean, DistilBertForMaskedLM): ...


class LeanDistilBertForSequenceClassification(_Lean, DistilBertForSequenceClassification): ...


BASE = Stage(width=768, depth=6, heads=12, head_dim=64, mlp_dim=3072)


class DistilBert(HuggingFaceFamily):
    key = "distilbert"
    config_class = LeanDistilBertConfig
    model_class = LeanDistilBertForMaskedLM
    base_class = DistilBertPreTrainedModel
    auto_classes = {
        AutoModel: LeanDistilBertModel,
        AutoModelForMaskedLM: LeanDistilBertForMaskedLM,
        AutoModelForSequenceClassification: LeanDistilBertForSequenceClassification,
    }
    catalogue = {
        "distilbert-base-uncased": ((BASE,), {}),
        "distilbert-base-cased": ((BASE,), {"vocab_size": 28996}),
        "distilbert-base-multilingual-cased": ((BASE,), {"vocab_size": 119547}),
    }
    reserved = {
        **{field: word for word, field in FIELDS.items()},
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
    }

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        base = cast(Any, model).base_model
        prefix = "" if base is model else f"{model.base_model_prefix}."
        return [
            AttentionPart(
                path=f"{prefix}transformer.layer.{index}.attention",
                kind="self",
                layer=index,
                attention=layer.attention,
                mlp=layer.ffn,
            )
            for index, layer in enumerate(base.transformer.layer)
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention, mlp = cast(Any, part.attention), cast(Any, part.mlp)
        return Stage(
            width=attention.out_lin.out_features,
            depth=1,
            heads=attention.n_heads,
            head_dim=attention.attention_head_size,
            mlp_dim=mlp.lin1.out_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.out_lin"
