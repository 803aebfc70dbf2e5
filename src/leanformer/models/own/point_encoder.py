"""The encoder of "Quality over Quantity in Attention Layers" (Amsel, Yehudai and Bruna, 2025), whose tokens are points.

PyTorch's own post-norm encoder with two changes. There are m groups of heads, whose outputs are averaged, and points
are scaled to one length instead of passing a LayerNorm. A group's heads fill the width, so m is
heads × head_dim / width. m = 1 with norm="layer" is the standard transformer, whose heads split the width.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import TokenClassifierOutput

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Inputs
from leanformer.models.huggingface.base import check_tokens
from leanformer.models.own.base import ArchitectureConfig, OwnFamily, SelfAttention

ORIGINAL = Stage(width=64, depth=1, heads=1, head_dim=64, mlp_dim=2048)


class PointEncoderConfig(ArchitectureConfig):
    model_type = "lean_points"

    default = Architecture(family="point-encoder", name="farthest-point", stages=(ORIGINAL,))

    point_dim: int | None = None
    """Coordinates of a point; the width by default, and less where positions are appended."""
    norm: Literal["unit", "layer"] = "unit"
    """Points scaled to one learned length, or LayerNorm."""
    positions: Literal["none", "add", "append"] = "none"
    """Learned positions, added to the points or appended to them."""
    max_position_embeddings: int = 16
    """The most points, where there are positions."""

    @property
    def dim(self) -> int:
        return self.point_dim or self.layers[0].width


class UnitNorm(nn.Module):
    """Every point at one learned distance from the origin."""

    def __init__(self) -> None:
        super().__init__()
        self.length = nn.Parameter(torch.ones(1))

    def forward(self, x: Float[Tensor, "samples points width"]) -> Float[Tensor, "samples points width"]:
        return self.length * F.normalize(x, dim=-1)


def groups_of_heads(stage: Stage) -> float:
    """Groups that fill the width. Their outputs are averaged."""
    return max(1.0, stage.inner_width / stage.width)


class PointEncoderBlock(GradientCheckpointingLayer):
    def __init__(self, config: PointEncoderConfig, stage: Stage, layer_idx: int) -> None:
        super().__init__()
        self.attn = SelfAttention(config, stage, layer_idx, causal=False, bias=False, qkv_bias=True)
        self.groups = groups_of_heads(stage)
        self.bias = nn.Parameter(torch.zeros(stage.width))  # one bias stands for the mean of one per group
        self.mlp = nn.Sequential(
            nn.Linear(stage.width, stage.mlp_dim), nn.ReLU(), nn.Linear(stage.mlp_dim, stage.width)
        )
        self.norm1, self.norm2 = (UnitNorm() if config.norm == "unit" else nn.LayerNorm(stage.width) for _ in range(2))

    def forward(self, x: Float[Tensor, "samples points width"]) -> Float[Tensor, "samples points width"]:
        x = self.norm1(x + self.attn(x) / self.groups + self.bias)
        return self.norm2(x + self.mlp(x))

    def bounds(self) -> list[tuple[nn.Linear, float]]:
        """The bound of the uniform initialisation of each projection: that of a group which fills the width."""
        width = self.attn.qkv.in_features
        return [(self.attn.qkv, math.sqrt(6 / (4 * width))), (self.attn.proj, 1 / math.sqrt(width))]


class PointEncoderModel(PreTrainedModel):
    config_class = PointEncoderConfig
    base_model_prefix = ""
    main_input_name = "points"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True
    _no_split_modules = ["PointEncoderBlock"]

    def __init__(self, config: PointEncoderConfig) -> None:
        super().__init__(config)
        layers = config.layers
        self.point_dim = config.dim
        self.position = None
        if config.positions != "none":
            columns = layers[0].width - (config.dim if config.positions == "append" else 0)
            self.position = nn.Embedding(config.max_position_embeddings, columns)
        self.blocks = nn.ModuleList(PointEncoderBlock(config, stage, index) for index, stage in enumerate(layers))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """As PyTorch's encoder layer does it, for every group of heads and every layer separately."""
        attention = {
            linear: bound for block in self.blocks for linear, bound in cast(PointEncoderBlock, block).bounds()
        }
        if isinstance(module, nn.Linear) and module in attention:
            nn.init.uniform_(module.weight, -attention[module], attention[module])
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, PointEncoderBlock):
            nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Linear, nn.LayerNorm)):
            module.reset_parameters()
        elif isinstance(module, UnitNorm):
            nn.init.ones_(module.length)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -1, 1)

    def forward(self, points: Float[Tensor, "samples points point_dim"], **_: Any) -> TokenClassifierOutput:
        """As many points as came in, in `logits`."""
        x = points
        if self.position is not None:
            check_tokens(self.config, points.shape[1])
            places = self.position.weight[: points.shape[1]].expand(len(points), -1, -1)
            x = x + places if self.config.positions == "add" else torch.cat([x, places], dim=-1)
        for block in self.blocks:
            x = block(x)
        return TokenClassifierOutput(logits=x[..., : self.point_dim])


class PointEncoder(OwnFamily):
    key = "point-encoder"
    config_class = PointEncoderConfig
    model_class = base_class = PointEncoderModel
    auto_classes = {AutoModel: PointEncoderModel}
    catalogue = {"farthest-point": ((ORIGINAL,), {})}

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """The squared distance of every token's answer."""
        given = model(**inputs).logits
        return (given.float() - torch.zeros_like(inputs["points"])).square().sum(-1).mean()

    def attention_gain(self, stage: Stage) -> float:
        return 1 / groups_of_heads(stage)

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        described = Architecture.from_dict(cast(Any, model).config.architecture)
        return described.name, dict(described.options)

    def check(self, architecture: Architecture) -> None:
        config = cast(PointEncoderConfig, self.config(architecture))
        width, appended = architecture.stages[0].width, config.positions == "append"
        if (width <= config.dim) if appended else (width != config.dim):
            wanted = f"more than point_dim {config.dim}" if appended else f"point_dim {config.dim}"
            raise ValueError(f'width must be {wanted} where positions="{config.positions}", got {width}')

    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        config = cast(PointEncoderConfig, self.config(architecture))
        tokens = 16 if tokens is None else tokens
        if tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {tokens}")
        if config.positions != "none":
            check_tokens(config, tokens)
        return {"points": F.normalize(torch.randn(batch, tokens, config.dim), dim=-1)}


@torch.no_grad()
def closed_form(dim: int, sharpness: float = 1e5, weight: float = 1e4) -> PointEncoderModel:
    """The farthest-point task solved without training, for any number of points, by one head of full rank.

    Scores −sharpness · ⟨x, y⟩ put all attention on the farthest point. Multiplied by `weight`, that point outweighs the
    residual. The MLP adds zero, and the norms bring the sum back to length 1.
    """
    stage = Stage(width=dim, depth=1, heads=1, head_dim=dim, mlp_dim=1)
    design = Architecture(family="point-encoder", name="farthest-point", stages=(stage,))
    model = cast(PointEncoderModel, PointEncoder().build(design))
    block = cast(PointEncoderBlock, model.blocks[0])
    identity = torch.eye(dim)
    block.attn.qkv.weight.copy_(torch.cat([-sharpness * math.sqrt(dim) * identity, identity, identity]))
    block.attn.proj.weight.copy_(weight * identity)
    for parameter in block.mlp.parameters():
        parameter.zero_()
    return model.eval()
