"""The farthest point: for each of N points, predict the point that is farthest from it.

One full-rank attention head solves the task for any N. Heads of low rank are needed in a number that is exponential in
the dimension ("Quality over Quantity in Attention Layers"). Every step draws new points: no sample is seen twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from leanformer.data.order import Order, Share, stream
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.settings import check

Points = Float[Tensor, "batch points dim"]

TRAIN, VALIDATION, TEST = range(3)
"""First number of the keys of the random streams: one for each part."""
EVALUATED = 65_536
"""Points that pass through the model at once in evaluation."""


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
"""Independent on the unit sphere; Gaussian with mean square length 1; opposite pairs on the unit sphere."""


@dataclass(frozen=True, kw_only=True)
class FarthestPoint(Task):
    """How many points of which distribution, and which point is predicted."""

    dim: int = 16
    """Coordinates of a point."""
    points: int = 16
    """Points of a sample, N."""
    distribution: str = "sphere"
    """sphere, gaussian or antipodal."""
    target: str = "farthest"
    """farthest, or nearest other point: the smallest or the largest inner product."""
    held_out: int = 2048
    """Samples for the curves, and as many others for the score; the same in every run."""

    def __post_init__(self) -> None:
        choices = {"distribution": tuple(DISTRIBUTIONS), "target": ("farthest", "nearest")}
        check(self, least={"dim": 1, "points": 2, "held_out": 1}, choices=choices)
        if self.distribution == "antipodal" and self.points % 2:
            raise ValueError(f"opposite pairs need an even number of points, got {self.points}")

    def load(self) -> FarthestPointData:
        return FarthestPointData(self)

    def draw(self, samples: int, *key: int) -> tuple[np.ndarray, np.ndarray]:
        """Points of the random stream with that key, and the points to predict; both (samples, N, dim)."""
        points = DISTRIBUTIONS[self.distribution](stream(*key), samples, self.points, self.dim)
        return points, answers(points, self.target)


def answers(points: np.ndarray, target: str = "farthest") -> np.ndarray:
    """For every point, the one with the smallest inner product; or, of the others, the one with the largest."""
    products = points @ points.swapaxes(1, 2)
    if target == "nearest":
        products[:, *np.diag_indices(points.shape[1])] = -np.inf
    chosen = products.argmin(-1) if target == "farthest" else products.argmax(-1)
    return np.take_along_axis(points, chosen[..., None], axis=1)


class FarthestPointData(Data):
    """New points at every step, and two fixed held-out sets."""

    size = None

    def __init__(self, task: FarthestPoint) -> None:
        self.task, self.tokens = task, task.points
        self.metric = Metric("error", higher_is_better=False)
        self.source = (
            f"{task.target} of {task.points} points in {task.dim} dimensions ({task.distribution}), drawn afresh"
        )
        self.options: Mapping[str, Any] = {"point_dim": task.dim}
        self.validation, drawn = (task.draw(task.held_out, part, 0, 0) for part in (VALIDATION, TEST))
        self.test: tuple[np.ndarray, np.ndarray] | None = drawn
        """None while settings are tuned."""
        self.baselines = baselines(*drawn)

    def for_tuning(self) -> FarthestPointData:
        return self.changed(test=None)

    def contents(self) -> Contents:
        return Contents(source=self.source, held_out=self.task.held_out)

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[tuple[Points, Points]]:
        for step in steps:
            drawn = self.task.draw(order.batch_at(step), TRAIN, order.seed, step)
            points, wanted = (torch.from_numpy(share.of(array)) for array in drawn)
            yield points, wanted

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        points, wanted = batch
        return _error(model(points=points).logits, wanted).mean()

    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        return self._sums(self.validation, model, share, device)

    def evaluate_final(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float] | None:
        return None if self.test is None else self._sums(self.test, model, share, device)

    @torch.no_grad()
    def _sums(
        self, held_out: tuple[np.ndarray, np.ndarray], model: nn.Module, share: Share, device: torch.device
    ) -> dict[str, float]:
        sums = HeldOutSums("error", "found", "count")
        rows, count = np.array(share.strided(self.task.held_out), dtype=np.int64), max(1, EVALUATED // self.task.points)
        for start in range(0, len(rows), count):
            points, wanted = (torch.from_numpy(array[rows[start : start + count]]).to(device) for array in held_out)
            given = model(points=points).logits
            error = _error(given, wanted)
            sums.keep(error.sum(1))
            sums["error"] += error.sum().item()
            chosen = torch.take_along_dim(points, torch.cdist(given.float(), points).argmin(-1)[..., None], dim=1)
            sums["found"] += (chosen == wanted).all(-1).sum().item()
            sums["count"] += given.shape[0] * given.shape[1]
        return sums

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"error": sums["error"] / sums["count"], "found": 100 * sums["found"] / sums["count"]}

    def probe_batch(self, count: int) -> dict[str, Points]:
        return {"points": torch.from_numpy(self.validation[0][:count])}


def _error(given: Points, wanted: Points) -> Float[Tensor, "batch points"]:
    """The squared distance of every prediction: the mean squared error times the dimension."""
    return (given.float() - wanted).square().sum(-1)


def baselines(points: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """The error of trivial answers: the origin, and the best multiple of the point itself."""
    points, wanted = points.astype(np.float64), wanted.astype(np.float64)
    multiple = (points * wanted).sum() / (points**2).sum()
    return {
        "the origin": float((wanted**2).sum(-1).mean()),
        "the best multiple of the point itself": float(((wanted - multiple * points) ** 2).sum(-1).mean()),
    }
