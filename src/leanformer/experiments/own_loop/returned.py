"""What a training function or a command gives back: a score, and perhaps more, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from leanformer.training.result import Evaluation, KappaOverLayers

SCORE, CURVE, LOSSES = "score", "curve", "losses"
"""What a returned mapping may hold, beside the metric's name and other numbers."""

Points = list[tuple[int, float]]
"""Steps and values."""


class BadScore(ValueError):  # noqa: N818
    """What came back is not a score."""


@dataclass(frozen=True)
class Returned:
    """What the function returned."""

    final: dict[str, float]
    """The score, by the metric's name, and the other numbers."""
    curve: Points = field(default_factory=list)
    losses: Points = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, value: Any, metric: str) -> Returned:
        """Of a number; or of a mapping with the score under the metric's name or as "score", and more."""
        if not isinstance(value, Mapping):
            return cls({metric: checked_score(value, "train returned")})
        key = metric if metric in value else SCORE
        if key not in value:
            listed = ", ".join(map(repr, value)) or "nothing"
            raise BadScore(f"train returned a mapping without {metric!r} and without {SCORE!r}; it has {listed}")
        score = checked_score(value[key], f"train returned {key!r}:")
        others = {str(name): float(number) for name, number in value.items() if is_number(number)}
        curve, losses = list(value.get(CURVE) or ()), list(value.get(LOSSES) or ())
        notes = [
            f"{name} holds points that are not (step, value); they are left out"
            for name, points in ((CURVE, curve), (LOSSES, losses))
            if not all(isinstance(point, Mapping) or _is_pair(point) for point in points)
        ]
        logged = [point for point in curve if isinstance(point, Mapping)]
        final = {**{name: number for name, number in others.items() if name != key}, metric: score}
        return cls(final, _points(curve, metric), _points(losses or logged, "loss"), notes)

    def evaluations(
        self, metric: str, steps: int, first: KappaOverLayers | None, last: KappaOverLayers | None
    ) -> list[Evaluation]:
        """The curve, which ends with the score; κ before and after training stands beside it."""
        end = max([steps, *(step for step, _ in self.curve)])
        points: dict[int, dict[str, Any]] = {step: {metric: value} for step, value in self.curve}
        for step, more in ((0, {"kappa": first}), (end, {metric: self.final[metric], "kappa": last})):
            points[step] = points.get(step, {}) | {name: value for name, value in more.items() if value is not None}
        return [Evaluation.model_validate({"step": step, **points[step]}) for step in sorted(points) if points[step]]


def checked_score(value: Any, what: str) -> float:
    """A finite number, or a `BadScore` that says what came."""
    if not isinstance(value, Real) or isinstance(value, bool):
        is_tensor = hasattr(value, "item")
        shown = f"a {type(value).__name__}" if is_tensor else repr(value)
        hint = "; .item() makes a number of a tensor" if is_tensor else ""
        raise BadScore(f"{what} {shown if len(shown) <= 60 else shown[:57] + '…'}, where a number is needed{hint}")
    if not math.isfinite(value):
        raise BadScore(f"{what} {float(value)}, where a finite number is needed")
    return float(value)


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _points(given: Iterable[Any], name: str) -> Points:
    """Of pairs of step and value; or of mappings with a step, such as the Trainer's log_history, that hold `name`."""
    found: dict[int, float] = {}
    for point in given:
        pair: Any = (point.get("step"), point.get(name)) if isinstance(point, Mapping) else point
        if _is_pair(pair) and pair[0] >= 0:
            found[int(pair[0])] = float(pair[1])
    return sorted(found.items())


def _is_pair(point: Any) -> bool:
    return isinstance(point, Sequence) and not isinstance(point, str) and len(point) == 2 and all(map(is_number, point))
