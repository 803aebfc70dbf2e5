"""What Ray costs beside worker processes, and how fast a large study is planned and listed."""

import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

import leanformer as lf
from leanformer.experiments.recipes.images import digits
from leanformer.experiments.status import open_commands
from leanformer.foundation.machine import cores
from leanformer.runners import Where, choose
from leanformer.training.run import write_run

RUNS = 24
STEPS = 200
ROUNDS = 1
QUEUED = 5000


def overhead() -> dict[str, Any]:
    """Seconds for so many short runs by worker processes and on Ray, in turns, without and with the start of Ray."""
    import ray

    seconds: dict[str, list[float]] = {"worker processes": [], "Ray": [], "Ray, started": []}
    with tempfile.TemporaryDirectory() as place:
        for number in range(ROUNDS):
            seconds["worker processes"].append(_train(Path(place) / f"local-{number}", Where(jobs=cores())))
            began = time.perf_counter()
            ray.init(num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            started = time.perf_counter() - began
            took = _train(Path(place) / f"ray-{number}", Where(on="ray", memory=10**8))
            ray.shutdown()
            seconds["Ray, started"].append(took)
            seconds["Ray"].append(started + took)
    found = {name: sorted(values)[len(values) // 2] for name, values in seconds.items()}
    return {"runs": RUNS, "steps": STEPS, "seconds": found, "ratio": found["Ray"] / found["worker processes"]}


def _train(place: Path, where: Where) -> float:
    recipe = digits()
    folders = []
    for seed in range(RUNS):
        training = replace(recipe.training, steps=STEPS, evaluations=1)
        run = lf.Run(name="lean", architecture=recipe.lean, task=recipe.task, training=training, seed=seed)
        write_run(run, place / f"seed-{seed}")
        folders.append(place / f"seed-{seed}")
    began = time.perf_counter()
    choose(where).run(folders, lambda folder, event: None)
    seconds = time.perf_counter() - began
    assert all((folder / "result.json").is_file() for folder in folders)
    shutil.rmtree(place)
    return seconds


def planning() -> dict[str, Any]:
    """Seconds to plan a study of so many runs, and to list their commands."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        study = Path(place) / "study"
        began = time.perf_counter()
        planned = lf.compare("digits", arms="original,lean", seeds=QUEUED // 2, plan_only=True, out=study)
        written = time.perf_counter() - began
        began = time.perf_counter()
        commands = open_commands(study)
        listed = time.perf_counter() - began
        assert len(planned.runs) == len(commands) == QUEUED
    return {"queued": QUEUED, "plan_seconds": written, "list_seconds": listed}


def table(found: dict[str, Any], planned: dict[str, Any]) -> Table:
    seconds = found["seconds"]
    rows = Table("what", "seconds", "ratio", title=f"{found['runs']} runs of {found['steps']} steps")
    for name, value in seconds.items():
        rows.add_row(name, f"{value:.1f}", f"{value / seconds['worker processes']:.2f}")
    rows.add_row(f"{planned['queued']:,} runs planned", f"{planned['plan_seconds']:.1f}", "")
    rows.add_row(f"{planned['queued']:,} runs listed", f"{planned['list_seconds']:.1f}", "")
    return rows
