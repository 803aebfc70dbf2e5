"""Which entry of a trained tensor each entry of a new one takes, along the dimension that is made of units.

Heads of queries that share a head of keys stay together: query head t uses key head t // queries, before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from leanformer.architecture import Stage
from leanformer.inheriting.units import Axis

NewHeads = Literal["fresh", "copied"]
"""What new heads begin with: weights as a new model draws them, with output weights of zero; or those of a head
that is there."""
NEW = -1
"""Stands for an entry that the trained model does not have."""


@dataclass(frozen=True)
class HeadPlaces:
    """The heads of one layer, before and after."""

    before: Stage
    after: Stage
    queries: int
    """Heads of queries that share one head of keys."""
    new_heads: NewHeads

    @property
    def parts(self) -> int:
        """Into how many heads a head is divided; 1 where heads keep their size."""
        return self.before.head_dim // self.after.head_dim

    def places(self, axis: Axis) -> Int[Tensor, " length"]:
        """For every entry of the new dimension, the old one that it takes."""
        sources, parts = self._keys() if axis.unit == "key head" else self._queries()
        if axis.inner is None:
            size, step = self.before.head_dim, self.after.head_dim
            inside = parts[:, None] * step + torch.arange(step)
        else:  # one entry or more per head, whatever its size
            size = axis.inner
            inside = torch.arange(size).expand(len(sources), size)
        entries = torch.where(sources[:, None] == NEW, NEW, sources[:, None] * size + inside)
        return _repeated(entries.flatten(), axis.copies, self.before.heads // axis.shared * size)

    def _keys(self) -> tuple[Int[Tensor, " heads"], Int[Tensor, " heads"]]:
        """For every head of keys, the old one that it comes from, and which part of it it is."""
        old, heads = self.before.heads // self.queries, torch.arange(self.after.heads // self.queries)
        if self.parts > 1:
            return heads // self.parts, heads % self.parts
        added = heads % old if self.new_heads == "copied" else torch.full_like(heads, NEW)
        return torch.where(heads < old, heads, added), torch.zeros_like(heads)

    def _queries(self) -> tuple[Int[Tensor, " heads"], Int[Tensor, " heads"]]:
        """The same for every head of queries."""
        keys, parts = self._keys()
        within = torch.arange(self.queries).repeat(len(keys))
        keys, parts = keys.repeat_interleave(self.queries), parts.repeat_interleave(self.queries)
        return torch.where(keys == NEW, NEW, keys * self.queries + within), parts


def neuron_places(axis: Axis, before: int, after: int, kept: Int[Tensor, " kept"] | None) -> Int[Tensor, " length"]:
    """For every neuron of the new MLP, the old one that it is; `kept` says which stay where there are fewer."""
    if kept is not None:
        return _repeated(kept, axis.copies, before)
    neurons = torch.arange(after)
    return _repeated(torch.where(neurons < before, neurons, NEW), axis.copies, before)


def _repeated(entries: Int[Tensor, " one"], copies: int, length: int) -> Int[Tensor, " all"]:
    """The same for every copy of all units, each of which had so many entries."""
    offsets = length * torch.arange(copies)[:, None]
    return torch.where(entries == NEW, NEW, offsets + entries).flatten()
