"""Which numbers of an attention's output belong to one sample, one token and one head.

Every number of the output has a place: its position among batch, heads, tokens and the size of a head, in this order.
The places are moved as the model moves the numbers. What a model hands to its output projection then shows how it
concatenated the heads, whether they were an axis of their own, part of the batch, or in front of it.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """Concatenated heads: one matrix per sample, and how its columns divide into heads."""

    matrices: Float[Tensor, "samples tokens columns"]
    heads: int
    head_dim: int
    channels: bool = False
    """Whether attention was over channels: the tokens are the columns of each head's output."""


def numbered(shape: Sequence[int], device: torch.device) -> Int64[Tensor, "*shape"]:
    """The place of every number of a tensor that is still in its first order."""
    return torch.arange(math.prod(shape), device=device).view(*shape)


def by_shape(output: Float[Tensor, "*batch tokens size"]) -> Block:
    """Heads concatenated by the shape of the call, (batch, heads, tokens, size); without that axis there is one."""
    if output.ndim < 4:
        matrices = output if output.ndim == 3 else output[None]
        return Block(matrices, 1, output.shape[-1])
    heads, tokens, size = output.shape[-3:]
    matrices = output.reshape(-1, heads, tokens, size).transpose(1, 2).flatten(2)
    return Block(matrices, heads, size)


def of_projection(
    taken: Float[Tensor, "*rows columns"], places: Int64[Tensor, "*rows columns"], shape: Sequence[int]
) -> Block | None:
    """The block of what a projection takes; None where its rows do not consist of whole heads.

    Args:
        taken: the projection's input.
        places: where its numbers stood in the attention's output.
        shape: the shape of that output, which ends with tokens and size.
    """
    tokens, size = shape[-2:]
    first = places[(0,) * (places.ndim - 1)]
    if _repeats(first % size, size) and _constant(first // size % tokens):
        columns, head_dim, channels = first, size, False
    elif _repeats(first // size % tokens, tokens) and _constant(first % size):
        columns, head_dim, channels = first, tokens, True
    else:
        return None
    matrices = _samples(taken, places[..., 0], tokens, size, channels)
    return Block(matrices, len(columns) // head_dim, head_dim, channels)


def _samples(
    taken: Tensor, places: Int64[Tensor, "*rows"], tokens: int, size: int, channels: bool
) -> Float[Tensor, "samples tokens columns"]:
    """The rows of each sample together, in their order."""
    rows = places % size if channels else places // size % tokens
    heads = places // (tokens * size)
    if taken.ndim == 2:  # batch and tokens may be one axis
        order = heads.argsort(stable=True)
        groups = int((heads[order].diff() != 0).sum()) + 1
        equal = len(order) % groups == 0
        return taken[order].unflatten(0, (groups, -1)) if equal else taken[None]
    along = [rows[tuple(slice(None) if d == axis else 0 for d in range(rows.ndim))] for axis in range(rows.ndim)]
    inside = [axis for axis, line in enumerate(along) if not _constant(line)]
    outside = [axis for axis in range(rows.ndim) if axis not in inside]
    ordered = taken.permute(*outside, *inside, taken.ndim - 1)
    samples = math.prod(taken.shape[axis] for axis in outside)
    return ordered.reshape(samples, -1, taken.shape[-1])


def _repeats(values: Int64[Tensor, " count"], period: int) -> bool:
    """Whether values count from 0 to `period`, again and again."""
    if len(values) % period:
        return False
    return bool((values == torch.arange(len(values), device=values.device) % period).all())


def _constant(values: Int64[Tensor, " count"]) -> bool:
    return bool((values == values[:1]).all())


def equation(text: str, operands: Sequence[Tensor]) -> tuple[str, str, str] | None:
    """The axes of two operands and of the result of an einsum, a letter each; None if it is of another form."""
    left, arrow, result = text.replace(" ", "").partition("->")
    inputs = left.split(",")
    if not arrow or len(inputs) != 2 or len(operands) != 2:
        return None
    rest = [letter for letter in string.ascii_letters if letter not in text]
    missing = [tensor.ndim - len(term.replace("...", "")) for term, tensor in zip(inputs, operands, strict=True)]
    dots = "".join(rest[: max(missing)]) if "..." in text else ""
    terms = [
        term.replace("...", dots[len(dots) - count :] if count else "")
        for term, count in zip(inputs, missing, strict=True)
    ]
    if any(len(term) != tensor.ndim for term, tensor in zip(terms, operands, strict=True)):
        return None
    return terms[0], terms[1], result.replace("...", dots)


def order_of_heads(terms: tuple[str, str, str], summed: int) -> tuple[int, ...] | None:
    """The axes of an einsum's result as batch, heads, tokens, size; None if it does not apply attention weights.

    Args:
        terms: the axes of weights, values and result.
        summed: the axis of the weights that sums to 1.
    """
    weights, values, result = terms
    queries = [letter for letter in weights if letter not in values and letter in result]
    sizes = [letter for letter in values if letter not in weights and letter in result]
    shared = [letter for letter in weights if letter in values and letter in result]
    if weights[summed] in result or weights[summed] not in values or len(queries) != 1 or len(sizes) != 1:
        return None
    order = (*shared, *queries, *sizes)
    return tuple(result.index(letter) for letter in order) if len(order) == len(result) else None
