"""The counterpoint's construction: one attention head of full rank that finds the farthest point, without training.

Queries and keys are multiplied by −√c and √c, so that the scores are −c⟨x_i, x_j⟩; values and outputs are the
identity. The larger c, the closer the softmax is to choosing the farthest point. Nothing depends on the number of
points. "Quality over Quantity", Section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from leanformer.data.order import stream
from leanformer.foundation.arguments import at_least
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of

SHARPNESS = (16.0, 256.0, 4096.0, 65536.0)
POINTS = (4, 16, 64, 256)


class ConstructionRow(RecordPart):
    """The construction at one number of points and one sharpness."""

    points: int
    sharpness: float
    error: float
    """Mean squared error × dimension, as in training: the origin scores 1."""
    found: float
    """Share of points whose output is nearest to the right point."""


class Construction(DatedRecord):
    """What `leanformer paper construction` writes."""

    kind: ClassVar[str] = "construction"
    version: ClassVar[int] = 2

    dim: int
    samples: int
    seed: int
    rows: tuple[ConstructionRow, ...]

    def glance(self) -> str:
        best = max(row.sharpness for row in self.rows)
        errors = [row.error for row in self.rows if row.sharpness == best]
        return f"{self.dim} dimensions, error {min(errors):.2g} to {max(errors):.2g} at sharpness {best:g}"


def construction(
    dim: int = 64,
    points: Sequence[int] = POINTS,
    sharpness: Sequence[float] = SHARPNESS,
    samples: int = 64,
    seed: int = 0,
) -> Construction:
    """The error of the construction on fresh samples, for every number of points and sharpness.

    Args:
        dim: dimension of the points, which is the rank of the head.
        points: how many points a sample has.
        sharpness: the factor c of the scores.
        samples: samples of each number of points.
        seed: of the samples.
    """
    at_least(2, dim=dim, points=points)
    at_least(1, samples=samples)
    if not sharpness or min(sharpness) <= 0:
        raise ValueError(f"sharpness must be numbers above 0, got {list(sharpness)}")
    rows = []
    for count in points:
        drawn = torch.from_numpy(stream(seed, count).standard_normal((samples, count, dim)))
        x = drawn / drawn.norm(dim=-1, keepdim=True)
        scores = -(x @ x.transpose(-2, -1))
        chosen = scores.argmax(dim=-1)
        wanted = torch.gather(x, 1, chosen[..., None].expand(-1, -1, dim))
        for factor in sharpness:
            output = (factor * scores).softmax(dim=-1) @ x
            error = float((output - wanted).square().sum(-1).mean())
            found = float(((output @ x.transpose(-2, -1)).argmax(dim=-1) == chosen).double().mean())
            rows.append(ConstructionRow(points=count, sharpness=factor, error=error, found=found))
    return Construction(dim=dim, samples=samples, seed=seed, rows=tuple(rows), **fields_of(circumstances()))
