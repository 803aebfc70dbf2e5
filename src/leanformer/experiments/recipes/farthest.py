"""The counterpoint: a task that one full-rank head solves and many heads of low rank do not.

Settings of "Quality over Quantity in Attention Layers" under `-paper`; laptop scale is a fourth of its dimension. Heads
of a grid split the width, and `groups` of them are averaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leanformer import models, tasks
from leanformer.architecture import Architecture
from leanformer.experiments.grid import Grid
from leanformer.experiments.recipe import Recipe
from leanformer.training.settings import Training

LAPTOP = Training(steps=5000, batch=64, lr=0.015, betas=(0.9, 0.95), weight_decay=0.0, warmup=0.05, evaluations=4)
DEEP = replace(LAPTOP, lr=0.005)
"""At the other learning rate deep runs end at the origin, where the learned length is 0."""
PAPER = Training(
    steps=100_000, batch=256, lr=0.01, betas=(0.9, 0.95), weight_decay=0.0, warmup=0.05, clip=None, evaluations=20
)
PAPER_STUDIES = replace(PAPER, lr=0.005, steps=200_000)
"""Of sequence length and dimension, as the authors' repository (NoahAmsel/attention-formers) configures them."""
FIGURE_1 = {"heads": (1, 2, 4, 8, 16), "groups": (1, 4), "regime": ("split",)}


def small(**sizes: int) -> Architecture:
    """One head of full rank for points of 16 dimensions, or another `width`."""
    sizes = {"width": 16, "head_dim": sizes.get("width", 16), "mlp_dim": 256, **sizes}
    return models.architecture_of("farthest-point", **sizes)  # type: ignore[arg-type]


def _recipe(
    name: str,
    task: tasks.FarthestPoint,
    original: Architecture,
    training: Training,
    grid: dict[str, Any],
    seeds: int = 3,
) -> Recipe:
    lean = original.resized(heads=4, keep="width")
    full = original.stages[0].width
    return Recipe(
        name=name,
        task=task,
        original=original,
        lean=lean,
        training=training,
        margin=0.05,
        arms=("original", "lean"),
        seeds=seeds,
        others={
            "half-rank": original.resized(heads=2, keep="width"),
            "groups": original.resized(head_dim=full // 2, heads=8),
        },
        grid=Grid(axes=grid),
    )


def farthest() -> Recipe:
    """The farthest of 16 points in 16 dimensions, one layer: full rank against more heads of less.

    Command: leanformer compare farthest, leanformer sweep farthest
    Time: 3 minutes on 2 cores, 4 arms × 3 seeds; the sweep of 10 designs 10 minutes.
    Score: see docs/findings/heads_and_rank.md. The origin scores 1, the best multiple of the point itself 0.82.
    """
    return _recipe("farthest", tasks.FarthestPoint(), small(), LAPTOP, FIGURE_1)


def farthest_deep() -> Recipe:
    """The same with three layers, which low rank can use.

    Command: leanformer sweep farthest-deep
    Time: 20 minutes on 2 cores, 10 designs × 3 seeds.
    """
    return _recipe("farthest-deep", tasks.FarthestPoint(), small(depth=3), DEEP, FIGURE_1)


def farthest_length() -> Recipe:
    """Two layers, and more points: 4 to 64.

    Command: leanformer sweep farthest-length
    """
    grid = {"heads": (1, 2, 4, 16), "task.points": (4, 16, 64), "groups": (4,), "regime": ("split",)}
    return _recipe("farthest-length", tasks.FarthestPoint(), small(depth=2), DEEP, grid)


def farthest_dimension() -> Recipe:
    """Two layers, and more dimensions: 8 to 32.

    Command: leanformer sweep farthest-dimension
    """
    grid = {"heads": (1, 2, 4, 8), "task.dim+width": (8, 16, 32), "groups": (4,), "regime": ("split",)}
    return _recipe("farthest-dimension", tasks.FarthestPoint(), small(depth=2), DEEP, grid)


def farthest_paper() -> Recipe:
    """Figure 1 as printed: 16 points in 64 dimensions, ranks 64 to 1, 1 to 64 groups, 1 to 5 layers.

    Command: leanformer sweep farthest-paper
    Score: the paper prints 0.015, 0.007 and 0.002 for full rank (one layer; 1, 8 and 64 groups), 0.69, 0.43 and 0.31
    for half of it.
    """
    grid = {"heads": (1, 2, 4, 8, 16, 32, 64), "groups": (1, 8, 64), "depth": (1, 3, 5), "regime": ("split",)}
    original = models.architecture_of("farthest-point")
    return _recipe("farthest-paper", tasks.FarthestPoint(dim=64), original, PAPER, grid, seeds=5)


def farthest_length_paper() -> Recipe:
    """The study of sequence length as printed: two layers, 64 groups, 4 to 256 points, 200,000 batches.

    Command: leanformer sweep farthest-length-paper
    Score: at 256 points the paper prints 0.04 for full rank and 0.54 for half of it.
    """
    grid = {"heads": (1, 2, 4, 8, 64), "task.points": (4, 16, 64, 256), "groups": (64,), "regime": ("split",)}
    original = models.architecture_of("farthest-point", depth=2)
    return _recipe("farthest-length-paper", tasks.FarthestPoint(dim=64), original, PAPER_STUDIES, grid, seeds=5)


def farthest_dimension_paper() -> Recipe:
    """The study of the dimension as printed: two layers, 8 groups, 16 to 256 dimensions, 200,000 batches.

    Command: leanformer sweep farthest-dimension-paper
    """
    grid = {"heads": (1, 2, 4, 8, 16), "task.dim+width": (16, 64, 128, 256), "groups": (8,), "regime": ("split",)}
    original = models.architecture_of("farthest-point", depth=2)
    return _recipe("farthest-dimension-paper", tasks.FarthestPoint(dim=64), original, PAPER_STUDIES, grid, seeds=5)
