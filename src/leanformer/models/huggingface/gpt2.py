"""Hugging Face's GPT-2 with heads of any number and size, layer by layer.

Upstream's forward reads its sizes from attributes, so it is not rewritten.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    GPT2Model,
    GPT2PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart, Inputs
from leanformer.models.huggingface.base import HuggingFaceFamily, one_head, set_module, single_stage


class LeanGPT2Config(GPT2Config):
    model_type = "lean_gpt2"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default GPT-2's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        mine = cast(Any, self)
        if self.architecture is None:
            self.architecture = single_stage(self, "gpt2", "gpt2", mine.n_inner or 4 * mine.n_embd)
        described = Architecture.from_dict(self.architecture)
        first = described.stages[0]
        mine.n_embd, mine.n_layer, mine.n_head, mine.n_inner = first.width, described.depth, first.heads, first.mlp_dim
        super().__post_init__(**kwargs)


class _Lean:
    """Construct as upstream does, then give each layer its own heads and MLP."""

    config_class = LeanGPT2Config

    def __init__(self, config: LeanGPT2Config) -> None:
        with one_head(config):
            cast(Any, super()).__init__(config)
        layers = Architecture.from_dict(cast(Any, config.architecture)).layers
        for block, stage in zip(cast(Any, self).base_model.h, layers, strict=True):
            attention, mlp = block.attn, block.mlp
            attention.num_heads, attention.head_dim, attention.split_size = (
                stage.heads,
                stage.head_dim,
                stage.inner_width,
            )
            if config.scale_attn_weights:
                attention.scaling = stage.head_dim**-0.5
                if config.scale_attn_by_inverse_layer_idx:
                    attention.scaling /= attention.layer_idx + 1
            _set_conv(self, attention, "c_attn", stage.width, 3 * stage.inner_width)
            _set_conv(self, attention, "c_proj", stage.inner_width, stage.width)
            _set_conv(self, mlp, "c_fc", stage.width, stage.mlp_dim)
            _set_conv(self, mlp, "c_proj", stage.mlp_dim, stage.width)


def _set_conv(model: Any, parent: nn.Module, name: str, inputs: int, outputs: int) -> None:
    if tuple(cast(Conv1D, getattr(parent, name)).weight.shape) != (inputs, outputs):
        set_module(model, parent, name, Conv1D(outputs, inputs))


class LeanGPT2Model(_Lean, GPT2Model): ...


class LeanGPT2LMHeadModel(_Lean, GPT2LMHeadModel): ...


class LeanGPT2ForSequenceClassification(_Lean, GPT2ForSequenceClassification): ...


def _gpt2(depth: int, heads: int, width: int) -> tuple[tuple[Stage, ...], dict[str, Any]]:
    return (Stage(width=width, depth=depth, heads=heads, head_dim=width // heads, mlp_dim=4 * width),), {}


class GPT2(HuggingFaceFamily):
    key = "gpt2"
    causal = True
    config_class = LeanGPT2Config
    model_class = LeanGPT2LMHeadModel
    base_class = GPT2PreTrainedModel
    auto_classes = {
        AutoModel: LeanGPT2Model,
        AutoModelForCausalLM: LeanGPT2LMHeadModel,
        AutoModelForSequenceClassification: LeanGPT2ForSequenceClassification,
    }
    catalogue = {
        "gpt2": _gpt2(12, 12, 768),
        "gpt2-medium": _gpt2(24, 16, 1024),
        "gpt2-large": _gpt2(36, 20, 1280),
        "gpt2-xl": _gpt2(48, 25, 1600),
    }
    reserved = {
        "n_embd": "width",
        "n_layer": "depth",
        "n_head": "heads",
        "n_inner": "mlp_dim",
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
        "add_cross_attention": "",
    }

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        base = cast(Any, model).base_model
        prefix = "" if base is model else f"{model.base_model_prefix}."
        return [
            AttentionPart(path=f"{prefix}h.{layer}.attn", kind="self", layer=layer, attention=block.attn, mlp=block.mlp)
            for layer, block in enumerate(base.h)
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention, mlp = cast(Any, part.attention), cast(Any, part.mlp)
        return Stage(
            width=attention.c_proj.nf,
            depth=1,
            heads=attention.num_heads,
            head_dim=attention.head_dim,
            mlp_dim=mlp.c_fc.nf,
        )

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Without transformers' look for padding tokens, since there are none to read on the meta device."""
        inner = cast(Any, model).base_model
        inner.warn_if_padding_and_no_attention_mask = lambda *_: None
        try:
            return super().loss(model, inputs)
        finally:
            del inner.warn_if_padding_and_no_attention_mask

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.c_proj"
