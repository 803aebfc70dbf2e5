"""The Nyströmformer of the Long-Range Arena (Xiong et al., 2021): attention through landmarks, linear in the sequence.

Width 64, heads of size 32 whatever their number, pre-norm, learned positions, mean pooling. The true length of each
sequence is an input: padding is never guessed from token ids, so a black pixel is a pixel.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import SequenceClassifierOutput

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Inputs
from leanformer.models.huggingface.base import check_tokens
from leanformer.models.own.base import ArchitectureConfig, OwnFamily

ORIGINAL = Stage(width=64, depth=2, heads=2, head_dim=32, mlp_dim=128)


class NystromformerConfig(ArchitectureConfig):
    model_type = "lean_nystromformer"

    default = Architecture(family="nystromformer", name="nystromformer-image", stages=(ORIGINAL,))

    vocab_size: int = 512
    max_position_embeddings: int = 1024
    landmarks: int = 64
    pinv_iterations: int = 6
    conv_kernel: int | None = None
    """Kernel of the optional depthwise convolution on the values (35 upstream); None leaves it out."""
    two_towers: bool = False
    """Classify a pair of documents from [a, b, a·b, a−b] of their pooled encodings."""
    classifier_dim: int = 128
    pool_by: Literal["length", "padded"] = "length"
    """What the mean pool divides by: the true length of each sequence, or, as upstream does, the padded length."""
    pad_token_id: int | None = None
    """Which token fills up texts. The models do not read it: lengths are an input."""
    dropout: float = 0.1
    mlp_dropout: float = 0.0
    """After the MLP's GELU; 0.1 upstream."""
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-5


def nystrom_attention(
    query: Float[Tensor, "batch heads tokens head_dim"],
    key: Float[Tensor, "batch heads tokens head_dim"],
    value: Float[Tensor, "batch heads tokens head_dim"],
    mask: Bool[Tensor, "batch tokens"] | None = None,
    landmarks: int = 64,
    iterations: int = 6,
) -> Float[Tensor, "batch heads tokens head_dim"]:
    """Softmax attention, approximated through segment means; `mask` is True on tokens.

    softmax(QKᵀ)V ≈ F · pinv(A) · B·V with F = softmax(QK̃ᵀ), A = softmax(Q̃K̃ᵀ), B = softmax(Q̃Kᵀ). F and B are applied
    by the fused kernel and never stored, and products associate from the right, so memory is linear in the tokens.
    """
    tokens, head_dim = query.shape[-2:]
    if mask is not None:
        keep = mask[:, None, :, None]
        query, key = query * keep, key * keep
    if tokens <= landmarks:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=None if mask is None else mask[:, None, None, :]
        )
    scale = head_dim**-0.5
    if padding := -tokens % landmarks:
        mask = query.new_ones(query.shape[0], tokens, dtype=torch.bool) if mask is None else mask
        mask = F.pad(mask, (0, padding))
        query, key, value = (F.pad(t, (0, 0, 0, padding)) for t in (query, key, value))
    query_means = query.unflatten(-2, (landmarks, -1)).mean(dim=-2)
    key_means = key.unflatten(-2, (landmarks, -1)).mean(dim=-2)
    key_mask = None if mask is None else mask[:, None, None, :]
    mixed = F.scaled_dot_product_attention(query_means, key, value, attn_mask=key_mask, scale=scale)
    with _no_autocast(query.device.type):
        wide = torch.promote_types(query.dtype, torch.float32)
        kernel = (query_means.to(wide) @ key_means.to(wide).transpose(-2, -1) * scale).softmax(dim=-1)
        mixed = (pseudo_inverse(kernel, iterations) @ mixed.to(wide)).to(value.dtype)
    return F.scaled_dot_product_attention(query, key_means, mixed, scale=scale)[..., :tokens, :]


def _no_autocast(device: str) -> AbstractContextManager[Any]:
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def pseudo_inverse(matrix: Float[Tensor, "*batch n n"], iterations: int) -> Float[Tensor, "*batch n n"]:
    """Moore–Penrose inverse of row-stochastic matrices by the iteration of Razavi et al.

    Each matrix has its own starting scale. Upstream's default takes one scale for the whole batch, and so a result
    depends on the other samples of its batch.
    """
    identity = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    inverse = matrix.transpose(-2, -1) / matrix.sum(dim=-2).amax(dim=-1)[..., None, None]
    for _ in range(iterations):
        product = matrix @ inverse
        inverse = 0.25 * inverse @ (13 * identity - product @ (15 * identity - product @ (7 * identity - product)))
    return inverse


