"""What `lf.compare` and `lf.sweep` take, for type checkers: with `dry_run=True` they return a `Forecast`.

The functions state the same arguments with defaults and meanings; tests/experiments/test_accepted.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from leanformer.architecture import Architecture
from leanformer.experiments.hooks import Listener, Planned, Say
from leanformer.experiments.overrides import Settings, Sizes
from leanformer.experiments.recipe import Recipe

if TYPE_CHECKING:
    from leanformer.conditioning.watching import Rule as Projections
    from leanformer.experiments.own_loop.arms import Factory, Given, OtherArms
    from leanformer.experiments.own_loop.function import Train
    from leanformer.tasks.base import Metric

AnyRecipe = Recipe | str | Path | Callable[[], Recipe]
"""A recipe, the name of one, or a function that returns one."""


class Shared(TypedDict, total=False):
    """Of both."""

    seeds: int | Sequence[int] | None
    steps: int | None
    batch: int | None
    lr: float | None
    precision: str | None
    settings: Settings
    data: str | Path | None
    text_column: str | None
    label_column: str | None
    held_out: float | None
    skip_bad: bool | None
    model: Factory | str | Architecture | None
    train: Train | None
    command: str | Sequence[str] | None
    score_file: str | None
    score_key: str | None
    metric: Metric | str | None
    unit: str | None
    higher_is_better: bool | None
    example: Any
    projections: Projections | None
    time_limit: float | str | None
    name: str | None
    on: str | None
    jobs: int | None
    retries: int | None
    cpus: float | None
    gpus: float | None
    memory: str | int | None
    out: str | Path | None
    report: bool
    progress: bool | None
    say: Say | None
    planned: Planned | None
    listen: Listener | None


class OfCompare(Shared, total=False):
    """Of `lf.compare`."""

    arms: str | Sequence[str] | None
    first_seed: int | None
    until: str | None
    max_seeds: int | None
    margin: float | None
    tune: str | Sequence[str] | None
    tune_share: float | None
    tune_seeds: int | None
    budgets: str | Sequence[float] | None
    budget: str | None
    original: Given | None
    lean: Given | None
    arm: OtherArms
    start: str | Path | None
    pretrained: str | Path | None
    layers: str | None
    new_heads: str | None
    log_with: str


class OfSweep(Shared, total=False):
    """Of `lf.sweep`, but for the names that a model of one's own gives to its sizes."""

    vary: str | Sequence[str] | Mapping[str, Sequence[Any]] | None
    equal_params: bool | None
    original: Sizes | None
    depth: Sequence[Any]
    heads: Sequence[Any]
    head_dim: Sequence[Any]
    mlp_dim: Sequence[Any]
    width: Sequence[Any]
    groups: Sequence[Any]
    regime: Sequence[Any]
