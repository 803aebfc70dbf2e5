"""The trials of a search as an Optuna study for each arm, in one SQLite file that Optuna's tools read."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from leanformer.experiments.tuning.records import TrialResult
from leanformer.experiments.tuning.search import FULL
from leanformer.foundation.records.files import replacing

NEEDED = 'tuning keeps its trials with Optuna: pip install "leanformer[tune]"'


def check_installed() -> None:
    """A `ValueError` in one line where Optuna is missing, before anything is trained."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ValueError(NEEDED) from error


def write_ledger(path: Path, name: str, trials: Sequence[TrialResult], higher_is_better: bool) -> None:
    """Write all trials anew. The file is replaced as a whole, so a kill leaves the old one or the new one."""
    import optuna

    direction: Literal["minimize", "maximize"] = "maximize" if higher_is_better else "minimize"
    with replacing(path) as aside, _quiet(optuna):
        aside.unlink(missing_ok=True)  # of a process of the same number that was killed
        storage = optuna.storages.RDBStorage(f"sqlite:///{aside}")
        for arm in dict.fromkeys(trial.arm for trial in trials):
            study = optuna.create_study(study_name=f"{name}: {arm}", storage=storage, direction=direction)
            of_arm = [trial for trial in trials if trial.arm == arm]
            for values in dict.fromkeys(tuple(trial.values.items()) for trial in of_arm):
                study.add_trial(_trial(optuna, [trial for trial in of_arm if tuple(trial.values.items()) == values]))
        storage.engine.dispose()


def _trial(optuna: Any, stages: Sequence[TrialResult]) -> Any:
    """One choice of settings: complete if it was trained in full, pruned if the screening was the end of it."""
    values, last = stages[0].values, stages[-1]
    state = optuna.trial.TrialState.PRUNED
    if last.score is None:
        state = optuna.trial.TrialState.FAIL
    elif last.stage == FULL:
        state = optuna.trial.TrialState.COMPLETE
    complete = state == optuna.trial.TrialState.COMPLETE
    return optuna.trial.create_trial(
        state=state,
        value=last.score if complete else None,
        params=dict(values),
        distributions={
            key: optuna.distributions.FloatDistribution(value / 1e4, value * 1e4, log=True)
            for key, value in values.items()
        },
        intermediate_values={stage.steps: stage.score for stage in stages if stage.score is not None},
    )


@contextlib.contextmanager
def _quiet(optuna: Any) -> Any:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
