"""XCiT: timm's `Xcit`. Heads attend over channels (cross-covariance); class attention keeps its own heads."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from timm.models.xcit import XCA, Xcit
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import Initialise, TimmFamily, construction_heads, mlp_ratio, placement


class DecoupledXCA(XCA):
    """XCA whose concatenated heads may be wider or narrower than the tokens."""

    head_dim: int

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 4, 1).unbind(0)
        q, k = F.normalize(q, dim=-1) * self.temperature, F.normalize(k, dim=-1)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, scale=1.0)
        else:
            x = self.attn_drop((q @ k.transpose(-2, -1)).softmax(dim=-1)) @ v
        x = x.permute(0, 3, 1, 2).reshape(batch, tokens, self.num_heads * self.head_dim)
        return self.proj_drop(self.proj(x))


class XCiT(TimmFamily):
    key = "xcit"
    modules, not_resizable = TIMM["xcit"]
    model_class = Xcit
    reserved = {"depth": "depth", "num_heads": "heads", "embed_dim": "width", "mlp_ratio": "mlp_dim"}
    own_options = ("class_heads",)

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        xcit = cast(Xcit, model)
        found = [
            AttentionPart(
                path=f"blocks.{layer}.attn", kind="cross-covariance", layer=layer, attention=block.attn, mlp=block.mlp
            )
            for layer, block in enumerate(xcit.blocks)
        ]
        return found + [
            AttentionPart(
                path=f"cls_attn_blocks.{i}.attn",
                kind="class",
                layer=len(found) + i,
                attention=block.attn,
                mlp=block.mlp,
            )
            for i, block in enumerate(xcit.cls_attn_blocks)
        ]

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stage = architecture.stages[0]
        return {
            "embed_dim": stage.width,
            "depth": architecture.depth,
            "num_heads": construction_heads(stage),
            "mlp_ratio": mlp_ratio(stage),
        }

    def check(self, architecture: Architecture) -> None:
        width, heads = architecture.stages[0].width, self.class_heads(architecture)
        if width < 8:
            raise ValueError(f"width must be at least 8 for XCiT's convolutional stem, got {width}")
        if width % heads:
            raise ValueError(f"class_heads={heads} must divide width {width}: the class attention splits it")

    def decouple(self, attention: nn.Module) -> None:
        if type(attention) is XCA:
            attention.__class__ = DecoupledXCA  # same state, a forward of its own

    def set_heads(self, attention: nn.Module, heads: int, head_dim: int, initialise: Initialise) -> None:
        super().set_heads(attention, heads, head_dim, initialise)
        if isinstance(attention, XCA) and attention.temperature.shape[0] != heads:
            attention.temperature = nn.Parameter(torch.ones(heads, 1, 1, **placement(attention.temperature)))
