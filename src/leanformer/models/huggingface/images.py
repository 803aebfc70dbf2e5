"""What Hugging Face's image models share: ViT and DINOv2 have the same attention and MLP.

Their options have timm's words (num_classes, img_size, in_chans), so that image tasks and recipes take them as they
take timm's models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import nn
from transformers import PreTrainedConfig

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart, Inputs
from leanformer.models.huggingface.base import HuggingFaceFamily, check_fields, one_head, set_linear

WORDS: Mapping[str, str] = {"num_classes": "num_labels", "img_size": "image_size", "in_chans": "num_channels"}
"""Our options, and what transformers' configs call them."""
CLASSES = {"num_labels": 1000}
"""Like timm's models, and the published ones, they are built for ImageNet's classes."""


class ResizedImageModel:
    """Construct as upstream does, then give each layer its own heads and MLP."""

    layers_path: ClassVar[str]

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        with one_head(config):
            cast(Any, super()).__init__(config, *args, **kwargs)
        layers = Architecture.from_dict(config.architecture).layers
        base = cast(Any, self).base_model
        for layer, stage in zip(base.get_submodule(self.layers_path), layers, strict=True):
            attention = layer.attention
            attention.num_attention_heads, attention.head_dim = stage.heads, stage.head_dim
            attention.scaling = stage.head_dim**-0.5
            for name in ("q_proj", "k_proj", "v_proj"):
                set_linear(self, attention, name, stage.width, stage.inner_width)
            set_linear(self, attention, "o_proj", stage.inner_width, stage.width)
            set_linear(self, layer.mlp, "fc1", stage.width, stage.mlp_dim)
            set_linear(self, layer.mlp, "fc2", stage.mlp_dim, stage.width)


class HuggingFaceImageFamily(HuggingFaceFamily):
    """A family of transformers' image models."""

    layers_path: ClassVar[str]
    """Where the layers are in the model without its head."""
    renamings: ClassVar[tuple[tuple[str, str], ...]] = (  # checkpoints keep the names of transformers 4
        (r"\.attention\.attention\.(q|k|v)(?:uery|ey|alue)\.", r".attention.\1_proj."),
        (r"\.attention\.output\.dense\.", ".attention.o_proj."),
    )
    reserved = {
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
        "intermediate_size": "mlp_dim",
        "mlp_ratio": "mlp_dim",
        **{field: word for word, field in WORDS.items()},
    }

    def read(self, name: str, **options: Any) -> Architecture:
        self.refuse(options)
        check_fields(self.config_class(), _translated(options))
        return Architecture(family=self.key, name=name, stages=self.catalogue[name][0], options=options)

    def config(self, architecture: Architecture) -> PreTrainedConfig:
        translated = super().config(replace(architecture, options=_translated(architecture.options)))
        cast(Any, translated).architecture = architecture.to_dict()
        return translated

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        config = cast(Any, model).config
        if getattr(config, "architecture", None) is None:  # upstream's own model
            name, found = super().record(model)
            options, usual = found, self.config(Architecture(family=self.key, name=name, stages=self.stages(model)))
        else:
            described = Architecture.from_dict(config.architecture)
            name, options, usual = described.name, dict(described.options), self.config(described)
        for word, field in WORDS.items():  # a head may have been replaced since
            if getattr(config, field) != getattr(usual, field):
                options[word] = getattr(config, field)
        return name, options

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        base = cast(Any, model).base_model
        prefix = "" if base is model else f"{model.base_model_prefix}."
        return [
            AttentionPart(
                path=f"{prefix}{self.layers_path}.{index}.attention",
                kind="self",
                layer=index,
                attention=layer.attention,
                mlp=layer.mlp,
            )
            for index, layer in enumerate(base.get_submodule(self.layers_path))
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention, mlp = cast(Any, part.attention), cast(Any, part.mlp)
        if not hasattr(mlp, "fc1"):
            raise ValueError(f"this {self.key} model has a {type(mlp).__name__}; only plain MLPs can be resized")
        return Stage(
            width=attention.o_proj.out_features,
            depth=1,
            heads=attention.num_attention_heads,
            head_dim=attention.head_dim,
            mlp_dim=mlp.fc1.out_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.o_proj"

    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        if tokens is not None:
            raise ValueError(f"tokens={tokens}: {architecture.name} takes images, whose size is the option img_size")
        return {"pixel_values": torch.randn(batch, *self.image_size(architecture))}

    def image_size(self, architecture: Architecture) -> tuple[int, int, int]:
        config = cast(Any, self.config(architecture))
        return config.num_channels, *_both(config.image_size)

    def patch_size(self, architecture: Architecture) -> tuple[int, int]:
        return _both(cast(Any, self.config(architecture)).patch_size)


def _both(sides: Any) -> tuple[int, int]:
    return (sides[0], sides[1]) if isinstance(sides, (list, tuple)) else (sides, sides)


def _translated(options: Mapping[str, Any]) -> dict[str, Any]:
    return {WORDS.get(option, option): value for option, value in options.items()}
