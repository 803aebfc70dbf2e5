"""Short trainings of the counterpoint's encoder: from the constructed head, and with positions.

Both go through the task, the model and the training loop that `leanformer sweep farthest` uses, with its settings and
fewer steps. One layer; ranks are the dimension and half of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, cast, get_args

import torch
from torch import nn

from leanformer import models
from leanformer.architecture import Architecture
from leanformer.experiments.recipes.farthest import LAPTOP
from leanformer.foundation.arguments import ArgumentError, at_least
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models import families
from leanformer.models.weights import save_pretrained
from leanformer.tasks.farthest_point import FarthestPoint
from leanformer.training.loop import train
from leanformer.training.randomness import process_state_kept, seed_everything
from leanformer.training.run import Run, write_run

SHARPNESS = 256.0
"""The factor c of the constructed scores: so sharp that it is nearly right, and not so sharp that no step moves it."""
GAIN = 64.0
"""How much larger the constructed head's output is than the residual, which it has to outweigh."""
Start = Literal["drawn", "constructed"]
Positions = Literal["none", "add", "append"]


class TrainedRow(RecordPart):
    """One design from one start."""

    positions: Positions
    rank: int
    heads: int
    start: Start
    before: tuple[float, ...]
    """The error on held-out samples before training, one for every seed; the origin scores 1."""
    after: tuple[float, ...]
    """The same after training."""

    @property
    def error(self) -> float:
        return mean(self.after)


class _TrainedRecord(DatedRecord):
    dim: int
    points: int
    steps: int
    seeds: int
    rows: tuple[TrainedRow, ...]

    def row(self, rank: int, start: Start = "drawn", positions: Positions = "none") -> TrainedRow | None:
        wanted = (rank, start, positions)
        return next((row for row in self.rows if (row.rank, row.start, row.positions) == wanted), None)

    def glance(self) -> str:
        shown = (f"{row.error:.3f} ({row.positions}, rank {row.rank}, {row.start})" for row in self.rows)
        return f"error after {self.steps:,} steps: {', '.join(shown)}"


class PerfectStart(_TrainedRecord):
    """What `leanformer paper perfect` writes."""

    kind: ClassVar[str] = "perfect-start"
    version: ClassVar[int] = 1


class PositionsStudy(_TrainedRecord):
    """What `leanformer paper positions` writes."""

    kind: ClassVar[str] = "positions"
    version: ClassVar[int] = 1


def perfect(dim: int = 16, points: int = 16, steps: int = 1500, seeds: int = 3) -> PerfectStart:
    """Train from the constructed head and from drawn weights, at full and at half rank.

    The authors' code has such a start (`PerfectEncoder`): queries −c·I, keys, values and outputs multiples of I, an
    MLP of zeros. What their text says about it is not at hand. Two matrices of zeros never receive a gradient, so
    here only the MLP's second one is zero and its first is drawn: the start computes the same, and the MLP can learn.
    At half rank two heads hold half of the coordinates each. The constructed weights are large beside the steps of
    training, so a start that stays may stay for that reason: compare `length_alone`.

    Args:
        dim: of the points, even.
        points: of a sample.
        steps: of training.
        seeds: how many.
    """
    starts: tuple[Start, ...] = get_args(Start)
    designs = [("none", rank, start) for rank in _ranks(dim) for start in starts]
    return PerfectStart(**_study(designs, dim, points, steps, seeds))


def positions(dim: int = 16, points: int = 16, steps: int = 1500, seeds: int = 3) -> PositionsStudy:
    """Train without positions, with learned ones added to the points, and with learned ones appended to them.

    As the authors' code configures it (`posn_config.yaml`): appended positions have as many columns as the points,
    which doubles the width, and heads of a rank become twice as many.

    Args:
        dim: of the points, even.
        points: of a sample.
        steps: of training.
        seeds: how many.
    """
    kinds: tuple[Positions, ...] = get_args(Positions)
    designs = [(kind, rank, "drawn") for kind in kinds for rank in _ranks(dim)]
    return PositionsStudy(**_study(designs, dim, points, steps, seeds))


def _ranks(dim: int) -> tuple[int, int]:
    if dim < 2 or dim % 2:
        raise ArgumentError("{dim} must be even and at least 2, got {given}", given=dim)
    return dim, dim // 2


def _study(designs: Sequence[tuple[Any, int, Any]], dim: int, points: int, steps: int, seeds: int) -> dict[str, Any]:
    at_least(2, points=points)
    at_least(1, steps=steps, seeds=seeds)
    rows = [_row(*design, dim, points, steps, seeds) for design in designs]
    sizes = {"dim": dim, "points": points, "steps": steps, "seeds": seeds}
    return {**sizes, "rows": tuple(rows), **fields_of(circumstances())}


def _row(kind: Positions, rank: int, start: Start, dim: int, points: int, steps: int, seeds: int) -> TrainedRow:
    design = encoder(dim, rank, kind, points)
    ends = [_trained(design, start, dim, points, steps, seed) for seed in range(seeds)]
    before, after = zip(*ends, strict=True)
    return TrainedRow(positions=kind, rank=rank, heads=design.stages[0].heads, start=start, before=before, after=after)


def encoder(dim: int, rank: int, kind: Positions, points: int) -> Architecture:
    """One layer whose heads of a rank fill the width."""
    width = 2 * dim if kind == "append" else dim
    places: dict[str, Any] = (
        {} if kind == "none" else {"positions": kind, "max_position_embeddings": points, "point_dim": dim}
    )
    return models.architecture_of(
        "farthest-point", width=width, heads=width // rank, head_dim=rank, mlp_dim=16 * dim, **places
    )


def construct(model: nn.Module, dim: int, sharpness: float = SHARPNESS, gain: float = GAIN) -> None:
    """Set a layer's weights to the constructed head: of full rank, or its coordinates divided among the heads."""
    block = cast(Any, model).blocks[0]
    attention, own = block.attn, torch.arange(dim)
    inner = attention.num_heads * attention.head_dim
    with torch.no_grad():
        for parameter in (*attention.parameters(), *block.mlp[-1].parameters(), block.bias):
            parameter.zero_()
        score = math.sqrt(sharpness * math.sqrt(attention.head_dim))
        for part, value in enumerate((-score, score, math.sqrt(gain))):
            attention.qkv.weight[part * inner + own, own] = value
        attention.proj.weight[own, own] = math.sqrt(gain)


def length_alone(error: float) -> float:
    """What is left of an error of answers of length 1 if nothing but their common length is learned."""
    cosine = 1 - error / 2
    return 1 - cosine**2


def _trained(design: Architecture, start: Start, dim: int, points: int, steps: int, seed: int) -> tuple[float, float]:
    """The error before and after training, on the same held-out samples."""
    settings = replace(LAPTOP, steps=steps, evaluations=1, probe=0)
    task = FarthestPoint(dim=dim, points=points)
    with TemporaryDirectory() as place:
        folder = Path(place) / "run"
        if start == "constructed":
            with process_state_kept():
                seed_everything(seed)
                model = families.build(design)
            construct(model, dim)
            save_pretrained(model, Path(place) / "start")
        begin: dict[str, Any] = {"start": "../start", "start_with": "all"} if start == "constructed" else {}
        write_run(Run(name="points", seed=seed, architecture=design, task=task, training=settings, **begin), folder)
        seen = train(folder).evaluations
    return seen[0].scores["error"], seen[-1].scores["error"]
