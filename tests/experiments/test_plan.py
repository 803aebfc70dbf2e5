"""A plan's runs: what folders hold, what a kill leaves, and what a second plan does about it."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.experiments.plan import folder_of, read_plan
from leanformer.experiments.status import open_commands
from leanformer.foundation.records.files import MANY
from leanformer.training.run import RUN, Run
from support import tiny_run

SEEDS = MANY
"""Of two arms each, so that runs are put onto the disk together."""


def planned(out: Path) -> lf.Status:
    return lf.compare(tiny_run.recipe(arms=("original", "lean")), seeds=SEEDS, plan_only=True, out=out)


def texts(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): path.read_text() for path in out.rglob(RUN)}


def test_every_folder_holds_what_its_run_alone_would_write(tmp_path: Path) -> None:
    planned(tmp_path / "study")
    plan, found = read_plan(tmp_path / "study"), texts(tmp_path / "study")
    assert len(found) == 2 * SEEDS
    for arm, seed in plan.runs():
        run = plan.run(arm, seed, tiny_run.TASK)
        run.write(tmp_path / RUN, indent=2)
        folder = folder_of(tmp_path / "study", arm, seed)
        assert (folder / RUN).read_text() == (tmp_path / RUN).read_text()
        assert Run.read(folder / RUN) == run


def _killed(out: Path, renames: int) -> None:
    rename, left = os.replace, [renames]

    def replace(*arguments: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*arguments)

    os.replace = replace
    planned(out)


def test_after_a_kill_runs_are_whole_or_absent_and_planned_again(tmp_path: Path) -> None:
    planned(tmp_path / "whole")
    whole = texts(tmp_path / "whole")
    out, seen = tmp_path / "killed", []
    for renames in (1, 50, 100):  # the first one is the plan's own
        process = multiprocessing.get_context("fork").Process(target=_killed, args=(out, renames))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        there = texts(out)
        assert there.items() <= whole.items()
        seen.append(len(there))
    assert seen == [0, 49, 148]
    assert len(planned(out).runs) == len(open_commands(out)) == len(whole)
    assert texts(out) == whole


def test_a_folder_of_another_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    tiny_run.described(tmp_path / "lean" / "seed-7", seed=6)
    with pytest.raises(ValueError, match="seed-7 holds another run: seed is 6 there and 7 here"):
        planned(tmp_path)
    assert list(texts(tmp_path)) == ["lean/seed-7/run.json"]
    assert not (tmp_path / "plan.json").exists()
