"""The best learning rate of each depth of a figure, found on seeds and samples that the figure does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leanformer.experiments.recipe import Recipe
from leanformer.experiments.sweep import sweep
from leanformer.experiments.sweep_records import Sweep
from leanformer.experiments.tuning.records import FIRST_SEED, TUNABLE
from leanformer.tasks.tuning_part import TuningPart

RATE = "training.lr"
SEEDS = (FIRST_SEED, FIRST_SEED + 1)
FIRST_REACH = 1
"""Factors to each side of the recipe's rate that are tried first; more while the best rate is an outer one."""


def best_rates(recipe: Recipe, depths: Sequence[int], folder: Path, **arguments: Any) -> dict[int, float]:
    """The rate with the best mean score at each depth, with the original's heads and MLP: a sweep of its own.

    `arguments` are those of `lf.sweep`. What the folder holds is not trained again, so figures of one recipe share it.
    """
    axis = replace(TUNABLE["lr"], shared=recipe.training.lr)
    part = replace(recipe, task=TuningPart(of=recipe.task))
    asked = {depth: set(range(-FIRST_REACH, FIRST_REACH + 1)) for depth in depths}
    while True:
        for places, alike in _alike(asked).items():
            record = sweep(
                part,
                vary={RATE: tuple(map(axis.value, places)), "depth": alike},
                equal_params=False,
                seeds=SEEDS,
                settings=["training.evaluations=1", "training.probe=0"],
                out=folder,
                **arguments,
            )
        scores = {depth: _scores(record, depth) for depth in depths}
        best = {depth: max(found, key=found.__getitem__) for depth, found in scores.items()}
        missing = {
            depth: {
                place
                for place in range(-axis.limit, axis.limit + 1)
                if axis.value(place) not in scores[depth] and best[depth] in map(axis.value, (place - 1, place + 1))
            }
            for depth in depths
        }
        if not any(missing.values()):
            return best
        asked = {depth: places for depth, places in missing.items() if places}


def _alike(asked: Mapping[int, set[int]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Depths that lack the same rates, together."""
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for depth, places in asked.items():
        key = tuple(sorted(places))
        found[key] = (*found.get(key, ()), depth)
    return found


def _scores(record: Sweep, depth: int) -> dict[float, float]:
    """The mean score by rate, turned so that more is better; a rate at which a run diverged counts as the worst."""
    return {
        cell.values[RATE]: float("-inf")
        if cell.score is None or cell.diverged
        else record.metric.sign * cell.score.mean
        for cell in record.cells
        if cell.values["depth"] == depth
    }
