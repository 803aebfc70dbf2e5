"""ViT and DeiT: timm's `VisionTransformer`.

timm's attention reads its sizes from its own attributes, so no forward is rewritten here.
"""

from typing import Any, cast

from timm.layers import Attention, Mlp, to_2tuple
from timm.models.vision_transformer import Block, VisionTransformer, get_init_weights_vit
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models.base import AttentionPart, class_of
from leanformer.models.catalogue import TIMM
from leanformer.models.timm.base import TimmFamily, construction_heads, mlp_ratio, upstream, upstream_has


class ViT(TimmFamily):
    key = "vit"
    residual_branches = True
    modules, not_resizable = TIMM["vit"]
    model_class = VisionTransformer
    patches = "patch_embed"
    reserved = {"depth": "depth", "num_heads": "heads", "embed_dim": "width", "mlp_ratio": "mlp_dim"}

    def parts(self, model: nn.Module) -> list[AttentionPart]:
        vit = cast(VisionTransformer, model)
        if vit.attn_pool is not None:
            raise ValueError("this ViT pools by attention; only those that pool by token or by mean can be resized")
        found = []
        for layer, block in enumerate(vit.blocks):
            self._check_block(block)
            found.append(
                AttentionPart(
                    path=f"blocks.{layer}.attn", kind="self", layer=layer, attention=block.attn, mlp=block.mlp
                )
            )
        return found

    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        stage = architecture.stages[0]
        return {
            "embed_dim": stage.width,
            "depth": architecture.depth,
            "num_heads": construction_heads(stage),
            "mlp_ratio": mlp_ratio(stage),
        }

    def patch_size(self, architecture: Architecture) -> tuple[int, int] | None:
        if (given := architecture.options.get("patch_size")) is not None:
            return to_2tuple(given)
        return (
            cast(Any, upstream(architecture.name)).patch_embed.patch_size if upstream_has(architecture.name) else None
        )

    def initialise(self, model: nn.Module, name: str, module: nn.Module) -> None:
        vit = cast(VisionTransformer, model)
        get_init_weights_vit(vit.weight_init_mode)(module, name)

    def check(self, architecture: Architecture) -> None:
        if architecture.options.get("fix_init"):
            raise ValueError(
                "fix_init is not supported: it rescales layers after the initialisation that resizing relies on"
            )

    @staticmethod
    def _check_block(block: Any) -> None:
        """Refuse the rarer blocks of timm's ViTs (parallel, differential, gated, SwiGLU) by name."""
        plain = class_of(block) is Block and type(block.attn) is Attention and type(block.mlp) is Mlp
        if not plain:
            parts = [class_of(block).__name__] + [
                type(getattr(block, n)).__name__ for n in ("attn", "mlp") if hasattr(block, n)
            ]
            raise ValueError(f"this ViT is built of {', '.join(parts)}; only Block, Attention and Mlp can be resized")
        if block.attn.gate is not None or not isinstance(block.attn.norm, nn.Identity):
            raise ValueError("this ViT gates or normalises its heads' output; only the plain attention can be resized")
