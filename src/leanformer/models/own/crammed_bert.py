"""Crammed BERT (Geiping and Goldstein, 2023).

No biases, pre-norm, gated GELU, scaled sinusoidal positions, decoder tied to the embedding.

`mlp_dim` is the width of the gated projection as the paper prints it (3072); half of it leaves the gate.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Num, Shaped
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Inputs
from leanformer.models.huggingface.base import check_tokens
from leanformer.models.own.base import ArchitectureConfig, OwnFamily, SelfAttention

ORIGINAL = Stage(width=768, depth=16, heads=12, head_dim=64, mlp_dim=3072)


class CrammedBertConfig(ArchitectureConfig):
    model_type = "lean_crammed_bert"

    default = Architecture(family="crammed-bert", name="crammed-bert", stages=(ORIGINAL,))

    vocab_size: int = 32768
    max_position_embeddings: int = 512
    """Positions are computed, not learned: raising this costs no parameters."""
    hidden_dropout: float = 0.0
    """Off in pre-training; fine-tuning turns it on."""
    attention_dropout: float = 0.0
    """Of the attention's weights; likewise."""
    classifier_dim: int = 1024
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True


class ScaledSinusoidal(nn.Module):
    """Sinusoidal positions times one learned number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.scale = nn.Parameter(torch.tensor([width**-0.5]))

    def forward(self, tokens: int) -> Float[Tensor, "{tokens} width"]:
        device = self.scale.device
        rate = torch.exp(torch.arange(0, self.width, 2, device=device) * (-math.log(10000.0) / self.width))
        angle = torch.arange(tokens, device=device)[:, None] * rate
        return self.scale * torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


class GatedMLP(nn.Module):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.dense_in = nn.Linear(stage.width, stage.mlp_dim, bias=False)
        self.dense_out = nn.Linear(stage.mlp_dim // 2, stage.width, bias=False)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        value, gate = self.dense_in(x).chunk(2, dim=-1)
        return self.dense_out(value * F.gelu(gate))


class CrammedBertBlock(GradientCheckpointingLayer):
    def __init__(self, config: CrammedBertConfig, stage: Stage, layer_idx: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        self.attn = SelfAttention(config, stage, layer_idx, causal=False, bias=False, dropout=config.attention_dropout)
        self.norm2 = nn.LayerNorm(stage.width, eps=config.layer_norm_eps)
        self.mlp = GatedMLP(stage)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        attention_mask: Shaped[Tensor, "#batch #heads tokens tokens"] | None,
    ) -> Float[Tensor, "batch tokens width"]:
        x = x + self.dropout(self.attn(self.norm1(x), attention_mask))
        return x + self.dropout(self.mlp(self.norm2(x)))


class CrammedBertPreTrainedModel(PreTrainedModel):
    config_class = CrammedBertConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True
    _no_split_modules = ["CrammedBertBlock"]

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, ScaledSinusoidal):
            nn.init.constant_(module.scale, module.width**-0.5)


class CrammedBertModel(CrammedBertPreTrainedModel):
    """Token embedding and encoder; returns the last hidden state, normalised."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__(config)
        layers = config.layers
        width = layers[0].width
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.positions = ScaledSinusoidal(width)
        self.embedding_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.blocks = nn.ModuleList(CrammedBertBlock(config, stage, index) for index, stage in enumerate(layers))
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.word_embeddings = cast(nn.Embedding, value)

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch tokens"] | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        check_tokens(self.config, input_ids.shape[1])
        x = self.word_embeddings(input_ids)
        x = self.dropout(self.embedding_norm(x + self.positions(input_ids.shape[1]).to(x.dtype)))
        mask = create_bidirectional_mask(self.config, x, attention_mask)
        for block in self.blocks:
            x = block(x, mask)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class CrammedBertForMaskedLM(CrammedBertPreTrainedModel):
    _tied_weights_keys = {"decoder.weight": "encoder.word_embeddings.weight"}

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__(config)
        self.encoder = CrammedBertModel(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.decoder

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.decoder = cast(nn.Linear, new_embeddings)

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch tokens"] | None = None,
        labels: Int[Tensor, "batch tokens"] | None = None,
        **_: Any,
    ) -> MaskedLMOutput:
        """Labels are -100 where no token was masked. With labels, only masked positions are predicted, one per row."""
        hidden = self.encoder(input_ids, attention_mask).last_hidden_state
        if labels is None:
            return MaskedLMOutput(logits=self.decoder(hidden))
        masked = labels != -100
        logits = self.decoder(hidden[masked])
        loss = F.cross_entropy(logits.float(), labels[masked])
        return MaskedLMOutput(loss=cast(Any, loss), logits=logits)


class CrammedBertForSequenceClassification(CrammedBertPreTrainedModel):
    """The fine-tuning head for GLUE: the first token through a tanh layer; one label means regression."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__(config)
        self.encoder = CrammedBertModel(config)
        self.pooler = nn.Linear(config.hidden_size, config.classifier_dim)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.classifier = nn.Linear(config.classifier_dim, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Shaped[Tensor, "batch tokens"] | None = None,
        labels: Num[Tensor, " batch"] | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        first = self.encoder(input_ids, attention_mask).last_hidden_state[:, 0]
        logits = self.classifier(self.dropout(self.pooler(first).tanh()))
        loss = None
        if labels is not None:
            regression = self.config.num_labels == 1
            loss = (
                F.mse_loss(logits.squeeze(-1).float(), labels.float())
                if regression
                else F.cross_entropy(logits.float(), labels)
            )
        return SequenceClassifierOutput(loss=cast(Any, loss), logits=logits)


class CrammedBert(OwnFamily):
    key = "crammed-bert"
    residual_branches = True
    config_class = CrammedBertConfig
    model_class = CrammedBertForMaskedLM
    base_class = CrammedBertPreTrainedModel
    auto_classes = {
        AutoModel: CrammedBertModel,
        AutoModelForMaskedLM: CrammedBertForMaskedLM,
        AutoModelForSequenceClassification: CrammedBertForSequenceClassification,
    }
    catalogue = {"crammed-bert": ((ORIGINAL,), {})}

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Of a masked language model, a quarter of the tokens of each text is predicted, and only these."""
        if not isinstance(model, CrammedBertForMaskedLM):
            return super().loss(model, inputs)
        hidden = model.encoder(**inputs).last_hidden_state
        batch, tokens, _ = hidden.shape
        places = torch.arange(batch * max(1, round(0.25 * tokens)), device=hidden.device)
        logits = model.decoder(hidden.flatten(0, 1)[places])
        return F.cross_entropy(logits.float(), torch.zeros_like(places))

    def check(self, architecture: Architecture) -> None:
        for stage in architecture.stages:
            if stage.width % 2:
                raise ValueError(f"width must be even for sine and cosine positions, got {stage.width}")
            if stage.mlp_dim % 2:
                raise ValueError(f"mlp_dim must be even, since the gate halves it, got {stage.mlp_dim}")
