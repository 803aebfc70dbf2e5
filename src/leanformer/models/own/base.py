"""What the models of our own share: a config that holds the architecture, multi-head attention of any inner width, and
a family whose models are `blocks` of `attn` and `mlp`.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import AttentionPart
from leanformer.models.huggingface.base import HuggingFaceFamily


class ArchitectureConfig(PreTrainedConfig):
    """Config of a model of our own: `architecture` describes the layers, the other fields describe the rest."""

    default: ClassVar[Architecture]

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; the family's original by default."""

    def __post_init__(self, **kwargs: Any) -> None:
        if self.architecture is None:
            self.architecture = self.default.to_dict()
        described = Architecture.from_dict(self.architecture)
        # Hugging Face's own tools look here for sizes. For a schedule of heads they find the first layer's.
        self.hidden_size, self.num_hidden_layers = described.stages[0].width, described.depth
        self.num_attention_heads = described.stages[0].heads
        super().__post_init__(**kwargs)

    @property
    def layers(self) -> tuple[Stage, ...]:
        return Architecture.from_dict(cast(Any, self.architecture)).layers


class OwnFamily(HuggingFaceFamily):
    """A family whose models are our own: `blocks` of `attn` and `mlp`."""

    reserved = {
        "architecture": "depth, heads",
        "hidden_size": "width",
        "num_hidden_layers": "depth",
        "num_attention_heads": "heads",
    }

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        prefix, holder = (
            ("", model) if hasattr(model, "blocks") else (f"{model.base_model_prefix}.", cast(Any, model).base_model)
        )
        return [
            AttentionPart(
                path=f"{prefix}blocks.{layer}.attn", kind="self", layer=layer, attention=block.attn, mlp=block.mlp
            )
            for layer, block in enumerate(cast(Any, holder).blocks)
        ]

    def shape(self, part: AttentionPart) -> Stage:
        attention = cast(Any, part.attention)
        first = next(module for module in cast(nn.Module, part.mlp).modules() if isinstance(module, nn.Linear))
        return Stage(
            width=attention.proj.out_features,
            depth=1,
            heads=attention.num_heads,
            head_dim=attention.head_dim,
            mlp_dim=first.out_features,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.proj"


def eager_attention_forward(
    module: nn.Module,
    query: Float[Tensor, "batch heads tokens head_dim"],
    key: Float[Tensor, "batch heads seen head_dim"],
    value: Float[Tensor, "batch heads seen head_dim"],
    attention_mask: Float[Tensor, "#batch #heads tokens seen"] | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Float[Tensor, "batch tokens heads head_dim"], Float[Tensor, "batch heads tokens seen"]]:
    """Explicit attention: transformers' `eager` implementation for models of our own."""
    scores = query @ key.transpose(-2, -1) * scaling
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(dim=-1, dtype=torch.float32)
    weights = nn.functional.dropout(weights.to(value.dtype), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights


class SelfAttention(nn.Module):
    """Multi-head attention of any inner width, through the kernel that the config's `attn_implementation` names."""

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

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        attention_mask: Shaped[Tensor, "#batch #heads tokens seen"] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "batch tokens width"]:
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
