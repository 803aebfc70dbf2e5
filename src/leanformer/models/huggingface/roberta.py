"""Hugging Face's RoBERTa with heads of any number and size, layer by layer.

Its layers are BERT's. Its positions begin after the padding's, so that it takes two tokens fewer than it has positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
    RobertaPreTrainedModel,
)

from leanformer.models.huggingface.base import take_architecture
from leanformer.models.huggingface.bert import BASE, LARGE, Bert, ResizedEncoder


class LeanRobertaConfig(RobertaConfig):
    model_type = "lean_roberta"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default RoBERTa's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        take_architecture(self, "roberta", "roberta-base")
        super().__post_init__(**kwargs)


class LeanRobertaModel(ResizedEncoder, RobertaModel):
    config_class = LeanRobertaConfig


class LeanRobertaForMaskedLM(ResizedEncoder, RobertaForMaskedLM):
    config_class = LeanRobertaConfig


class LeanRobertaForSequenceClassification(ResizedEncoder, RobertaForSequenceClassification):
    config_class = LeanRobertaConfig


PUBLISHED: dict[str, Any] = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
"""What the published models have, where transformers' defaults differ."""


class Roberta(Bert):
    key = "roberta"
    config_class = LeanRobertaConfig
    model_class = LeanRobertaForMaskedLM
    base_class = RobertaPreTrainedModel
    auto_classes = {
        AutoModel: LeanRobertaModel,
        AutoModelForMaskedLM: LeanRobertaForMaskedLM,
        AutoModelForSequenceClassification: LeanRobertaForSequenceClassification,
    }
    catalogue = {
        "roberta-base": ((BASE,), PUBLISHED),
        "roberta-large": ((LARGE,), PUBLISHED),
        "distilroberta-base": ((replace(BASE, depth=6),), PUBLISHED),
    }
