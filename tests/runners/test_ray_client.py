"""A whole study over ray://, from the command: stopped by a signal, resumed, and the same as on this machine."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from leanformer.runners import on_ray
from leanformer.runners.on_ray import OnRay
from leanformer.runners.where import Where
from support.command import call

SIZES = ("--arms", "original,lean", "--original", "depth=1", "--lean", "depth=1,heads=8", "--seeds", "1")
SHORT = ("--batch", "4", "--steps", "600", "--set", "training.probe=0", "--set", "training.save_every=50", "--json")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
def head(tmp_path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A head node in processes of its own, which asks for a token: its address, and the environment that has it."""
    port = free_port()
    variables = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    variables |= {"RAY_worker_niceness": "0", "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "60", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1"]
    command += [f"--port={free_port()}", f"--ray-client-server-port={port}", "--include-dashboard=false"]
    with (tmp_path / "head.log").open("w") as log:
        started = subprocess.Popen(
            [*command, "--disable-usage-stats"], env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        while started.poll() is None:
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        assert started.poll() is None, (tmp_path / "head.log").read_text()
        yield f"ray://127.0.0.1:{port}", variables
    finally:
        started.terminate()
        started.wait(60)


def begin(out: Path, variables: Mapping[str, str], *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "leanformer", "compare", "digits", *SIZES, *SHORT, *options, "--out", str(out)]
    return subprocess.Popen(command, env=dict(variables), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def results(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("result.json"))}


def test_a_study_is_stopped_and_resumed_over_the_client(head: tuple[str, Any], tmp_path: Path) -> None:
    address, variables = head
    study = tmp_path / "study"
    first = begin(study, variables, "--on", address, "--memory", "200MB")
    while first.poll() is None and not list(study.glob("original/seed-0/checkpoints/step-*")):
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    said = first.communicate()[1]
    assert first.returncode == 75, said
    assert "stopped by SIGTERM; repeat the command to resume" in said
    assert not list(study.rglob("result.json")), "it was stopped before the end"
    again = begin(study, variables, "--on", address, "--memory", "200MB")
    said = again.communicate()[1]
    assert again.returncode == 0, said
    assert "original, seed 0: resuming from step" in said
    local = call("compare", "digits", *SIZES, *SHORT, "--jobs", "1", "--out", str(tmp_path / "local"))
    assert local.returncode == 0, local.stderr
    assert results(study) == results(tmp_path / "local")
    assert len(results(study)) == 2


def test_a_client_that_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(
        ValueError, match=r"no Ray cluster at ray://127.0.0.1:1 .* refused; if it asks for a token, set RAY"
    ):
        OnRay(Where(on="ray://127.0.0.1:1")).run([tmp_path], lambda *_: None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(ValueError, match=r"refused$"):
        on_ray._connect(None, "ray://127.0.0.1:1")
