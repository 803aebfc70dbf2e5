"""Folders of images as people have them: flat or split, messy, in any format, with files that cannot be read."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from leanformer.data import image_files
from leanformer.data.image_folders import read
from leanformer.data.labelled_images import Reading
from leanformer.data.order import Share
from leanformer.tasks import ImageClasses


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))


def draw(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value // 2, 0)).save(path)


def flat(place: Path, count: int = 20) -> Path:
    for label, name in enumerate(("cat", "dog", "emu")):
        for index in range(count):
            draw(place / name / f"{index}.png", 70 * label + index)
    return place


def contents(place: Path, **settings: Any) -> list[str]:
    return ImageClasses(dataset=str(place), **settings).load().contents().lines()


# Layouts


def test_a_flat_folder_is_split_by_class(tmp_path: Path) -> None:
    found = read(flat(tmp_path), Reading(held_out=0.25))
    assert found.names == ("cat", "dog", "emu")
    assert np.bincount(found.train.labels).tolist() == [15, 15, 15]
    assert np.bincount(found.held_out.labels).tolist() == [5, 5, 5]
    names = [split.images.name(row) for split in (found.train, found.held_out) for row in range(len(split))]  # type: ignore[union-attr]
    assert len(set(names)) == 60
    again = read(tmp_path, Reading(held_out=0.25))
    assert [again.held_out.images.name(row) for row in range(15)] == names[45:]  # type: ignore[union-attr]
    assert found.source == f"the folder {tmp_path}, 25 % of it held out here"
    assert contents(tmp_path) == [
        f"data: the folder {tmp_path}, 10 % of it held out here: 54 training and 6 held-out images, 3 classes: cat, "
        "dog, emu",
        "note: no held-out images are given: 10 % of each class are held out here, by a fixed shuffle (held_out=0.1)",
    ]


@pytest.mark.parametrize("names", [("train", "val"), ("Train", "Test"), ("training", "valid"), ("train", "dev")])
def test_splits_have_several_names(names: tuple[str, str], tmp_path: Path) -> None:
    for name, count in zip(names, (3, 2), strict=True):
        flat(tmp_path / name, count)
    found = read(tmp_path, Reading())
    assert (len(found.train), len(found.held_out), found.notes) == (9, 6, ())


def test_a_second_held_out_split_is_said_to_be_unused(tmp_path: Path) -> None:
    for name in ("train", "val", "test"):
        flat(tmp_path / name, 2)
    assert read(tmp_path, Reading()).notes == ("test/ is not used: val/ is held out",)


def test_small_classes_keep_a_training_image(tmp_path: Path) -> None:
    for name, count in (("cat", 2), ("dog", 1)):
        for index in range(count):
            draw(tmp_path / name / f"{index}.png")
    with pytest.warns(UserWarning, match="no held-out samples of the class dog"):
        found = read(tmp_path, Reading(held_out=0.9))
    assert (found.train.labels.tolist(), found.held_out.labels.tolist()) == ([0, 1], [0])


# What is left out


def test_other_files_are_counted_and_litter_is_not(tmp_path: Path) -> None:
    flat(tmp_path)
    for name in ("cat/notes.txt", "dog/notes.TXT", "dog/list.json", "emu/README", "cat/.DS_Store", "cat/Thumbs.db"):
        (tmp_path / name).write_bytes(b"x")
    draw(tmp_path / "cat" / ".ipynb_checkpoints" / "0-checkpoint.png")
    draw(tmp_path / "__MACOSX" / "cat" / "0.png")
    found = read(tmp_path, Reading())
    assert found.notes[0] == "left out: 4 files not known as images (.txt 2, .json 1, no ending 1)"
    assert (len(found.train) + len(found.held_out), found.classes) == (60, 3)


def test_images_of_other_kinds_and_empty_classes_are_skipped_if_asked(tmp_path: Path) -> None:
    flat(tmp_path)
    (tmp_path / "fox").mkdir()
    (tmp_path / "cat" / "a.heic").write_bytes(b"x"), (tmp_path / "cat" / "b.svg").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"fox holds no images .*; add some, or remove the class, or set skip_bad"):
        read(tmp_path, Reading())
    (tmp_path / "fox" / "c.heic").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"fox/c\.heic is an image of a kind that is not read"):
        read(tmp_path, Reading())
    (tmp_path / "fox" / "d.png").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"cat/a\.heic is an image of a kind that is not read .*as are 1 more"):
        read(tmp_path, Reading())
    (tmp_path / "fox" / "d.png").unlink()
    found = read(tmp_path, Reading(skip_bad=True))
    assert found.names == ("cat", "dog", "emu")
    assert found.notes[:2] == (
        "left out: the class fox, which has no images",
        "left out: 2 images of kinds that are not read (cat 2)",
    )


@pytest.mark.parametrize("decoded", [False, True])
def test_unreadable_images_are_reported_at_once_or_skipped(
    decoded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if decoded:
        monkeypatch.setattr("leanformer.tasks.image_classes.GIGABYTE", 1)
    for name in ("train", "val"):
        flat(tmp_path / name, 4)
    bad = ["train/cat/0.png", "train/dog/1.png", "train/dog/2.png", "val/emu/3.png"]
    for name in bad:
        (tmp_path / name).write_bytes(b"no image")
    with pytest.raises(ValueError, match="repair or remove such files, or set skip_bad") as raised:
        contents(tmp_path, img_size=8)
    assert all(name in str(raised.value) for name in bad)
    data = ImageClasses(dataset=str(tmp_path), img_size=8, skip_bad=True, workers=0).load()
    assert data.contents().lines() == [
        f"data: the folder {tmp_path}: 9 training and 11 held-out images, 3 classes: cat, dog, emu",
        "note: left out: 4 images that cannot be read (dog 2, cat 1, emu 1)",
    ]
    assert data.found.train.labels.tolist() == [0] * 3 + [1] * 2 + [2] * 4
    assert sum(len(labels) for _, labels in data.held_out_batches(Share())) == 11
    for index in range(4):
        (tmp_path / "train" / "cat" / f"{index}.png").write_bytes(b"")
    with pytest.raises(ValueError, match="no training image of the class cat can be read"):
        contents(tmp_path, img_size=8, skip_bad=True)


def test_images_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = image_files.Files(sorted(flat(tmp_path, 2).rglob("*.png")))
    assert image_files.unreadable(images) == {}
    with monkeypatch.context() as patch:
        patch.setattr(image_files, "decode", lambda *_: pytest.fail("decoded again"))
        assert image_files.unreadable(images) == {}
    images.paths[3].write_bytes(b"now it is damaged")
    assert list(image_files.unreadable(images)) == [3]


# Formats


def test_every_format_that_pillow_writes_and_reads(tmp_path: Path) -> None:
    Image.init()
    image, tried = Image.new("RGB", (32, 32), (200, 100, 50)), []
    for ending, kind in sorted({**Image.registered_extensions(), ".mpo": "MPO"}.items()):
        if kind not in Image.SAVE or kind in image_files.NOT_DECODED or kind in ("PDF", "PALM"):
            continue
        file = tmp_path / f"image{ending}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image.convert("1" if kind in ("XBM", "MSP") else "RGB").save(file, kind)
        except (OSError, ValueError, KeyError):  # the format is of other images, or this build lacks its encoder
            continue
        assert image_files.is_image(file), ending
        assert image_files.decode(file, ending).size == (32, 32) or kind == "ICNS", ending  # which scales it
        tried.append(kind)
    assert {"PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "TGA", "PCX", "SGI", "MPO"} <= set(tried)


def test_no_program_is_started_for_postscript(tmp_path: Path) -> None:
    assert not image_files.is_image(tmp_path / "a.eps")
    assert image_files.is_unread_image(tmp_path / "a.eps")
    (tmp_path / "a.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n")
    with pytest.raises(ValueError, match=r"a\.png is not a readable image: its content is of no known format"):
        image_files.decode(tmp_path / "a.png", "a.png")


# Tables


def test_labels_of_a_table_may_be_words(tmp_path: Path) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    def png(value: int) -> dict[str, Any]:
        buffer = io.BytesIO()
        Image.new("RGB", (4, 4), (value, 0, 0)).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    rows = {"photo": [png(row) for row in range(40)], "animal": [("dog", "cat")[row % 2] for row in range(40)]}
    pq.write_table(pa.table(rows), tmp_path / "mine.parquet")
    for place in (tmp_path, tmp_path / "mine.parquet"):
        data = ImageClasses(dataset=str(place), label_column="animal").load()
        assert (data.found.names, data.size, data.classes) == (("cat", "dog"), 36, 2)
        assert data.images[0, 0, 0, 0] == 0
        assert data.found.train.labels[0] == 1
    with pytest.raises(ValueError, match="needed are a column of images and one of labels, got photo, animal"):
        ImageClasses(dataset=str(tmp_path)).load()
    with pytest.raises(ValueError, match="one of labels named kind, got photo, animal"):
        ImageClasses(dataset=str(tmp_path), label_column="kind").load()
