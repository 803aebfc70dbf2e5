"""Files and folders without permissions: one line that names them, whoever runs the tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from leanformer.experiments.comparison import compare
from support import tiny_run as trained
from support.command import call
from support.permissions import permissions_hold


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison, and a folder with an image, a text and scores."""
    place = tmp_path_factory.mktemp("whole")
    compare(trained.recipe(), arms=["original", "lean"], seeds=1, out=place / "comparison", jobs=1, report=False)
    (place / "images").mkdir()
    Image.new("L", (8, 8)).save(place / "images" / "a.png")
    (place / "scores.csv").write_text("arm,seed,score\noriginal,0,1\nlean,0,2\n")
    return place


RUN = "comparison/lean/seed-0"
CASES = [
    ("comparison/plan.json", ["report", "comparison"]),
    ("comparison", ["report", "comparison"]),
    ("comparison/lean", ["report", "comparison"]),
    (f"{RUN}/result.json", ["report", "comparison"]),
    (f"{RUN}/run.json", ["train", RUN]),
    (f"{RUN}/run.json", ["measure", RUN]),
    (f"{RUN}/model", ["measure", RUN]),
    (f"{RUN}/model/config.json", ["measure", RUN]),
    (f"{RUN}/model/model.safetensors", ["measure", RUN]),
    (f"{RUN}/model/SHA256SUMS", ["measure", RUN]),
    ("images", ["measure", RUN, "--images", "images"]),
    ("images/a.png", ["measure", RUN, "--images", "images"]),
    ("scores.csv", ["judge", "scores.csv", "--margin", "1"]),
    ("images", ["measure", RUN, "--batch", "1", "--out", "images/found"]),
    ("images", ["train", "digits", "--steps", "1", "--out", "images/run"]),
    ("images", ["compare", "digits", "--steps", "1", "--out", "images/found"]),
]
"""What has no permissions, and the command that needs it."""


@pytest.fixture
def closed(whole: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = whole / request.param
    mode = path.stat().st_mode
    path.chmod(0)
    yield path
    path.chmod(mode)


@pytest.mark.parametrize(
    ("closed", "words"), CASES, indirect=["closed"], ids=[f"{words[0]} {closed}" for closed, words in CASES]
)
def test_what_may_not_be_read_or_written_is_named(
    closed: Path, words: list[str], whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(whole)
    with permissions_hold():
        shown = call(*words)
    assert shown.returncode == 2, shown.stderr
    lines = shown.stderr.strip().splitlines()
    assert lines[-1].startswith("leanformer: ")
    assert "Traceback" not in shown.stderr
    named = closed.relative_to(whole)
    assert str(named) in lines[-1] or str(named.parent) in lines[-1]
    assert "ermission" in lines[-1]
