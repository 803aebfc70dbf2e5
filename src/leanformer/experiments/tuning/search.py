"""Which settings to try next: one grid and one number of trials for all arms, by the results so far alone.

Every point of the grid is screened with a share of the steps. The best of each arm are then trained in full, and
points beside the best one are added until each of its neighbours is measured too. So an optimum never lies at the end
of what was tried, except at the limit of the grid, which is said. What comes next follows from the results alone, so
a search that was stopped ends with the same trials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Point = tuple[int, ...]
"""A place on the grid: for each setting, how many factors it is away from its shared value."""

SCREENING, FULL = "screening", "full"
PROMOTED = 4
"""One point in so many is trained in full after the screening; at least two."""


@dataclass(frozen=True)
class Axis:
    """One setting."""

    name: str
    shared: float
    """The value that all arms share without tuning."""
    factor: float
    """Between neighbouring values."""
    reach: int
    """Neighbours to each side of the shared value at first."""
    limit: int
    """The most neighbours to each side."""

    def value(self, place: int) -> float:
        return float(f"{self.shared * self.factor**place:.4g}") if place else self.shared


@dataclass(frozen=True)
class Trial:
    """One arm at one point, screened or trained in full."""

    arm: str
    point: Point
    stage: str


@dataclass(frozen=True)
class Outcome:
    """What a finished search says of an arm."""

    best: Point
    inside: bool
    """Whether all neighbours of the best point were tried too."""


Scores = Mapping[Trial, float]
"""More is better; minus infinity for a run that diverged."""


@dataclass(frozen=True)
class Grid:
    """The points that are screened."""

    axes: Sequence[Axis]
    low: Point
    high: Point

    @classmethod
    def first(cls, axes: Sequence[Axis]) -> Grid:
        return cls(axes, tuple(-axis.reach for axis in axes), tuple(axis.reach for axis in axes))

    def points(self) -> list[Point]:
        return list(itertools.product(*(range(a, b + 1) for a, b in zip(self.low, self.high, strict=True))))

    def neighbours(self, point: Point) -> list[Point]:
        """One step away along one setting, up to the limits."""
        moved = (
            tuple(place + step * (other == index) for other, place in enumerate(point))
            for index in range(len(point))
            for step in (-1, 1)
        )
        return [
            other
            for other in moved
            if all(abs(place) <= axis.limit for place, axis in zip(other, self.axes, strict=True))
        ]

    def holding(self, point: Point) -> Grid:
        """Grown so that it holds a point."""
        return replace(self, low=tuple(map(min, self.low, point)), high=tuple(map(max, self.high, point)))

    def at_the_limit(self, point: Point) -> bool:
        return any(abs(place) == axis.limit for place, axis in zip(point, self.axes, strict=True))


def next_trials(arms: Sequence[str], axes: Sequence[Axis], scores: Scores) -> list[Trial]:
    """What must be run before anything more can be said; empty when the search is finished."""
    grid = Grid.first(axes)
    while True:
        screening = [Trial(arm, point, SCREENING) for arm in arms for point in grid.points()]
        if missing := [trial for trial in screening if trial not in scores]:
            return missing
        grown = grid
        for arm in arms:
            for point in grid.neighbours(_best(arm, grid.points(), SCREENING, scores)):
                grown = grown.holding(point)
        if grown == grid:
            return _in_full(arms, grid, scores)
        grid = grown


def _in_full(arms: Sequence[str], grid: Grid, scores: Scores) -> list[Trial]:
    """Trials with all steps: the best of the screening, then neighbours of the best, as many for each arm."""
    count = max(2, math.ceil(len(grid.points()) / PROMOTED))
    chosen = {arm: _ranked(arm, grid.points(), SCREENING, scores)[:count] for arm in arms}
    while True:
        if missing := [trial for trial in _trials(chosen) if trial not in scores]:
            return missing
        before = sum(map(len, chosen.values()))
        for arm, points in chosen.items():
            beside = grid.neighbours(_best(arm, points, FULL, scores))
            chosen[arm] = [*points, *(point for point in beside if point not in points)]
        _even_out(chosen, grid, scores)
        if sum(map(len, chosen.values())) == before:
            return []


def _even_out(chosen: dict[str, list[Point]], grid: Grid, scores: Scores) -> None:
    """Give every arm as many trials as the one with the most: the next best of its screening, then what others have."""
    most = max(map(len, chosen.values()))
    of_any = list(dict.fromkeys(point for points in chosen.values() for point in points))
    for arm, points in chosen.items():
        others = [*_ranked(arm, grid.points(), SCREENING, scores), *of_any]
        points.extend([point for point in dict.fromkeys(others) if point not in points][: most - len(points)])


def _trials(chosen: Mapping[str, Sequence[Point]]) -> list[Trial]:
    return [Trial(arm, point, FULL) for arm, points in chosen.items() for point in points]


def outcomes(arms: Sequence[str], axes: Sequence[Axis], scores: Scores) -> dict[str, Outcome]:
    """The best point of each arm among those that were trained in full."""
    found, grid = {}, Grid.first(axes)
    for arm in arms:
        tried = [trial.point for trial in scores if trial.arm == arm and trial.stage == FULL]
        best = _best(arm, tried, FULL, scores)
        if scores[Trial(arm, best, FULL)] == -math.inf:
            raise ValueError(f"{arm} diverged at every point that was tried; set a smaller learning rate")
        inside = not grid.at_the_limit(best) and all(point in tried for point in grid.neighbours(best))
        found[arm] = Outcome(best, inside)
    return found


def _best(arm: str, points: Sequence[Point], stage: str, scores: Scores) -> Point:
    return _ranked(arm, points, stage, scores)[0]


def _ranked(arm: str, points: Sequence[Point], stage: str, scores: Scores) -> list[Point]:
    """Best first; of equal ones, the one that is nearest to the shared settings, then the smaller one."""

    def key(point: Point) -> tuple[float, int, Point]:
        return -scores[Trial(arm, point, stage)], sum(map(abs, point)), point

    return sorted(points, key=key)
