"""The farthest point: of N points, every token is to give the one farthest from it.

One full-rank attention head solves it for any N; heads of low rank need a number that is exponential in the dimension
("Quality over Quantity in Attention Layers"). Every step draws fresh points, so that no sample is ever seen twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from leanformer.data.order import Order, Share, stream
from leanformer.tasks.base import Batch, Data, Metric, Task

TRAIN, VALIDATION, TEST = range(3)
"""First word of the streams that the three parts are drawn from."""
EVALUATED = 65_536
"""Points that pass through the model at a time in evaluation."""


def _sphere(draw: np.random.Generator, samples: int, points: int, dim: int) -> np.ndarray:
    drawn = draw.standard_normal((samples, points, dim), dtype=np.float32)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def _gaussian(draw: np.random.Generator, samples: int, points: int, dim: int) -> np.ndarray:
    return draw.standard_normal((samples, points, dim), dtype=np.float32) / np.float32(np.sqrt(dim))


def _antipodal(draw: np.random.Generator, samples: int, points: int, dim: int) -> np.ndarray:
    half = _sphere(draw, samples, points // 2, dim)
    return np.concatenate([half, -half], axis=1)


DISTRIBUTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sphere": _sphere,
    "gaussian": _gaussian,
    "antipodal": _antipodal,
}
"""Independent on the unit sphere; Gaussian, of mean square length 1; in opposite pairs."""


@dataclass(frozen=True, kw_only=True)
class FarthestPoint(Task):
    """How many points of which kind, and what is asked of them."""

    dim: int = 16
    """Numbers of a point."""
    points: int = 16
    """Points of a sample, N."""
    distribution: str = "sphere"
    """sphere, gaussian or antipodal."""
    target: str = "farthest"
    """farthest, or nearest (itself excepted): the smallest or largest inner product."""
    held_out: int = 2048
    """Samples for curves, and as many others for the score; the same in every run."""

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise ValueError(f"distribution must be one of {', '.join(DISTRIBUTIONS)}, got {self.distribution!r}")
        if self.target not in ("farthest", "nearest"):
            raise ValueError(f"target must be farthest or nearest, got {self.target!r}")
        for name, least in (("dim", 1), ("points", 2), ("held_out", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if self.distribution == "antipodal" and self.points % 2:
            raise ValueError(f"opposite pairs need an even number of points, got {self.points}")

    def load(self) -> FarthestPointData:
        return FarthestPointData(self)

    def draw(self, samples: int, *key: int) -> tuple[np.ndarray, np.ndarray]:
        """Samples of the stream that the key names, and the points asked for (samples, N, dim)."""
        points = DISTRIBUTIONS[self.distribution](stream(*key), samples, self.points, self.dim)
        return points, answers(points, self.target)


def answers(points: np.ndarray, target: str = "farthest") -> np.ndarray:
    """For every point, the one with the smallest inner product; or of the others the one with the largest."""
    products = points @ points.swapaxes(1, 2)
    if target == "nearest":
        products[:, *np.diag_indices(points.shape[1])] = -np.inf
    chosen = products.argmin(-1) if target == "farthest" else products.argmax(-1)
    return np.take_along_axis(points, chosen[..., None], axis=1)


class FarthestPointData(Data):
    """Points without end, and two fixed sets of them that are held out."""

    size = None

    def __init__(self, task: FarthestPoint) -> None:
        self.task, self.tokens = task, task.points
        self.metric = Metric("error", higher_is_better=False)
        self.source = (
            f"{task.target} of {task.points} points in {task.dim} dimensions ({task.distribution}), drawn afresh"
        )
        self.options: Mapping[str, Any] = {"point_dim": task.dim}
        self.validation, self.test = (task.draw(task.held_out, part, 0, 0) for part in (VALIDATION, TEST))
        self.baselines = baselines(*self.test)

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        for step in steps:
            drawn = self.task.draw(order.batch_at(step), TRAIN, order.seed, step)
            yield tuple(torch.from_numpy(part.of(array)) for array in drawn)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        points, wanted = batch
        return _error(model(points=points).logits, wanted).mean()

    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        return self._sums(self.validation, model, part, device)

    def evaluate_final(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float] | None:
        return self._sums(self.test, model, part, device)

    @torch.no_grad()
    def _sums(
        self, held_out: tuple[np.ndarray, np.ndarray], model: nn.Module, part: Share, device: torch.device
    ) -> dict[str, float]:
        sums = {"error": 0.0, "found": 0.0, "count": 0.0}
        rows, count = np.array(part.strided(self.task.held_out), dtype=np.int64), max(1, EVALUATED // self.task.points)
        for start in range(0, len(rows), count):
            points, wanted = (torch.from_numpy(array[rows[start : start + count]]).to(device) for array in held_out)
            given = model(points=points).logits
            sums["error"] += _error(given, wanted).sum().item()
            chosen = torch.take_along_dim(points, torch.cdist(given.float(), points).argmin(-1)[..., None], dim=1)
            sums["found"] += (chosen == wanted).all(-1).sum().item()
            sums["count"] += given.shape[0] * given.shape[1]
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"error": sums["error"] / sums["count"], "found": 100 * sums["found"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, torch.Tensor]:
        return {"points": torch.from_numpy(self.validation[0][:count])}


def _error(given: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The squared distance of every token's answer: the mean squared error times the dimension."""
    return (given.float() - wanted).square().sum(-1)


def baselines(points: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """The error of trivial answers: the origin, and the best multiple of the point itself."""
    points, wanted = points.astype(np.float64), wanted.astype(np.float64)
    multiple = (points * wanted).sum() / (points**2).sum()
    return {
        "the origin": float((wanted**2).sum(-1).mean()),
        "the best multiple of the point itself": float(((wanted - multiple * points) ** 2).sum(-1).mean()),
    }
