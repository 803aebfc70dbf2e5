"""Runs the trials of a search, each a run folder under tuning/, and says what they found.

Run folders hold the truth: the search is repeated from them whenever it is read. Optuna keeps the same trials for
those who look at them with its tools.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from leanformer.experiments.hooks import Hooks
from leanformer.experiments.plan import ComparisonPlan
from leanformer.experiments.tuning.ledger import check_installed, write_ledger
from leanformer.experiments.tuning.records import TrialResult, Tuning, TuningPlan, trained_with, tuning_plan
from leanformer.experiments.tuning.search import Trial, next_trials, outcomes
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.formats import counted
from leanformer.foundation.machine import from_first_process, is_first_process
from leanformer.runners.base import Event, Runner, has_crashed, read_failure
from leanformer.tasks.base import Task
from leanformer.tasks.tuning_part import TuningPart
from leanformer.training.result import is_finished, read_result
from leanformer.training.run import Run, read_run, write_run
from leanformer.training.settings import Training

FOLDER = "tuning"
LEDGER = "trials.sqlite"


def wanted_tuning(
    tune: str | Sequence[str] | None, training: Training, share: float | None, seeds: int | None
) -> TuningPlan | None:
    """The plan for what was asked for, if anything was."""
    if tune is None:
        if share is not None or seeds is not None:
            raise ArgumentError("{tune_share} and {tune_seeds} need {tune}, which says what is tuned")
        return None
    check_installed()
    return tuning_plan(tune, training, share, seeds)


@dataclass(frozen=True)
class Trials:
    """The trials of a comparison."""

    comparison: ComparisonPlan
    plan: TuningPlan
    task: Task
    higher_is_better: bool
    out: Path
    """The comparison's folder."""

    @property
    def arms(self) -> list[str]:
        return self.comparison.arms

    # Runs of a trial

    def _settings(self, trial: Trial) -> str:
        return ",".join(f"{name}={value:g}" for name, value in self.plan.values(trial.point).items())

    def label(self, trial: Trial) -> str:
        return f"{trial.arm} {self._settings(trial)}"

    def folder(self, trial: Trial, seed: int) -> Path:
        return self.out / FOLDER / trial.arm / self._settings(trial) / trial.stage / f"seed-{seed}"

    def run(self, trial: Trial, seed: int) -> Run:
        whole = self.comparison.steps[trial.arm]
        steps = self.plan.steps(whole, trial.stage)
        shortened = self.comparison.training.with_warmup_for(steps / whole)
        training = trained_with(shortened, self.plan.values(trial.point))
        return Run(
            name=trial.arm,
            architecture=self.comparison.architectures[trial.arm],
            task=TuningPart(of=self.task),
            training=replace(training, steps=steps, evaluations=1, probe=0),
            seed=seed,
            **self.comparison.start_of(trial.arm, seed, len(self.folder(trial, seed).relative_to(self.out).parts)),
        )

    def score(self, trial: Trial) -> float | None:
        """More is better; minus infinity if a run diverged, None if one is not finished."""
        found = [self._score(trial, seed) for seed in self.plan.seeds_of(trial.stage)]
        if any(score is None for score in found):
            return None
        return math.fsum(score for score in found if score is not None) / len(found)

    def _score(self, trial: Trial, seed: int) -> float | None:
        folder = self.folder(trial, seed)
        if _has_diverged(folder):
            return -math.inf
        if not is_finished(folder):
            return None
        if read_run(folder) != self.run(trial, seed):
            raise ValueError(f"{folder} holds another trial; delete it and repeat the command")
        result = read_result(folder)
        assert result is not None
        return self._turned(result.score)

    def _turned(self, score: float) -> float:
        """A score as one of which more is better, and back again."""
        return score if self.higher_is_better else -score

    # The search

    def tune(self, runner: Runner, hooks: Hooks) -> Tuning:
        """Run what is missing; returns what was found."""

        def train(trials: Sequence[Trial]) -> None:
            open_runs = {
                folder: (trial, seed)
                for trial in trials
                for seed in self.plan.seeds_of(trial.stage)
                if not is_finished(folder := self.folder(trial, seed)) and not _has_diverged(folder)
            }
            from_first_process(partial(self._describe, open_runs))
            steps = {self.label(trial): self.run(trial, seed).training.steps for trial, seed in open_runs.values()}
            hooks.planned(_Planned(steps), [(self.label(trial), seed) for trial, seed in open_runs.values()])

            def hear(folder: Path, event: Event) -> None:
                if is_first_process():
                    trial, seed = open_runs[folder]
                    hooks.listen(self.label(trial), seed, event)

            runner.run(list(open_runs), hear)
            if crashed := [folder for folder in open_runs if has_crashed(folder)]:
                raise OSError(
                    f"{crashed[0]} could not be trained: {read_failure(crashed[0])}; repeat the command to resume"
                )
            if is_first_process():
                for folder in open_runs:
                    _without_weights(folder)

        scores: dict[Trial, float] = {}
        while missing := next_trials(self.arms, self.plan.axes, scores):
            train(missing)
            scores |= self._scores(missing)
            if is_first_process():
                write_ledger(
                    self.out / FOLDER / LEDGER, self.comparison.name, self._results(scores), self.higher_is_better
                )
        found = self._tuning(scores)
        hooks.say(f"tuned {self.plan.names} in {counted(len(found.trials), 'trial')}")
        return found

    def _describe(self, runs: Mapping[Path, tuple[Trial, int]]) -> None:
        for folder, (trial, seed) in runs.items():
            write_run(self.run(trial, seed), folder)

    def read(self) -> Tuning | None:
        """What a finished search found; None if trials are missing."""
        scores: dict[Trial, float] = {}
        while missing := next_trials(self.arms, self.plan.axes, scores):
            found = self._scores(missing)
            if len(found) < len(missing):
                return None
            scores |= found
        return self._tuning(scores)

    def _scores(self, trials: Sequence[Trial]) -> dict[Trial, float]:
        return {trial: score for trial in trials if (score := self.score(trial)) is not None}

    def _results(self, scores: Mapping[Trial, float]) -> list[TrialResult]:
        return [
            TrialResult(
                arm=trial.arm,
                values=self.plan.values(trial.point),
                stage=trial.stage,
                steps=self.plan.steps(self.comparison.steps[trial.arm], trial.stage),
                score=None if score == -math.inf else self._turned(score),
            )
            for trial, score in scores.items()
        ]

    def _tuning(self, scores: Mapping[Trial, float]) -> Tuning:
        found = outcomes(self.arms, self.plan.axes, scores)
        return Tuning(
            plan=self.plan,
            trials=self._results(scores),
            best={arm: self.plan.values(outcome.best) for arm, outcome in found.items()},
            inside={arm: outcome.inside for arm, outcome in found.items()},
            run_steps={arm: self.comparison.steps[arm] for arm in self.arms},
        )


@dataclass(frozen=True)
class _Planned:
    steps: Mapping[str, int]


def _has_diverged(folder: Path) -> bool:
    return read_failure(folder) is not None and not has_crashed(folder)


def _without_weights(folder: Path) -> None:
    """Of a finished trial, only the score is needed."""
    if is_finished(folder):
        for name in ("model", "checkpoints"):
            shutil.rmtree(folder / name, ignore_errors=True)
