"""Tasks in a user's file, compared by worker processes, killed and resumed; and tasks that only one process has."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.foundation.registry import CODE_VARIABLE
from leanformer.training.checkpoints import Checkpoints

FILE = '''
import os
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

import leanformer as lf
from leanformer.data.order import stream


class Noise(Dataset):
    """Images whose brightness is the class, shifted at random."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    read = 0

    def __getitem__(self, row):
        self.read += 1
        while self.read > 90 and os.path.exists(__file__ + ".hold"):  # until the process is killed
            time.sleep(0.05)
        return torch.randn(1, 8, 8) + row % 3, row % 3


def recipe(name, task):
    original = lf.architecture_of(
        "vit_tiny_patch16_224", width=8, depth=2, heads=2, head_dim=4, mlp_dim=8,
        num_classes=3, img_size=8, in_chans=1, patch_size=4,
    )
    training = lf.Training(steps=20, batch=6, evaluations=1, probe=0, save_every=10)
    return lf.Recipe(
        name=name, task=task, original=original, lean=original.resized(depth=1), training=training, margin=5.0
    )


def dataset():
    return recipe("dataset", lf.task(train=Noise(30), held_out=Noise(12), loss="cross-entropy", metric="accuracy"))


@dataclass(frozen=True, kw_only=True)
class Brightness(lf.Task):
    size: int = 12

    def load(self):
        return BrightnessData(self)


class BrightnessData(lf.Data):
    def __init__(self, task):
        self.task, self.size, self.source = task, None, "brightness"
        self.options, self.metric = {"num_classes": 3}, lf.Metric("loss", "nats", higher_is_better=False)

    def drawn(self, count, *key):
        labels = torch.arange(count) % 3
        images = torch.from_numpy(stream(*key).standard_normal((count, 1, 8, 8), dtype="float32"))
        return images + labels[:, None, None, None], labels

    def batches(self, order, steps, share):
        for step in steps:
            yield tuple(share.of(part) for part in self.drawn(order.batch_at(step), order.seed, step))

    def loss(self, model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    @torch.no_grad()
    def evaluate(self, model, share, device):
        images, labels = (part[share.index :: share.count] for part in self.drawn(self.task.size, 0))
        return {"loss": F.cross_entropy(model(images), labels, reduction="sum").item(), "count": len(labels)}

    def score(self, sums):
        return {"loss": sums["loss"] / sums["count"]}

    def probe_batch(self, count):
        return self.drawn(count, 0)[0]


def protocol():
    return recipe("protocol", Brightness(size=9))
'''
PROGRAM = """
import sys
import leanformer as lf
lf.compare(sys.argv[1], out=sys.argv[2], arms=["original", "lean"], seeds=1, jobs=2, report=False)
"""
QUIET: dict[str, Any] = dict(arms=["original", "lean"], seeds=1, report=False, progress=False)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(CODE_VARIABLE, "")
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    yield path
    for name in [name for name in sys.modules if name.startswith("leanformer_code") and name.endswith("_mine")]:
        del sys.modules[name]


def results(out: Path) -> dict[str, bytes]:
    found = {path.parent.parent.name: path.read_bytes() for path in out.glob("*/seed-0/result.json")}
    assert set(found) == {"original", "lean"}
    return found


def test_a_killed_comparison_of_a_task_in_a_file_resumes_with_workers(file: Path, tmp_path: Path) -> None:
    hold = Path(f"{file}.hold")
    hold.touch()
    out, reference = tmp_path / "killed", f"{file}:dataset"
    command = [sys.executable, "-c", PROGRAM, reference, str(out)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    folders = [out / arm / "seed-0" for arm in ("original", "lean")]
    deadline = time.monotonic() + 120
    while not all(Checkpoints(folder / "checkpoints").steps() for folder in folders):
        assert process.poll() is None, "the comparison ended before it could be killed"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1.0)  # workers end with their parent
    assert not any((folder / "result.json").is_file() for folder in folders)
    hold.unlink()
    said: list[str] = []
    record = lf.compare(
        reference, out=out, jobs=2, listen=lambda arm, seed, event: said.append(event.get("text", "")), **QUIET
    )
    assert record.task["kind"] == reference
    assert sorted(filter(None, said)) == [f"{arm}, seed 0: resuming from step 10 of 20" for arm in ("lean", "original")]
    lf.compare(reference, out=tmp_path / "whole", jobs=1, **QUIET)
    assert results(out) == results(tmp_path / "whole")


def test_a_task_class_in_a_file_is_compared_by_workers_and_resumed(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    record = lf.compare(f"{file}:protocol", out=out, jobs=2, **QUIET)
    assert record.task == {"kind": f"{file}:Brightness", "size": 9}
    before = results(out)
    lean = out / "lean" / "seed-0"
    (lean / "result.json").unlink()
    shutil.rmtree(lean / "checkpoints" / "step-00000020")
    lf.compare(f"{file}:protocol", out=out, jobs=2, **QUIET)
    assert results(out) == before


def test_a_moved_file_is_resumed_from_its_new_place(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lf.compare(f"{file}:dataset", out=out, jobs=1, **QUIET)
    moved = tmp_path / "elsewhere" / "mine.py"
    moved.parent.mkdir()
    file.rename(moved)
    said: list[str] = []
    record = lf.compare(f"{moved}:dataset", out=out, jobs=1, say=said.append, **QUIET)
    assert any("is complete: nothing to train" in line for line in said)
    assert record.name == "dataset"


def test_a_task_of_one_process_is_trained_in_it_and_said_to_be(file: Path, tmp_path: Path) -> None:
    from leanformer.foundation.registry import resolve

    noise, recipe = resolve(f"{file}:Noise"), resolve(f"{file}:recipe")
    made = lf.task(train=noise(30), held_out=noise(12), loss="cross-entropy", metric="accuracy")
    said: list[str] = []
    chosen = recipe("here", made)
    record = lf.compare(chosen, out=tmp_path / "out", say=said.append, **QUIET)
    assert record.task["kind"].startswith("this-process:")
    (line,) = [line for line in said if "exists in this process only" in line]
    assert "its runs are trained here, one at a time; defined at the top level of a module or file, worker" in line
    with pytest.raises(
        ValueError, match=r"jobs=2: the task this-process:\S+ exists in this process only, since it was"
    ):
        lf.compare(chosen, out=tmp_path / "other", jobs=2, **QUIET)
