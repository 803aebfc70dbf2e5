"""The GPT-2 that the paper trains on TinyStories.

Embeddings are not tied, positions are 64, the MLP has ReLU, and attention is 12 × 42 = 504 wide at a width of 512.

Layout and sizes follow the repository that the paper cites (PraveenRaja42/Tiny-Stories-GPT).
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    DynamicCache,
    GenerationMixin,
    PreTrainedModel,
)
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast, SequenceClassifierOutput

from leanformer.architecture import Architecture, Stage
from leanformer.models.huggingface.base import check_tokens
from leanformer.models.own.base import ArchitectureConfig, OwnFamily, SelfAttention

ORIGINAL = Stage(width=512, depth=12, heads=12, head_dim=42, mlp_dim=2048)


class StoryGPTConfig(ArchitectureConfig):
    model_type = "lean_stories_gpt"

    default = Architecture(family="story-gpt", name="tinystories-gpt2", stages=(ORIGINAL,))

    vocab_size: int = 50257
    max_position_embeddings: int = 64
    dropout: float = 0.2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-5
    use_cache: bool = True
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    tie_word_embeddings: bool = False


class StoryGPTBlock(GradientCheckpointingLayer):
    def __init__(self, config: StoryGPTConfig, stage: Stage, layer_idx: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        self.attn = SelfAttention(config, stage, layer_idx, causal=True, bias=True, dropout=config.dropout)
        self.norm2 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        self.mlp = nn.Sequential(
            nn.Linear(stage.width, stage.mlp_dim), nn.ReLU(), nn.Linear(stage.mlp_dim, stage.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        attention_mask: Shaped[Tensor, "#batch #heads tokens seen"] | None,
        cache: Any = None,
    ) -> Float[Tensor, "batch tokens width"]:
        x = x + self.dropout(self.attn(self.norm1(x), attention_mask, cache))
        return x + self.dropout(self.mlp(self.norm2(x)))


class StoryGPTPreTrainedModel(PreTrainedModel):
    """Embeddings and blocks; what is predicted of the last hidden state differs."""

    config_class = StoryGPTConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True
    _no_split_modules = ["StoryGPTBlock"]

    def __init__(self, config: StoryGPTConfig) -> None:
        super().__init__(config)
        layers = config.layers
        self.token_embedding = nn.Embedding(config.vocab_size, layers[0].width)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, layers[0].width)
        self.blocks = nn.ModuleList(StoryGPTBlock(config, stage, index) for index, stage in enumerate(layers))
        self.norm = nn.LayerNorm(layers[0].width, eps=config.layer_norm_eps)

    def get_input_embeddings(self) -> nn.Module:
        return self.token_embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.token_embedding = cast(nn.Embedding, value)

    def encode(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch seen"] | None = None,
        past_key_values: Any = None,
        position_ids: Int[Tensor, "#batch tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """The last hidden states, normalised."""
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        tokens = input_ids.shape[1]
        check_tokens(self.config, seen + tokens)
        if position_ids is None:
            position_ids = torch.arange(seen, seen + tokens, device=input_ids.device)[None]
        x = self.token_embedding(input_ids) + self.position_embedding(position_ids)
        mask = create_causal_mask(self.config, x, attention_mask, past_key_values)
        for block in self.blocks:
            x = block(x, mask, past_key_values)
        return self.norm(x)


class StoryGPTForCausalLM(StoryGPTPreTrainedModel, GenerationMixin):
    def __init__(self, config: StoryGPTConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.layers[0].width, config.vocab_size)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch seen"] | None = None,
        labels: Int[Tensor, "batch tokens"] | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        position_ids: Int[Tensor, "#batch tokens"] | None = None,
        **_: Any,
    ) -> CausalLMOutputWithPast:
        """`position_ids` count from 0 by default; in batches padded on the left, each sequence has its own."""
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        logits = self.lm_head(self.encode(input_ids, attention_mask, past_key_values, position_ids))
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return CausalLMOutputWithPast(loss=cast(Any, loss), logits=logits, past_key_values=past_key_values)


class StoryGPTForSequenceClassification(StoryGPTPreTrainedModel):
    """The class of a text from its last token, as GPT-2's classifier has it."""

    def __init__(self, config: StoryGPTConfig) -> None:
        super().__init__(config)
        self.score = nn.Linear(config.layers[0].width, config.num_labels, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch tokens"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """The last token is the last one that the mask counts."""
        hidden = self.encode(input_ids, attention_mask)
        batch, tokens = input_ids.shape
        places = torch.arange(tokens, device=input_ids.device).expand(batch, tokens)
        last = places.masked_fill(attention_mask == 0, 0).amax(dim=1) if attention_mask is not None else places[:, -1]
        logits = self.score(hidden[torch.arange(batch, device=hidden.device), last])
        loss = None if labels is None else F.cross_entropy(logits.float(), labels)
        return SequenceClassifierOutput(loss=cast(Any, loss), logits=logits)


class StoryGPT(OwnFamily):
    key = "story-gpt"
    residual_branches = True
    config_class = StoryGPTConfig
    causal = True
    model_class = StoryGPTForCausalLM
    base_class = StoryGPTPreTrainedModel
    auto_classes = {
        AutoModelForCausalLM: StoryGPTForCausalLM,
        AutoModelForSequenceClassification: StoryGPTForSequenceClassification,
    }
    catalogue = {"tinystories-gpt2": ((ORIGINAL,), {})}
