"""DaViT: timm's `DaVit`.

Each layer is a pair: attention over windows, then attention over channels, each with its own MLP.
"""

from typing import Any, cast

import torch.nn.functional as F
from jaxtyping import Float
from timm.models.davit import ChannelAttention, DaVit, SpatialBlock, WindowAttention
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart, Kind
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import TimmFamily, construction_heads, mlp_ratio


class DecoupledWindow(WindowAttention):
    """Window attention whose concatenated heads may be wider or narrower than the tokens."""

    head_dim: int

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        windows, tokens, _ = x.shape
        q, k, v = (
            self.qkv(x).reshape(windows, tokens, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        )
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            x = self.softmax(q * self.scale @ k.transpose(-2, -1)) @ v
        return self.proj(x.transpose(1, 2).reshape(windows, tokens, self.num_heads * self.head_dim))


class DecoupledChannel(ChannelAttention):
    """Channel attention whose concatenated heads may be wider or narrower than the tokens."""

    head_dim: int

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((k * self.scale).transpose(-1, -2) @ v).softmax(dim=-1)
        x = (weights @ q.transpose(-1, -2)).transpose(-1, -2)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, self.num_heads * self.head_dim))


DECOUPLED: dict[type[nn.Module], type[nn.Module]] = {
    WindowAttention: DecoupledWindow,
    ChannelAttention: DecoupledChannel,
}


class DaViT(TimmFamily):
    key = "davit"
    modules, not_resizable = TIMM["davit"]
    model_class = DaVit
    stage_count = 4
    own_options = ("img_size",)  # the model takes any size
    feature_settings = {"out_indices": (0, 1, 2, 3), "flatten_sequential": True}
    reserved = {"depths": "depth", "num_heads": "heads", "embed_dims": "width", "mlp_ratio": "mlp_dim"}

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        found: list[AttentionPart] = []
        layer = 0
        for stage, blocks in enumerate(cast(DaVit, model).stages):
            for i, pair in enumerate(blocks.blocks):
                for name, block in pair.named_children():
                    if type(block.attn) not in (*DECOUPLED, *DECOUPLED.values()):
                        raise ValueError(f"this DaViT attends by {type(block.attn).__name__}, which cannot be resized")
                    kind: Kind = "window" if isinstance(block, SpatialBlock) else "channel"
                    path = f"stages.{stage}.blocks.{i}.{name}.attn"
                    part = AttentionPart(
                        path=path, kind=kind, stage=stage, layer=layer, attention=block.attn, mlp=block.mlp
                    )
                    found.append(part)
                layer += 1
        return found

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stages = architecture.stages
        return {
            "depths": tuple(stage.depth for stage in stages),
            "embed_dims": tuple(stage.width for stage in stages),
            "num_heads": tuple(construction_heads(stage) for stage in stages),
            "mlp_ratio": mlp_ratio(stages[0]),
        }

    def decouple(self, attention: nn.Module) -> None:
        attention.__class__ = DECOUPLED[type(attention)]  # same state, a forward of its own
