"""Real runs on a Ray cluster of three nodes: one node and one worker die, and nothing is lost, doubled or different."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

import leanformer as lf
from leanformer.experiments.sweep import read_record
from leanformer.foundation.records.files import locked
from leanformer.foundation.stopping import Stopped
from leanformer.foundation.storage import Mirror, Storage
from leanformer.runners import on_ray
from leanformer.runners.base import has_crashed, read_failure
from leanformer.runners.on_ray import OnRay, train_here, versions_here
from leanformer.runners.where import Where, needs_of
from leanformer.training.checkpoints import Checkpoints
from support.s3 import s3_endpoint
from support.tiny_run import described, recipe


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, s3_endpoint(patch) as url:  # nodes have credentials of their own: these
        patch.setenv("RAY_worker_niceness", "0")  # the tests beside this one would get all of the processor
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            made.add_node(num_cpus=1)
        made.bucket = url
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        ray.shutdown()
        made.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def connected(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The cluster, with one connection for several tests, whose runs then share worker processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("nodes")))
        with on_ray.connected("ray"):
            patch.undo()
            yield cluster


def results(folder: Path) -> dict[str, str]:
    """By place, what decides a run and what it came to; nothing in it depends on when or where it ran."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("result.json"))}


GRID: dict[str, Any] = {"vary": {"heads": [1, 2, 4], "depth": [1, 2]}, "seeds": 2, "report": False}


@pytest.fixture(scope="module")
def local_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    lf.sweep(swept(), **GRID, jobs=1, out=folder)
    return folder


def swept() -> lf.Recipe:
    small = recipe()
    return replace(small, training=replace(small.training, steps=90, save_every=10, evaluations=1))


def test_no_node_has_room(cluster: Any, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="no node has room for a run, which takes 64 CPUs, 0 GPUs and"):
        OnRay(Where(on="ray", cpus=64, memory=10**8)).run([described(tmp_path / "run")], lambda *_: None)
    assert signal.getsignal(signal.SIGTERM) is before, "Ray's own handler does not stay"