class NystromAttention(nn.Module):
    def __init__(self, config: NystromformerConfig, stage: Stage) -> None:
        super().__init__()
        self.num_heads, self.head_dim = stage.heads, stage.head_dim
        self.landmarks, self.pinv_iterations = config.landmarks, config.pinv_iterations
        self.qkv = nn.Linear(stage.width, 3 * stage.inner_width)
        self.proj = nn.Linear(stage.inner_width, stage.width)
        self.conv = None
        if config.conv_kernel is not None:
            kernel, padding = (config.conv_kernel, 1), (config.conv_kernel // 2, 0)
            self.conv = nn.Conv2d(stage.heads, stage.heads, kernel, padding=padding, groups=stage.heads, bias=False)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        batch, tokens, _ = x.shape
        query, key, value = (
            self.qkv(x).view(batch, tokens, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        )
        heads = nystrom_attention(query, key, value, mask, self.landmarks, self.pinv_iterations)
        if self.conv is not None:
            heads = heads + self.conv(value if mask is None else value * mask[:, None, :, None])
        return self.proj(heads.transpose(1, 2).reshape(batch, tokens, -1))


class NystromformerBlock(GradientCheckpointingLayer):
    def __init__(self, config: NystromformerConfig, stage: Stage) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        self.attn = NystromAttention(config, stage)
        self.norm2 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        dropped = [nn.Dropout(config.mlp_dropout)] if config.mlp_dropout else []
        self.mlp = nn.Sequential(
            nn.Linear(stage.width, stage.mlp_dim),
            nn.Sequential(nn.GELU(), *dropped) if dropped else nn.GELU(),  # so that the Linears keep their names
            nn.Linear(stage.mlp_dim, stage.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], mask: Bool[Tensor, "batch tokens"] | None
    ) -> Float[Tensor, "batch tokens width"]:
        x = x + self.dropout(self.attn(self.norm1(x), mask))
        return x + self.dropout(self.mlp(self.norm2(x)))


class NystromformerForSequenceClassification(PreTrainedModel):
    config_class = NystromformerConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["NystromformerBlock"]

    def __init__(self, config: NystromformerConfig) -> None:
        super().__init__(config)
        layers = config.layers
        width = layers[0].width
        self.token_embedding = nn.Embedding(config.vocab_size, width)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(NystromformerBlock(config, stage) for stage in layers)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.head = nn.Sequential(
            nn.Linear(width * 4 if config.two_towers else width, config.classifier_dim),
            nn.ReLU(),
            nn.Linear(config.classifier_dim, config.num_labels),
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.token_embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.token_embedding = cast(nn.Embedding, value)

    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings by the config; elsewhere PyTorch's own initialisation, as in upstream's benchmark code."""
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        elif isinstance(module, (nn.Linear, nn.LayerNorm, nn.Conv2d)):
            module.reset_parameters()

    def encode(
        self, input_ids: Int[Tensor, "batch tokens"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch width"]:
        """Mean over the true tokens of each sequence; with `pool_by` "padded", their sum over the padded length.

        A sequence without tokens gives zeros.
        """
        tokens = input_ids.shape[1]
        check_tokens(self.config, tokens)
        positions = torch.arange(tokens, device=input_ids.device)
        mask = None if lengths is None else positions < lengths[:, None]
        x = self.dropout(self.token_embedding(input_ids) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x)
        if mask is None or lengths is None:
            return x.mean(dim=1)
        counted = lengths.clamp(1, tokens)[:, None] if self.config.pool_by == "length" else tokens
        return (x * mask[..., None]).sum(dim=1) / counted

    def forward(
        self,
        input_ids: Int[Tensor, "batch *pair tokens"],
        lengths: Int[Tensor, " batch *pair"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        attention_mask: Int[Tensor, "batch *pair tokens"] | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """`lengths` counts the true tokens of each sequence; with two towers `pair` is 2, else it is absent.

        A mask of ones on tokens and zeros on the padding behind them says the same.
        """
        if lengths is None and attention_mask is not None:
            lengths = attention_mask.sum(dim=-1)
        if self.config.two_towers:
            pooled = self.encode(input_ids.flatten(0, 1), None if lengths is None else lengths.flatten())
            a, b = pooled.unflatten(0, (-1, 2)).unbind(1)
            pooled = torch.cat((a, b, a * b, a - b), dim=-1)
        else:
            pooled = self.encode(input_ids, lengths)
        logits = self.head(pooled)
        loss = None if labels is None else F.cross_entropy(logits.float(), labels)
        return SequenceClassifierOutput(loss=cast(Any, loss), logits=logits)


class Nystromformer(OwnFamily):
    key = "nystromformer"
    residual_branches = True
    config_class = NystromformerConfig
    model_class = base_class = NystromformerForSequenceClassification
    kernels_by_config = False
    auto_classes = {AutoModelForSequenceClassification: NystromformerForSequenceClassification}
    catalogue = {
        "nystromformer-listops": ((ORIGINAL,), {"vocab_size": 32, "max_position_embeddings": 2048, "num_labels": 10}),
        "nystromformer-text": ((ORIGINAL,), {"max_position_embeddings": 4096, "num_labels": 2}),
        "nystromformer-retrieval": (
            (ORIGINAL,),
            {"max_position_embeddings": 4096, "num_labels": 2, "two_towers": True},
        ),
        "nystromformer-image": ((ORIGINAL,), {"num_labels": 10}),
        "nystromformer-pathfinder": ((ORIGINAL,), {"num_labels": 2}),
    }

    def check(self, architecture: Architecture) -> None:
        config = cast(Any, self.config(architecture))
        if config.conv_kernel is not None and config.conv_kernel % 2 == 0:
            raise ValueError(f"conv_kernel must be odd, so that it has a centre, got {config.conv_kernel}")
        if config.pool_by not in ("length", "padded"):
            raise ValueError(f"pool_by must be 'length' or 'padded', got {config.pool_by!r}")
        for field in ("landmarks", "pinv_iterations"):
            if getattr(config, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(config, field)}")

    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        config = cast(Any, self.config(architecture))
        tokens = self.length(config, tokens, usual=256)
        shape = (batch, 2, tokens) if config.two_towers else (batch, tokens)
        return {
            "input_ids": torch.randint(config.vocab_size, shape),
            "lengths": torch.randint(1, tokens + 1, shape[:-1]),
        }
