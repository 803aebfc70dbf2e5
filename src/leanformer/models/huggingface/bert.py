"""Hugging Face's BERT with heads of any number and size, layer by layer.

Upstream's forward reads its sizes from attributes, so it is not rewritten.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    BertPreTrainedModel,
)

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart
from leanformer.models.huggingface.base import HuggingFaceFamily, one_head, set_linear, take_architecture


class LeanBertConfig(BertConfig):
    model_type = "lean_bert"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default BERT's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        take_architecture(self, "bert", "bert-base-uncased")
        super().__post_init__(**kwargs)


class ResizedEncoder:
    """Construct as upstream does, then give each layer its own heads and MLP; for every model of BERT's layers."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        with one_head(config):
            cast(Any, super()).__init__(config, *args, **kwargs)
        layers = Architecture.from_dict(config.architecture).layers
        for layer, stage in zip(cast(Any, self).base_model.encoder.layer, layers, strict=True):
            attention = layer.attention.self
            attention.num_attention_heads, attention.attention_head_size = stage.heads, stage.head_dim
            attention.all_head_size, attention.scaling = stage.inner_width, stage.head_dim**-0.5
            for name in ("query", "key", "value"):
                set_linear(self, attention, name, stage.width, stage.inner_width)
            set_linear(self, layer.attention.output, "dense", stage.inner_width, stage.width)
            set_linear(self, layer.intermediate, "dense", stage.width, stage.mlp_dim)
            set_linear(self, layer.output, "dense", stage.mlp_dim, stage.width)


class LeanBertModel(ResizedEncoder, BertModel):
    config_class = LeanBertConfig


class LeanBertForMaskedLM(ResizedEncoder, BertForMaskedLM):
    config_class = LeanBertConfig


class LeanBertForSequenceClassification(ResizedEncoder, BertForSequenceClassification):
    config_class = LeanBertConfig


BASE = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)
LARGE = Stage(width=1024, depth=24, heads=16, head_dim=64, mlp_dim=4096)


class Bert(HuggingFaceFamily):
    key = "bert"
    config_class = LeanBertConfig
    model_class = LeanBertForMaskedLM
    base_class = BertPreTrainedModel
    auto_classes = {
        AutoModel: LeanBertModel,
        AutoModelForMaskedLM: LeanBertForMaskedLM,
        AutoModelForSequenceClassification: LeanBertForSequenceClassification,
    }
    catalogue = {
        "bert-base-uncased": ((BASE,), {}),
        "bert-large-uncased": ((LARGE,), {}),
        "bert-base-cased": ((BASE,), {"vocab_size": 28996}),
        "bert-large-cased": ((LARGE,), {"vocab_size": 28996}),
    }
    reserved = {
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
        "intermediate_size": "mlp_dim",
        "add_cross_attention": "",
    }

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        base = cast(Any, model).base_model
        prefix = "" if base is model else f"{model.base_model_prefix}."
        return [
            AttentionPart(
                path=f"{prefix}encoder.layer.{index}.attention",
                kind="self",
                layer=index,
                attention=layer.attention,
                mlp=layer,
            )
            for index, layer in enumerate(base.encoder.layer)
        ]

    def mlp_modules(self, part: AttentionPart) -> list[nn.Module]:
        layer = cast(Any, part.mlp)
        return [layer.intermediate, layer.output]

    def shape(self, part: AttentionPart) -> Stage:
        attention, layer = cast(Any, part.attention), cast(Any, part.mlp)
        return Stage(
            width=attention.output.dense.out_features,
            depth=1,
            heads=attention.self.num_attention_heads,
            head_dim=attention.self.attention_head_size,
            mlp_dim=layer.intermediate.dense.out_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.output.dense"