def test_nobody_answers_at_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ValueError, match="there is no Ray cluster at ray that this process could connect to"):
        OnRay(Where(on="ray")).run([tmp_path], lambda *_: None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_leaves_checkpoints_and_the_same_call_resumes(
    number: signal.Signals, connected: Any, tmp_path: Path
) -> None:
    """Of four runs two have room. They stop with a checkpoint, and the others are not begun."""
    long = dict(steps=1000, evaluations=1, probe=0, save_every=1000)
    folders = [described(tmp_path / f"run-{seed}", seed=seed, **long) for seed in range(4)]
    runner, training = OnRay(Where(on="ray", memory=10**8)), set()

    def stop(folder: Path, event: Any) -> None:
        if event["event"] == "progress" and folder not in training:
            training.add(folder)
            if len(training) == 2:
                os.kill(os.getpid(), number)

    with pytest.raises(Stopped, match=f"stopped by {number.name}; repeat the command to resume"):
        runner.run(folders, stop)
    assert len(training) == 2
    for folder in folders:
        left = {path.name for path in folder.iterdir()}
        assert not [name for name in left if name.startswith(".locked-by")]
        if folder in training:
            (step,) = Checkpoints(folder / "checkpoints").steps()
            assert 0 < step < 1000
        else:
            assert left == {"run.json"}
    if number is signal.SIGUSR1:
        return  # from here on, all is the same
    said: list[str] = []
    first = min(training)
    runner.run([first], lambda folder, event: said.append(str(event)))
    assert any("resuming from step" in line for line in said), said
    whole = described(tmp_path / "whole", seed=int(first.name[-1]), **long)
    lf.train(whole)
    assert (first / "result.json").read_text() == (whole / "result.json").read_text()


def test_a_node_with_another_version(connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = described(tmp_path / "run", steps=6)
    other = {**versions_here(), "leanformer": "9.9"}
    monkeypatch.setattr(on_ray, "versions_here", lambda: other)
    with pytest.raises(ValueError, match=r"the node \S+ has leanformer .* instead of 9.9: install the same version"):
        OnRay(Where(on="ray", memory=10**8)).run([folder], lambda *_: None)
    assert os.listdir(folder) == ["run.json"]


class Chaos:
    """Kills one worker process and one node, each once, when runs are under way."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.heard = cluster, Counter[str]()
        self.workers: set[str] = set()
        self.killed_worker = self.killed_node = False
        self.said: list[str] = []

    def __call__(self, arm: str, seed: int, event: dict[str, Any]) -> None:
        self.heard[f"{event['event']} {arm} {seed}"] += 1
        if event["event"] == "said":
            self.said.append(event["text"])
        if event["event"] == "progress" and not self.killed_worker:
            self.killed_worker = True
            os.kill(int(event["where"].split()[1]), signal.SIGKILL)
        finished = sum(count for what, count in self.heard.items() if what.startswith("done"))
        if finished >= 3 and not self.killed_node:
            self.killed_node = True
            victim = random.Random(0).choice([node for node in self.cluster.list_all_nodes() if not node.head])
            self.cluster.remove_node(victim, allow_graceful=False)
            self.cluster.add_node(num_cpus=1)


def test_nothing_is_lost_doubled_or_different(connected: Any, local_sweep: Path, tmp_path: Path) -> None:
    chaos = Chaos(connected)
    record = lf.sweep(swept(), **GRID, on="ray", retries=3, memory="200MB", out=tmp_path, listen=chaos)
    assert chaos.killed_worker
    assert chaos.killed_node
    assert any("tried again from its last checkpoint" in text for text in chaos.said)
    done = [count for what, count in chaos.heard.items() if what.startswith("done")]
    assert (len(done), set(done)) == (12, {1})
    assert results(tmp_path) == results(local_sweep)
    assert len(results(tmp_path)) == 12
    assert [cell.scores for cell in record.cells] == [cell.scores for cell in read_record(local_sweep).cells]


def test_runs_resume_on_another_node_from_s3(connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is killed in the middle of an upload; a node without its files finishes the run from what arrived."""
    whole = described(tmp_path / "whole", steps=40)
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "first-host"))
    study = f"{connected.bucket}/study"
    described(Mirror.of(study).folder / "lean" / "seed-0", steps=40)
    Mirror.of(study).send()
    killed = subprocess.run(
        [sys.executable, "-c", DIES_WHILE_SENDING, f"{study}/lean/seed-0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    listed = Storage(f"{study}/lean/seed-0").listed()
    saved = {name.split("/")[1] for name in listed if name.startswith("checkpoints/")}
    whole_ones = {step for step in saved if f"checkpoints/{step}/SHA256SUMS" in listed}
    assert whole_ones, "some checkpoint arrived"
    assert saved - whole_ones, "and half of another one"
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "second-host"))
    here = Mirror.of(study)
    here.fetch()
    said: list[str] = []
    OnRay(Where(on="ray", memory=10**8)).run(
        [here.folder / "lean" / "seed-0"], lambda folder, event: said.append(f"{event}")
    )
    assert any("resuming from step" in line for line in said), said
    lf.train(whole)
    (found,) = results(here.folder).values()
    assert json.loads(found) == json.loads((whole / "result.json").read_text())
    assert not [name for name in Storage(f"{study}/lean/seed-0").names() if name.startswith(".lease")]


DIES_WHILE_SENDING = """
import os, signal, sys
from leanformer.foundation.stopping import Stopped
from leanformer.foundation.storage import Storage, local
from leanformer.runners.base import execute
send, left = Storage.send, [12]
def dying(self, path, name):
    left[0] -= name.startswith("checkpoints/")
    if left[0] <= 0 and name.startswith("checkpoints/") and not name.endswith("SHA256SUMS"):
        send(self, path, name)
        os.kill(os.getpid(), signal.SIGKILL)
    send(self, path, name)
Storage.send = dying
execute(local(sys.argv[1]), lambda event: None)
"""


def test_a_run_that_crashes_each_time_is_recorded_and_the_others_are_done(connected: Any, tmp_path: Path) -> None:
    folders = [described(tmp_path / f"run-{seed}", seed=seed, steps=60) for seed in range(2)]
    heard: list[tuple[str, str]] = []

    def listen(folder: Path, event: Any) -> None:
        heard.append((folder.name, event["event"]))
        if folder == folders[0] and event["event"] == "progress":
            os.kill(int(event["where"].split()[1]), signal.SIGKILL)

    OnRay(Where(on="ray", memory=10**8, retries=0)).run(folders, listen)
    assert ("run-0", "crashed") in heard
    assert ("run-1", "done") in heard
    assert has_crashed(folders[0])
    assert "it ended unexpectedly (WorkerCrashedError" in str(read_failure(folders[0]))


