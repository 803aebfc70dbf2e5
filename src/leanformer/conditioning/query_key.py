"""The rank of what a head can ask for: W_Q W_Kᵀ of every head of any model, read from its weights.

A head compares two tokens by xᵀ W_Q W_Kᵀ y. The matrix is as large as the width and has at most rank head_dim; the
effective rank says how many of those directions the weights use.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from leanformer.conditioning.probing import unwrap
from leanformer.conditioning.spectra import conditioning
from leanformer.foundation.records.base import RecordPart

FUSED = {"qkv": 3, "qk": 2, "c_attn": 3, "Wqkv": 3}
"""Layers that compute queries, keys and maybe values at once, and how many of them."""
APART = (("q_proj", "k_proj"), ("query", "key"), ("q_lin", "k_lin"), ("q", "k"))
"""Names of a layer for queries and one for keys."""
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
OTHER_SCORES = ("xca", "channel", "covariance", "factor")
"""Kinds of attention whose scores compare channels or nothing at all: they are not made of W_Q W_Kᵀ."""


class LayerRanks(RecordPart):
    """The ranks of W_Q W_Kᵀ in one attention, head by head."""

    name: str
    """Name of the attention module in the model."""
    heads: int
    head_dim: int
    width: int
    effective_rank: tuple[float, ...]
    stable_rank: tuple[float, ...]


@torch.no_grad()
def query_key_ranks(model: nn.Module) -> list[LayerRanks]:
    """For every attention that has queries and keys: the effective and the stable rank of W_Q W_Kᵀ, head by head.

    Rotary positions, which rotate queries and keys, change neither number at equal positions. Norms of queries and
    keys (as in Qwen3) are not taken into account.
    """
    found = []
    for name, module in unwrap(model).named_modules():
        weights = query_key(module)
        if weights is None:
            continue
        query, key = weights
        values = conditioning(_product(query.double(), key.double()), name)
        heads, head_dim, width = query.shape
        found.append(
            LayerRanks(
                name=name,
                heads=heads,
                head_dim=head_dim,
                width=width,
                effective_rank=tuple(values.effective_rank.tolist()),
                stable_rank=tuple(values.stable_rank.tolist()),
            )
        )
    return found


PerHead = Float[Tensor, "heads head_dim width"]
"""Weights of queries or of keys, head by head."""


def _product(
    query: Float64[Tensor, "heads head_dim width"], key: Float64[Tensor, "heads head_dim width"]
) -> Float64[Tensor, "heads rank rank"]:
    """A small matrix with the singular values of W_Q W_Kᵀ: QR removes orthogonal bases, which do not change them."""
    left, right = (torch.linalg.qr(weight.mT.cpu()).R for weight in (query, key))
    return left @ right.mT


def query_key(module: nn.Module) -> tuple[PerHead, PerHead] | None:
    """W_Q and W_K of an attention module; None if the module is not one."""
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


Pair = tuple[Float[Tensor, "columns width"], Float[Tensor, "key_columns width"]]
"""Weights of queries and of keys, one head below the other."""


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
        if name != "qkv" or values in (None, len(weight) // parts):  # otherwise values have another size than queries
            query, key = weight.chunk(parts)[:2]
            return query, key
    return None


def _apart(module: nn.Module) -> Pair | None:
    for names in APART:
        query, key = (_weight(getattr(module, name, None)) for name in names)
        if query is not None and key is not None:
            return query, key
    return None


def _weight(layer: Any) -> Float[Tensor, "columns width"] | None:
    """The weight with one row per output; transformers' Conv1D stores one column per output."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or isinstance(layer, nn.Embedding):
        return None
    return weight.mT if type(layer).__name__ == "Conv1D" else weight


def _heads(module: nn.Module, columns: int) -> int | None:
    """How many heads an attention has: by its head_dim, its own attributes, or its configuration."""
    if isinstance(head_dim := getattr(module, "head_dim", None), int) and columns % head_dim == 0:
        return columns // head_dim
    for holder in (module, getattr(module, "config", None)):
        for name in HEADS:
            if isinstance(heads := getattr(holder, name, None), int) and columns % heads == 0:
                return heads
    return None
