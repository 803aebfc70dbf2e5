"""What is tuned and how, as the plan of a comparison says it before the first trial, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from leanformer.experiments.arms import ArmLabel
from leanformer.experiments.tuning.search import FULL, SCREENING, Axis, Point
from leanformer.foundation.records.base import RecordPart
from leanformer.training.settings import Training

TUNABLE = {"lr": Axis("lr", 0, factor=2, reach=2, limit=6), "weight_decay": Axis("weight_decay", 0, 4, 1, 3)}
"""Settings that can be tuned, with their grids, which are laid around the recipe's value."""
USUAL_SEEDS = 2
"""Of a trial in full, where no number is given."""
FIRST_SEED = 1_000_000
"""Seeds of trials. Comparisons count theirs from 0."""

Values = dict[str, float]
"""Settings by name."""


class TunedSetting(RecordPart):
    """The grid of one setting; see `search.Axis`."""

    name: str
    shared: float
    factor: float
    reach: int
    limit: int

    @property
    def axis(self) -> Axis:
        return Axis(self.name, self.shared, self.factor, self.reach, self.limit)


class TuningPlan(RecordPart):
    """How settings are tuned, the same for every arm."""

    settings: list[TunedSetting]
    screening: float = 0.25
    """Share of a trial's steps with which every point of the grid is tried first."""
    share: float = 1.0
    """Share of a run's steps that a trial takes."""
    seeds: list[int]
    """Of trials in full; the screening takes the first alone. No run that the verdict counts has one of them."""

    @property
    def axes(self) -> list[Axis]:
        return [setting.axis for setting in self.settings]

    @property
    def names(self) -> str:
        return ", ".join(setting.name for setting in self.settings)

    def values(self, point: Point) -> Values:
        return {axis.name: axis.value(place) for axis, place in zip(self.axes, point, strict=True)}

    def seeds_of(self, stage: str) -> list[int]:
        return self.seeds[:1] if stage == SCREENING else self.seeds

    def steps(self, whole: int, stage: str) -> int:
        """Of a trial, where a run has `whole`."""
        return max(1, round(whole * self.share * (self.screening if stage == SCREENING else 1)))


def tuning_plan(tune: str | Sequence[str], training: Training, share: float | None, seeds: int | None) -> TuningPlan:
    """The plan for settings given as "lr,weight_decay" or one by one."""
    names = [name.strip() for name in tune.split(",")] if isinstance(tune, str) else list(tune)
    if not names or any(name not in TUNABLE for name in names) or len(set(names)) < len(names):
        raise ValueError(f"what can be tuned is {' and '.join(TUNABLE)}, once each, got {tune!r}")
    if share is not None and not 0 < share <= 1:
        raise ValueError(f"a trial takes a share of a run's steps above 0 and up to 1, got {share:g}")
    if seeds is not None and seeds < 1:
        raise ValueError(f"the number of seeds of a trial must be at least 1, got {seeds}")
    settings = []
    for name in names:
        if not (shared := getattr(training, name)) > 0:
            raise ValueError(f"{name} is {shared:g}, and a grid of factors needs a first value: set training.{name}")
        axis = TUNABLE[name]
        settings.append(TunedSetting(name=name, shared=shared, factor=axis.factor, reach=axis.reach, limit=axis.limit))
    return TuningPlan(
        settings=settings,
        share=1.0 if share is None else share,
        seeds=[FIRST_SEED + place for place in range(USUAL_SEEDS if seeds is None else seeds)],
    )


def trained_with(training: Training, values: Mapping[str, float]) -> Training:
    """The training at other settings. The rates at which a schedule begins and ends keep their ratio to the peak."""
    changes: dict[str, Any] = dict(values)
    if training.lr > 0 and (rate := values.get("lr")) is not None:
        ratio = rate / training.lr
        changes |= {"min_lr": training.min_lr * ratio, "warmup_lr": training.warmup_lr * ratio}
    return replace(training, **changes)


class TrialResult(RecordPart):
    """One arm with one choice of settings."""

    arm: ArmLabel
    values: Values
    stage: str
    steps: int
    score: float | None
    """The mean over the tuning seeds; None if a run diverged."""


class Tuning(RecordPart):
    """A finished search."""

    plan: TuningPlan
    trials: list[TrialResult]
    best: dict[ArmLabel, Values]
    inside: dict[ArmLabel, bool]
    """Whether the best settings of an arm have neighbours on all sides that did worse."""
    run_steps: dict[ArmLabel, int]
    """Of one run that the verdict counts."""

    @property
    def runs_worth(self) -> float:
        """Steps of all trials of an arm, in runs that the verdict counts. It is the same for every arm."""
        arm = next(iter(self.best))
        spent = sum(trial.steps * len(self.plan.seeds_of(trial.stage)) for trial in self.trials if trial.arm == arm)
        return spent / self.run_steps[arm]

    def curve(self, arm: str, name: str, stage: str = FULL) -> list[tuple[float, float]]:
        """The score of an arm by one setting, the others at their best: what a sensitivity curve shows."""
        others = {key: value for key, value in self.best[arm].items() if key != name}
        found = [
            (trial.values[name], trial.score)
            for trial in self.trials
            if trial.arm == arm and trial.stage == stage and trial.score is not None
            if all(trial.values[key] == value for key, value in others.items())
        ]
        return sorted(found)

    @property
    def shared(self) -> Values:
        return {setting.name: setting.shared for setting in self.plan.settings}
