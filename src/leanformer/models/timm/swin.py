"""Swin: timm's `SwinTransformer`, stage by stage.

Attention is over windows, and each head has a table of relative positions. timm's attention reads its sizes from its
own attributes, so no forward is rewritten here.
"""

from typing import Any, cast

import torch
from timm.layers import Mlp, trunc_normal_
from timm.models.swin_transformer import SwinTransformer, WindowAttention
from timm.models.vision_transformer import get_init_weights_vit
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import Initialise, TimmFamily, construction_heads, mlp_ratio, placement


class Swin(TimmFamily):
    key = "swin"
    modules, not_resizable = TIMM["swin"]
    model_class = SwinTransformer
    stage_count = 4
    feature_settings = {"out_indices": (0, 1, 2, 3), "flatten_sequential": True}
    reserved = {
        "depths": "depth",
        "num_heads": "heads",
        "head_dim": "head_dim",
        "embed_dim": "width",
        "mlp_ratio": "mlp_dim",
    }

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        found: list[AttentionPart] = []
        for stage, blocks in enumerate(cast(SwinTransformer, model).layers):
            for i, block in enumerate(blocks.blocks):
                if type(block.attn) is not WindowAttention or type(block.mlp) is not Mlp:
                    raise ValueError(
                        f"this Swin is built of {type(block.attn).__name__} and {type(block.mlp).__name__}; "
                        "only WindowAttention and Mlp can be resized"
                    )
                found.append(
                    AttentionPart(
                        path=f"layers.{stage}.blocks.{i}.attn",
                        kind="window",
                        stage=stage,
                        layer=len(found),
                        attention=block.attn,
                        mlp=block.mlp,
                    )
                )
        return found

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stages = architecture.stages
        return {
            "embed_dim": stages[0].width,
            "depths": tuple(stage.depth for stage in stages),
            "num_heads": tuple(construction_heads(stage) for stage in stages),
            "mlp_ratio": tuple(mlp_ratio(stage) for stage in stages),
        }

    def check(self, architecture: Architecture) -> None:
        widths = [stage.width for stage in architecture.stages]
        if widths != (doubled := [widths[0] << stage for stage in range(len(widths))]):
            raise ValueError(f"width must double from stage to stage of a Swin: {doubled}, got {widths}")

    def set_heads(self, attention: nn.Module, heads: int, head_dim: int, initialise: Initialise) -> None:
        super().set_heads(attention, heads, head_dim, initialise)
        table = cast(nn.Parameter, attention.relative_position_bias_table)
        if table.shape[1] != heads:
            resized = nn.Parameter(torch.empty(len(table), heads, **placement(table)))
            trunc_normal_(resized, std=0.02)
            attention.relative_position_bias_table = resized

    def initialise(self, model: nn.Module, name: str, module: nn.Module) -> None:
        get_init_weights_vit(cast(SwinTransformer, model).weight_init_mode)(module, name)
