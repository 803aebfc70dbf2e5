"""Worker processes: one that ends unexpectedly is replaced, its run is tried again, and the other runs continue."""

import os
import signal
from pathlib import Path

import pytest

from leanformer.runners.base import has_crashed, read_failure
from leanformer.runners.processes import WorkerProcesses
from leanformer.training.result import is_finished, read_result
from leanformer.training.run import RUN
from support.tiny_run import described


class Killer:
    """Kills the workers of a run when it reports progress, so many times."""

    def __init__(self, victim: Path, times: int) -> None:
        self.victim, self.times = victim, times
        self.heard: list[tuple[str, str, str]] = []

    def __call__(self, folder: Path, event: dict[str, object]) -> None:
        if event["event"] != "progress":
            self.heard.append((folder.name, str(event["event"]), str(event.get("text", ""))))
        elif folder == self.victim and self.times:
            self.times -= 1
            (process,) = working_in(folder)
            os.kill(process, signal.SIGKILL)


def working_in(folder: Path) -> list[int]:
    from leanformer.foundation.records.files import worker_in

    return [int(worker_in(folder).split()[1])]


def test_a_killed_worker_is_replaced_and_the_result_is_the_same(tmp_path: Path) -> None:
    folders = [described(tmp_path / f"run-{seed}", seed=seed, steps=60) for seed in range(3)]
    whole = described(tmp_path / "whole", seed=1, steps=60)
    killer = Killer(folders[1], times=1)
    WorkerProcesses(jobs=2, retries=1).run([*folders, whole], killer)
    assert sorted(name for name, event, _ in killer.heard if event == "done") == ["run-0", "run-1", "run-2", "whole"]
    said = [text for name, event, text in killer.heard if name == "run-1" and event == "said"]
    assert any(
        "its process ended unexpectedly (SIGKILL); it is tried again from its last checkpoint" in text for text in said
    )
    assert read_result(folders[1]) == read_result(whole)


def test_after_the_last_attempt_the_reason_is_kept_and_the_others_are_done(tmp_path: Path) -> None:
    folders = [described(tmp_path / f"run-{seed}", seed=seed, steps=60) for seed in range(2)]
    killer = Killer(folders[0], times=1)
    WorkerProcesses(jobs=2, retries=0).run(folders, killer)
    assert ("run-0", "crashed", "its process ended unexpectedly (SIGKILL) in 1 attempt") in killer.heard
    assert has_crashed(folders[0])
    assert read_failure(folders[0]) == "its process ended unexpectedly (SIGKILL) in 1 attempt"
    assert is_finished(folders[1])


def test_an_error_in_a_run_stops_all(tmp_path: Path) -> None:
    folders = [described(tmp_path / f"run-{seed}", seed=seed) for seed in range(2)]
    (folders[0] / RUN).write_text("{")
    with pytest.raises(ValueError, match=r"run\.json is damaged"):
        WorkerProcesses(jobs=2).run(folders, lambda folder, event: None)
