"""The rank of what a head can ask for: W_Q W_Kᵀ of every head of any model, read off its weights.

A head compares two tokens by xᵀ W_Q W_Kᵀ y, a matrix of the width that has at most rank head_dim; the effective rank
says how many of those directions training put to use. May import conditioning and probing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leanformer.conditioning.probing import unwrap
from leanformer.conditioning.spectra import conditioning

FUSED = {"qkv": 3, "qk": 2, "c_attn": 3}
"""Layers that compute queries, keys and maybe values at once, and how many of them."""
APART = (("q_proj", "k_proj"), ("query", "key"), ("q_lin", "k_lin"), ("q", "k"))
"""Names of a layer for queries and one for keys."""
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
OTHER_SCORES = ("xca", "channel", "covariance", "factor")
"""Attentions that compare channels, not tokens, or none at all: W_Q W_Kᵀ is not what their scores are made of."""


@torch.no_grad()
def query_key_ranks(model: nn.Module) -> list[dict[str, Any]]:
    """For every attention that has queries and keys: the effective and the stable rank of W_Q W_Kᵀ, head by head.

    Rotary positions, which turn queries and keys, change neither number at equal positions. Norms of queries and keys
    (Qwen3's) are not in it.
    """
    found = []
    for name, module in unwrap(model).named_modules():
        weights = query_key(module)
        if weights is None:
            continue
        query, key = weights
        values = conditioning(_product(query.double(), key.double()), name)
        found.append(
            {
                "name": name,
                "heads": query.shape[0],
                "head_dim": query.shape[1],
                "width": query.shape[2],
                "effective_rank": values.effective_rank.tolist(),
                "stable_rank": values.stable_rank.tolist(),
            }
        )
    return found


def _product(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """A small matrix with the singular values of W_Q W_Kᵀ: the bases that QR splits off do not change them."""
    left, right = (torch.linalg.qr(weight.mT.cpu()).R for weight in (query, key))
    return left @ right.mT


def query_key(module: nn.Module) -> tuple[torch.Tensor, torch.Tensor] | None:
    """W_Q and W_K of an attention module, each (heads, head_dim, width); None if it is none."""
    if any(word in type(module).__name__.lower() for word in OTHER_SCORES):
        return None
    pair = _of_multihead(module) if isinstance(module, nn.MultiheadAttention) else _fused(module) or _apart(module)
    if pair is None or (heads := _heads(module, len(pair[0]))) is None:
        return None
    query, key = pair
    head_dim = len(query) // heads
    sharing = heads * head_dim // len(key)  # grouped-query attention: several heads share a key
    keys = key.unflatten(0, (-1, head_dim)).repeat_interleave(sharing, dim=0)
    return query.unflatten(0, (heads, head_dim)), keys


Pair = tuple[torch.Tensor, torch.Tensor]
"""Weights of queries and of keys, head after head."""


def _of_multihead(module: nn.MultiheadAttention) -> Pair:
    if module.in_proj_weight is None:
        return module.q_proj_weight, module.k_proj_weight
    query, key, _ = module.in_proj_weight.chunk(3)
    return query, key


def _fused(module: nn.Module) -> Pair | None:
    if getattr(module, "head_first", False) or getattr(module, "is_cross_attention", False):
        return None  # rows in another order
    projection = getattr(module, "proj", None)
    values = projection.in_features if isinstance(projection, nn.Linear) else None
    for name, parts in FUSED.items():
        weight = _weight(getattr(module, name, None))
        if weight is None or len(weight) % parts:
            continue
        if name != "qkv" or values in (None, len(weight) // parts):  # else values are of another size than queries
            query, key = weight.chunk(parts)[:2]
            return query, key
    return None


def _apart(module: nn.Module) -> Pair | None:
    for names in APART:
        query, key = (_weight(getattr(module, name, None)) for name in names)
        if query is not None and key is not None:
            return query, key
    return None


def _weight(layer: Any) -> torch.Tensor | None:
    """Rows are what a layer computes; transformers' Conv1D keeps them as columns."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.ndim != 2 or isinstance(layer, nn.Embedding):
        return None
    return weight.mT if type(layer).__name__ == "Conv1D" else weight


def _heads(module: nn.Module, columns: int) -> int | None:
    """How many heads an attention has: as it says, as head_dim tells, or as its config does."""
    if isinstance(head_dim := getattr(module, "head_dim", None), int) and columns % head_dim == 0:
        return columns // head_dim
    for holder in (module, getattr(module, "config", None)):
        for name in HEADS:
            if isinstance(heads := getattr(holder, name, None), int) and columns % heads == 0:
                return heads
    return None
