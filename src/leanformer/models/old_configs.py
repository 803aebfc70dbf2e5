"""Configs that name no model type, as those of BERT's first years do. Standard library only."""

from collections.abc import Mapping
from typing import Any

BERT = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "type_vocab_size"}
"""Fields by which BERT's are known."""


def with_type(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its model type, if it can be told."""
    return {"model_type": "bert", **config} if config.keys() >= BERT else dict(config)
