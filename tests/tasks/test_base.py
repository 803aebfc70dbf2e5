"""Every task: found by name in this process and another, written and read back, and directed to data."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leanformer import tasks
from leanformer.data.hub import NotAvailable

FORMER = {
    "farthest": "farthest-point",
    "glue": "sentence-classes",
    "images": "image-classes",
    "listops": "listops",
    "masked": "masked-token",
    "pathfinder": "pathfinder",
    "pixels": "pixel-classes",
    "retrieval": "pair-classes",
    "stories": "next-token",
    "text": "byte-classes",
}
"""What version 0.1 called every task."""

OWN = """
from dataclasses import dataclass
from leanformer.tasks import Data, Task

@dataclass(frozen=True, kw_only=True)
class Mine(Task):
    length: int = 3

    def load(self) -> Data:
        raise ValueError("the data of this task are elsewhere")
"""


# Names


def test_kinds_say_what_is_predicted() -> None:
    assert sorted([*FORMER.values(), "text-classes", "tuning-part"]) == sorted(tasks.TASKS.names())
    for former, kind in FORMER.items():
        task = tasks.read({"kind": kind})
        assert task.to_dict()["kind"] == kind
        assert tasks.read(task.to_dict()) == task
        assert tasks.read({**task.to_dict(), "kind": former}) == task


def test_tasks_of_committed_records_are_read() -> None:
    found = [
        json.loads(path.read_text(encoding="utf-8")).get("task")
        for path in (Path(__file__).parents[2] / "results").rglob("*.json")
    ]
    written = [task for task in found if isinstance(task, dict) and "kind" in task]
    assert len(written) > 8
    for task in written:
        read = tasks.read(task).to_dict()
        assert read["kind"] == FORMER.get(task["kind"], task["kind"])
        assert {key: value for key, value in task.items() if key != "kind"}.items() <= read.items()


def test_unknown_kinds_and_settings_are_named() -> None:
    with pytest.raises(ValueError, match='there is no task "sound": there are byte-classes, farthest-point'):
        tasks.read({"kind": "sound"})
    with pytest.raises(ValueError, match=r"a task needs a kind, one of byte-classes, .*; got None"):
        tasks.read({"length": 3})
    with pytest.raises(ValueError, match="the task image-classes has no setting blur; it has dataset"):
        tasks.read({"kind": "image-classes", "blur": 1})
    with pytest.raises(
        ValueError, match=r'"json:loads" is not a task: needed is a subclass of leanformer\.tasks\.Task'
    ):
        tasks.read({"kind": "json:loads"})


def test_a_task_of_an_installed_package_is_read_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    task = tasks.TASKS.get("elsewhere:Mine")(length=5)  # type: ignore[call-arg]
    assert task.to_dict() == {"kind": "elsewhere:Mine", "length": 5}
    program = f"from leanformer import tasks; print(tasks.read({task.to_dict()!r}).length)"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "5\n"


def test_a_task_in_a_file_is_read_by_workers_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CODE", "")
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    task = tasks.TASKS.get(f"{file}:Mine")()
    assert task.to_dict() == {"kind": f"{file}:Mine", "length": 3}
    assert tasks.read(task.to_dict()) == task
    command = [sys.executable, "-c", f"from leanformer import tasks; print(tasks.read({task.to_dict()!r}).length)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3\n", "a worker inherits it"
    monkeypatch.setenv("LEANFORMER_CODE", "")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert f"if you trust it, set LEANFORMER_CODE={file}" in refused.stderr


def test_the_list_of_tasks_imports_no_torch() -> None:
    program = "import sys; from leanformer import tasks; tasks.TASKS.names(); print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_every_name_is_there() -> None:
    assert set(dir(tasks)) >= {"ImageClasses", "NextToken", "Task", "Data", "Metric", "read", "load", "TASKS"}
    for name in dir(tasks):
        assert getattr(tasks, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Stories'"):
        tasks.Stories  # type: ignore[attr-defined]  # noqa: B018


def test_data_are_kept_for_the_next_run() -> None:
    task = tasks.FarthestPoint(dim=4, points=4, held_out=8)
    assert tasks.load(task) is tasks.load(tasks.FarthestPoint(dim=4, points=4, held_out=8))


# Where the data are


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data folder with every public set, and data of the user's own."""
    for name in ("fashion_mnist", "cifar10", "imdb", "aan", "TinyStories", "glue", "images/train/cat", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("a")
    (tmp_path / "texts" / "train.tsv").write_text("text\tlabel\n")
    return tmp_path


@pytest.mark.parametrize(
    ("task", "settings", "path", "expected"),
    [
        ("ImageClasses", {"dataset": "fashion-mnist"}, ".", {"root": "."}),
        ("ImageClasses", {"dataset": "fashion-mnist"}, "fashion_mnist", {"root": "."}),
        ("ImageClasses", {"dataset": "fashion-mnist"}, "images", {"dataset": "images"}),
        ("ImageClasses", {"dataset": "digits"}, "images", {"dataset": "images"}),
        ("ImageClasses", {"dataset": "images"}, "images", {"dataset": "images"}),
        ("ImageClasses", {"dataset": ""}, "images", {"dataset": "images"}),
        ("ImageClasses", {"dataset": "someone/cifar10"}, ".", {"root": "."}),
        ("PixelClasses", {"dataset": "cifar10"}, ".", {"root": "."}),
        ("PixelClasses", {"dataset": "digits"}, "images", {"dataset": "images"}),
        ("NextToken", {"dataset": "tinystories"}, ".", {"root": "."}),
        ("NextToken", {"dataset": "tinystories"}, "TinyStories", {"root": "."}),
        ("NextToken", {"dataset": "tinystories"}, "texts", {"dataset": "texts"}),
        ("NextToken", {"dataset": "pydoc"}, "texts/a.txt", {"dataset": "texts/a.txt"}),
        ("MaskedToken", {"dataset": "pydoc"}, "texts", {"dataset": "texts"}),
        ("ByteClasses", {}, ".", {"root": "."}),
        ("ByteClasses", {}, "texts", {"dataset": "texts"}),
        ("PairClasses", {}, "aan", {"root": "."}),
        ("SentenceClasses", {}, ".", {"root": "."}),
        ("SentenceClasses", {}, "glue", {"root": "."}),
    ],
)
def test_a_path_is_a_root_or_a_data_set(
    task: str,
    settings: dict[str, Any],
    path: str,
    expected: dict[str, str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    before = getattr(tasks, task)(**settings)
    after = before.with_data(path)
    absolute = {key: str((place / value).resolve()) for key, value in expected.items()}
    assert after == type(before)(**{**settings, **absolute})
    assert before == getattr(tasks, task)(**settings)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "ImageClasses",
            {"dataset": "cifar100"},
            "other does not contain the data: needed is the folder cifar100, or CLASS",
        ),
        ("NextToken", {"dataset": "pile"}, r"other does not contain the data: needed is the folder pile, or texts \("),
        ("ByteClasses", {}, "other does not contain the data: needed is the folder imdb, or train and test files"),
        ("PairClasses", {}, r"other does not contain the data: needed is the folder aan, or \*\.train\.tsv"),
        ("SentenceClasses", {}, "other does not contain the data: needed is the folder glue$"),
        ("ListOps", {}, "the task listops makes its own data; it cannot read .*other"),
        ("Pathfinder", {}, "the task pathfinder makes its own data; it cannot read .*other"),
        ("FarthestPoint", {}, "the task farthest-point makes its own data; it cannot read .*other"),
    ],
)
def test_a_path_is_never_ignored(task: str, settings: dict[str, Any], message: str, place: Path) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        getattr(tasks, task)(**settings).with_data(place / "other")
    assert len(str(raised.value).splitlines()) == 1


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file or folder .*nowhere"):
        tasks.NextToken().with_data(tmp_path / "nowhere")


def test_own_data_are_read_in_place_of_embedded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.txt").write_text("\n\n".join(f"story number {index} of many" for index in range(200)))
    data = tasks.NextToken(length=8).with_data(tmp_path / "mine.txt").load()
    assert data.source == f"{tmp_path / 'mine.txt'}, bytes tokenizer"


def test_sets_without_data_here_are_not_available(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match=f"Needed is the folder aan in {tmp_path} with the Long-Range Arena's"):
        tasks.PairClasses(root=str(tmp_path)).load()
