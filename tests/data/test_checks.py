"""The one door: limits, several bad images in one message, folders that cannot be read, and missing classes."""

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from leanformer.data import checks, corpora, image_files, image_sets, labelled_texts, tables
from leanformer.data.labelled_images import ImageSet, LabelledImages
from leanformer.tasks import ImageClasses


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        for label, name in enumerate(("cat", "dog")):
            (tmp_path / split / name).mkdir(parents=True)
            for index in range(8):
                Image.new("RGB", (4, 4), (label, index, 0)).save(tmp_path / split / name / f"{index}.png")
    return tmp_path


def test_all_bad_images_are_reported_at_once(folder: Path) -> None:
    for index in range(7):
        (folder / "train" / "dog" / f"{index}.png").write_bytes(b"x")
    with pytest.raises(ValueError, match="and 2 more, 7 in all") as raised:
        ImageClasses(dataset=str(folder)).load()
    assert [f"dog/{index}.png" in str(raised.value) for index in range(7)] == [True] * 5 + [False] * 2


def test_names_of_classes_are_kept(folder: Path) -> None:
    assert image_sets.find(str(folder)).names == ("cat", "dog")
    assert ImageClasses(dataset=str(folder)).load().found.names == ("cat", "dog")


def test_as_many_labels_as_images() -> None:
    images, labels = torch.zeros(50, 1, 2, 2, dtype=torch.uint8), torch.arange(40) % 2
    with pytest.raises(ValueError, match="here, training split: there are 50 samples and 40 labels"):
        ImageSet(LabelledImages(images, labels), LabelledImages(images[:40], labels), 2, "here")


def test_bombs_are_refused_before_they_are_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("1", (20_000, 20_000)).save(folder / "train" / "cat" / "0.png")
    with pytest.raises(
        ValueError, match=r"cat/0\.png (has 20,000 × 20,000 pixels|is not a readable image: Image size)"
    ):
        ImageClasses(dataset=str(folder), img_size=4).load()
    monkeypatch.setattr(image_files, "MOST_PIXELS", 10)
    with pytest.raises(ValueError, match=r"cat/1\.png has 4 × 4 pixels; an image may have 10"):
        image_files.decode(folder / "train" / "cat" / "1.png", "cat/1.png")


def test_limits_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word {index}" * 10 for index in range(40)]
    for split in ("train", "test"):
        pq.write_table(pa.table({"text": words, "label": [0, 1] * 20}), tmp_path / f"{split}.parquet")
    for home, limit, message in (
        (
            checks,
            "LONGEST_TEXT",
            r"test\.parquet|train\.parquet, row 0: the text has 60 characters, at most 50 are read",
        ),
        (checks, "MOST_TEXT", r"train\.parquet has more than 50 characters, which are kept in memory"),
        (tables, "LARGEST_GROUP", r"train\.parquet: row group 0 has .* bytes in the column text, at most 50 are read"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(home, limit, 50)
            with pytest.raises(ValueError, match=message):
                labelled_texts.find(str(tmp_path))


def test_limits_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x" * 100)
    monkeypatch.setattr(checks, "LONGEST_TEXT", 50)
    monkeypatch.setattr(corpora, "CHUNK", 7)
    with pytest.raises(ValueError, match=r"a\.txt has a document of more than 50 characters; separate documents"):
        list(corpora.find(str(tmp_path)).train())
    monkeypatch.setattr(image_sets, "LARGEST_IDX", 50)
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 100]) + bytes(100)))
    with pytest.raises(ValueError, match=r"x\.gz has 100 bytes of content by its header; it must be 1 to 50"):
        image_sets._read_idx(tmp_path, "x", 1)


@pytest.mark.parametrize("chunk", [1, 5, 13, 1000])
@pytest.mark.parametrize("separator", ["\n\n", corpora.END, "\n\n\n"])
def test_chunks_have_the_documents_of_the_whole(
    chunk: int, separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = separator.join(["one\r\ntwo", " é\n ", "", "three", "中文" * 5, "end\n"])
    (tmp_path / "a.txt").write_bytes(text.encode())
    monkeypatch.setattr(corpora, "CHUNK", chunk)
    read = (tmp_path / "a.txt").read_text()
    whole = read.split(corpora.END) if corpora.END in read else read.split("\n\n")
    assert list(corpora._from_text(tmp_path / "a.txt")) == [piece.strip() for piece in whole if piece.strip()]


def test_a_folder_that_cannot_be_listed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(place: Any) -> Any:
        if Path(place).name == "dog":
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ValueError, match=r"train/dog cannot be read: Permission denied; make it readable or remove it"):
        ImageClasses(dataset=str(folder)).load()


def test_classes_that_a_split_lacks_are_reported(folder: Path) -> None:
    for file in (folder / "val" / "dog").iterdir():
        file.unlink()
    with pytest.warns(UserWarning, match="no held-out samples of the class dog"):
        image_sets.find(str(folder))
