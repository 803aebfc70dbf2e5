"""A share to hold out is used, or refused in one line: by every task, as an argument, a setting and an option."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leanformer as lf
from support.command import call
from support.texts import reviews, write_table

QUICK: dict[str, Any] = dict(arms="lean", seeds=1, steps=1, jobs=1, report=False, progress=False)
SMALL = "depth=2,heads=2,head_dim=8,width=16,mlp_dim=32"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))


def split_texts(folder: Path) -> None:
    for name, count in (("train", 200), ("validation", 40)):
        write_table(folder / f"{name}.csv", ("text", "label"), list(reviews(count)))


def split_images(folder: Path) -> None:
    for split in ("train", "val"):
        for number in range(4):
            (folder / split / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
            pixels = np.full((8, 8, 3), 40 * number, dtype=np.uint8)
            Image.fromarray(pixels).save(folder / split / "ab"[number % 2] / f"{number}.png")


WRITE = {"texts": split_texts, "texts-masked": split_texts, "classify": split_texts, "images": split_images}


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("recipe", WRITE)
def test_data_with_a_held_out_part_refuse_a_share(recipe: str, share: float, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    WRITE[recipe](tmp_path / "data")
    given = {"data": tmp_path / "data", "out": tmp_path / "out", **QUICK}
    for asked in ({"held_out": share}, {"settings": {"task.held_out": share}}):
        with pytest.raises(ValueError, match=r"of its own: leave held_out out$") as refused:
            lf.compare(recipe, **given, **asked)
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    shown = call(
        "compare", recipe, "--data", str(tmp_path / "data"), "--held-out", str(share), "--out", str(tmp_path / "out")
    )
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[-1].endswith("of its own: leave --held-out out")


def test_without_a_share_the_part_is_used_and_records_of_it_are_resumed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    split_texts(tmp_path / "data")
    given = {"data": tmp_path / "data", "out": tmp_path / "out", "original": SMALL, "lean": "depth=1", **QUICK}
    first = lf.compare("classify", **given)
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["task"]["held_out"] == 0.1
    assert lf.compare("classify", **given).runs == first.runs


def test_a_share_is_used_where_there_is_no_part(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", ("text", "label"), list(reviews(200)))
    said: list[str] = []
    lf.compare(
        "classify",
        data=file,
        held_out=0.3,
        original=SMALL,
        lean="depth=1",
        out=tmp_path / "out",
        say=said.append,
        **QUICK,
    )
    assert "140 training and 60 held-out texts" in "\n".join(said)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("farthest", "held_out must be a whole number of at least 1, got 0.2"),
        ("listops", "held_out does not go with the task listops of listops"),
        ("pathfinder", "held_out does not go with the task pathfinder of pathfinder"),
    ],
)
def test_tasks_that_make_their_own_data_refuse_a_share(recipe: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        lf.compare(recipe, held_out=0.2, out=tmp_path / "out", **QUICK)
