"""VOLO: timm's `VOLO`. A stage of outlook attention, three of self-attention, then class attention, which
stays as it is.
"""

import math
from typing import Any, cast

import torch.nn.functional as F
from jaxtyping import Float
from timm.models.volo import VOLO as TimmVOLO
from timm.models.volo import Attention, OutlookAttention
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart, Kind
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import Initialise, TimmFamily, construction_heads, mlp_ratio, set_linear, upstream


class DecoupledOutlook(OutlookAttention):
    """Outlook attention whose concatenated heads may be wider or narrower than the tokens."""

    head_dim: int

    def forward(self, x: Float[Tensor, "batch height width dim"]) -> Float[Tensor, "batch height width dim"]:
        batch, height, width, _ = x.shape
        rows, columns = math.ceil(height / self.stride), math.ceil(width / self.stride)
        window, inner_width = self.kernel_size**2, self.num_heads * self.head_dim

        v = self.unfold(self.v(x).permute(0, 3, 1, 2))
        v = v.reshape(batch, self.num_heads, self.head_dim, window, rows * columns).permute(0, 1, 4, 3, 2)
        weights = self.attn(self.pool(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        weights = weights.reshape(batch, rows * columns, self.num_heads, window, window).permute(0, 2, 1, 3, 4)
        weights = self.attn_drop((weights * self.scale).softmax(dim=-1))

        x = (weights @ v).permute(0, 1, 4, 3, 2).reshape(batch, inner_width * window, rows * columns)
        x = F.fold(x, (height, width), self.kernel_size, padding=self.padding, stride=self.stride)
        return self.proj_drop(self.proj(x.permute(0, 2, 3, 1)))


class DecoupledAttention(Attention):
    """VOLO's self-attention whose concatenated heads may be wider or narrower than the tokens."""

    head_dim: int

    def forward(self, x: Float[Tensor, "batch height width dim"]) -> Float[Tensor, "batch height width dim"]:
        batch, height, width, _ = x.shape
        qkv = self.qkv(x).reshape(batch, height * width, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        else:
            x = self.attn_drop((q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1)) @ v
        x = x.transpose(1, 2).reshape(batch, height, width, self.num_heads * self.head_dim)
        return self.proj_drop(self.proj(x))


DECOUPLED: dict[type[nn.Module], type[nn.Module]] = {OutlookAttention: DecoupledOutlook, Attention: DecoupledAttention}


class VOLO(TimmFamily):
    key = "volo"
    modules, not_resizable = TIMM["volo"]
    model_class = TimmVOLO
    stage_count = 4
    reserved = {"layers": "depth", "num_heads": "heads", "embed_dims": "width", "mlp_ratio": "mlp_dim"}
    own_options = ("class_heads",)

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        volo = cast(TimmVOLO, model)
        found: list[AttentionPart] = []
        stages = [(index, blocks) for index, blocks in enumerate(volo.network) if isinstance(blocks, nn.Sequential)]
        for stage, (index, blocks) in enumerate(stages):
            for i, block in enumerate(cast(Any, blocks)):
                kind: Kind = "outlook" if isinstance(block.attn, OutlookAttention) else "self"
                path = f"network.{index}.{i}.attn"
                found.append(
                    AttentionPart(
                        path=path, kind=kind, stage=stage, layer=len(found), attention=block.attn, mlp=block.mlp
                    )
                )
        depth = len(found)
        return found + [
            AttentionPart(
                path=f"post_network.{i}.attn", kind="class", layer=depth + i, attention=block.attn, mlp=block.mlp
            )
            for i, block in enumerate(volo.post_network or [])
        ]

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stages = architecture.stages
        return {
            "layers": [stage.depth for stage in stages],
            "embed_dims": [stage.width for stage in stages],
            "num_heads": [construction_heads(stage) for stage in stages],
            "mlp_ratio": tuple(mlp_ratio(stage) for stage in stages),
        }

    def construct(self, architecture: Architecture) -> nn.Module:
        """Call the class: timm's entry points for VOLO refuse another depth."""
        options = self.timm_options(architecture.options)
        original = cast(TimmVOLO, upstream(architecture.name, **options))
        options.setdefault("img_size", original.pretrained_cfg["input_size"][-1])
        options.setdefault("stem_hidden_dim", original.patch_embed.conv[0].out_channels)
        model = TimmVOLO(**self.arguments(architecture), **options)
        model.pretrained_cfg = model.default_cfg = original.pretrained_cfg
        return model

    def check(self, architecture: Architecture) -> None:
        widths = [stage.width for stage in architecture.stages]
        if len(set(widths[1:])) > 1:
            raise ValueError(f"width must be the same in VOLO's stages 2 to 4, got {widths}")
        heads = self.class_heads(architecture)
        if widths[-1] % heads:
            raise ValueError(f"class_heads={heads} must divide width {widths[-1]}: the class attention splits it")

    def decouple(self, attention: nn.Module) -> None:
        if type(attention) in DECOUPLED:
            attention.__class__ = DECOUPLED[type(attention)]  # same state, a forward of its own

    def set_heads(self, attention: nn.Module, heads: int, head_dim: int, initialise: Initialise) -> None:
        super().set_heads(attention, heads, head_dim, initialise)
        if isinstance(attention, OutlookAttention):
            set_linear(attention, "attn", initialise, out_features=attention.kernel_size**4 * heads)
