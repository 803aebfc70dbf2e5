"""What people say about where runs run, checked."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import leanformer as lf
from leanformer import tasks
from leanformer.experiments.forecast import forecast_run
from leanformer.models.names import architecture_of
from leanformer.runners import on_ray
from leanformer.runners.where import LIBRARIES, Where, needs_of
from leanformer.tasks.farthest_point import FarthestPoint
from leanformer.training.run import write_run
from support.command import call


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on": "cloud"}, 'on must be "local", "ray" or "ray://HOST:10001", got \'cloud\''),
        ({"on": "ray://host"}, "on must be"),
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"on": "ray", "cpus": float("nan")}, "cpus must be a number of at least 0, got nan"),
        ({"on": "ray", "memory": "much"}, 'memory takes a size, such as "24GB", got "much"'),
        ({"cpus": 2}, 'cpus needs on="ray"'),
    ],
)
def test_bad_choices(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Where.of(given)
    assert message in str(error.value)


def test_good_choices() -> None:
    assert Where.of({}) == Where()
    given = {"on": "ray://head:10001", "jobs": 4, "retries": 0, "cpus": 0.5, "gpus": 1, "memory": "8GB"}
    assert Where.of(given) == Where("ray://head:10001", 4, 0, 0.5, 1, 8 * 10**9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory": "1GB"}, 'memory needs on="ray"'),
        ({"out": "s3://bucket/x"}, "out must be a folder"),
        ({"plan_only": True}, "plan_only does not go with train or"),
    ],
)
def test_what_own_loops_do_not_take(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lf.compare(train=lambda model, seed, folder: 1.0, original="gpt2", lean="depth=2", **given)


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"on='ray' needs Ray: pip install \"leanformer\[cluster\]\""):
        lf.compare("digits", on="ray", out=tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_the_command_names_its_option() -> None:
    done = call("compare", "digits", "--on", "ray:nowhere")
    assert (done.returncode, "--on must be" in done.stderr) == (2, True)


@pytest.mark.parametrize("points", [16, 300])
def test_memory_is_the_forecast_s_where_a_task_has_no_length(points: int, tmp_path: Path) -> None:
    task = FarthestPoint(dim=8, points=points, held_out=4)
    sizes = {**tasks.load(task).options, "width": 8, "heads": 2, "head_dim": 4, "mlp_dim": 16}
    design = architecture_of("farthest-point", **sizes)
    run = lf.Run(name="lean", architecture=design, task=task, training=lf.Training(steps=1, batch=64))
    write_run(run, tmp_path)
    needs = needs_of(tmp_path, Where(on="ray"), has_gpus=False)
    assert needs.memory - LIBRARIES == forecast_run(run).arms[0].memory_bytes
    assert needs_of(tmp_path, Where(on="ray"), has_gpus=True).memory == LIBRARIES


def test_a_cluster_that_was_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray keeps the address of the last cluster after its death; a new one is started then."""
    calls: list[dict[str, Any]] = []
    fake = SimpleNamespace(init=lambda **options: calls.append(options))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(on_ray, "_last_cluster", lambda: "127.0.0.1:1")
    on_ray._connect_or_start(fake, {})
    monkeypatch.setattr(on_ray, "_last_cluster", lambda: "")
    on_ray._connect_or_start(fake, {})
    assert [call["address"] for call in calls] == ["local", "auto"]