def test_a_folder_that_a_node_does_not_see() -> None:
    ended = train_here("/nowhere/run", "", "", "/", "", versions_here(), None)
    assert "does not see /nowhere/run: choose a folder that all nodes see, or a URL" in ended["text"]


def test_a_run_that_another_process_trains_is_tried_again_later(tmp_path: Path) -> None:
    folder = described(tmp_path / "run")
    with locked(folder):
        ended = train_here(str(folder), "", "", "/", "", versions_here(), None)
    assert (ended["event"], "another process is working in" in ended["text"]) == ("broken", True)


def test_needs_come_from_the_cost_model(tmp_path: Path) -> None:
    folder = described(tmp_path / "run", threads=2)
    needs = needs_of(folder, Where(on="ray"), has_gpus=False)
    assert (needs.cpus, needs.gpus) == (2, 0)
    assert 1.5e9 < needs.memory < 1.6e9
    assert needs_of(folder, Where(on="ray"), has_gpus=True).gpus == 1
    assert needs_of(folder, Where(on="ray", cpus=0.5, gpus=0.25, memory=7), has_gpus=True) == on_ray.Needs(0.5, 0.25, 7)


class Linear(torch.nn.Module):
    """A model without attention, for a loop that is not about models."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, heads)


def own_loop(model: torch.nn.Module, seed: int, folder: Path) -> float:
    """Says which process it was. The first attempt with seed 1 is killed with its Ray worker."""
    (folder / "process.txt").write_text(f"{os.getpid()}")
    if seed == 1 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(int(subprocess.check_output(["ps", "-o", "ppid=", "-p", f"{os.getpid()}"])), signal.SIGKILL)
        time.sleep(60)
    return float(seed + sum(parameter.sum().item() for parameter in model.parameters()))


OWN: dict[str, Any] = {
    "train": own_loop,
    "model": Linear,
    "original": {"heads": 2},
    "lean": {"heads": 4},
    "margin": 1.0,
    "report": False,
}


def test_own_loops_run_on_nodes_and_are_tried_again(connected: Any, tmp_path: Path) -> None:
    far = lf.compare(**OWN, seeds=[1], on="ray", retries=1, out=tmp_path / "far")
    assert len(list((tmp_path / "far").glob("*/seed-1/died"))) == 2
    assert not far.failures
    processes = {path.read_text() for path in (tmp_path / "far").rglob("process.txt")}
    assert str(os.getpid()) not in processes
    for place in (tmp_path / "here" / arm / "seed-1" for arm in ("original", "lean")):
        place.mkdir(parents=True)
        (place / "died").touch()
    here = lf.compare(**OWN, seeds=[1], out=tmp_path / "here")
    assert {arm: result.scores for arm, result in far.arms.items()} == {
        arm: result.scores for arm, result in here.arms.items()
    }


def test_own_loops_that_die_each_time_are_recorded(connected: Any, tmp_path: Path) -> None:
    record = lf.compare(**OWN, seeds=[0, 1], on="ray", retries=0, out=tmp_path)
    assert set(record.failures) == {"original, seed 1", "lean, seed 1"}
    assert "its process ended: WorkerCrashedError" in record.failures["lean, seed 1"]
    assert "in 1 attempt" in record.failures["lean, seed 1"]


WRITES_ITS_HEADS = """
import json, pathlib, sys
pathlib.Path(sys.argv[2], "metrics.json").write_text(json.dumps({"score": int(sys.argv[1])}))
"""


def test_own_loops_as_commands(connected: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES_ITS_HEADS, "{heads}", "{folder}", "{seed}"]
    sizes = {"original": {"heads": 2}, "lean": {"heads": 4}}
    record = lf.compare(command=command, **sizes, seeds=1, margin=9, on="ray", out=tmp_path, report=False)
    assert {arm: result.scores for arm, result in record.arms.items()} == {"original": {"0": 2}, "lean": {"0": 4}}


def test_retries_of_own_loops_need_ray(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='retries needs on="ray": on this machine, the same call runs again'):
        lf.compare(**OWN, seeds=1, retries=1, out=tmp_path)
