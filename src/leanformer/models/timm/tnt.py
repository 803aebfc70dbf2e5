"""TNT: timm's `TNT`. Each layer has an inner transformer over pixels, which stays as it is, and an outer one
over patches.
"""

from typing import Any, cast

import torch.nn.functional as F
from jaxtyping import Float
from timm.layers import use_fused_attn
from timm.models.tnt import TNT as TimmTNT
from timm.models.tnt import Attention
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import TimmFamily, construction_heads, mlp_ratio


class FusedAttention(Attention):
    """TNT's attention through PyTorch's fused kernel, as in timm's other models; upstream computes it explicitly."""

    fused_attn: bool

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        if not self.fused_attn:
            return super().forward(x)
        batch, tokens, _ = x.shape
        q, k = self.qk(x).reshape(batch, tokens, 2, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        v = self.v(x).reshape(batch, tokens, self.num_heads, -1).transpose(1, 2)
        x = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0, scale=self.scale
        )
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(batch, tokens, -1)))


class TNT(TimmFamily):
    key = "tnt"
    modules, not_resizable = TIMM["tnt"]
    model_class = TimmTNT
    patches = "pixel_embed"
    reserved = {"depth": "depth", "num_heads_outer": "heads", "embed_dim": "width", "mlp_ratio": "mlp_dim"}

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        found = []
        for layer, block in enumerate(cast(TimmTNT, model).blocks):
            path = f"blocks.{layer}"
            found += [
                AttentionPart(
                    path=f"{path}.attn_in", kind="inner", layer=layer, attention=block.attn_in, mlp=block.mlp_in
                ),
                AttentionPart(
                    path=f"{path}.attn_out", kind="self", layer=layer, attention=block.attn_out, mlp=block.mlp
                ),
            ]
        return found

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stage = architecture.stages[0]
        return {
            "embed_dim": stage.width,
            "depth": architecture.depth,
            "num_heads_outer": construction_heads(stage),
            "mlp_ratio": mlp_ratio(stage),
        }

    def decouple(self, attention: nn.Module) -> None:
        attention.__class__ = FusedAttention  # same state, a forward of its own
        cast(FusedAttention, attention).fused_attn = use_fused_attn()
