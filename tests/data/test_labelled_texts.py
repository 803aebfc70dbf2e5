"""Labelled texts: tables that are wrong, and sets that are missing."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leanformer.data import labelled_texts
from leanformer.data.hub import NotAvailable


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("words\tlabel\nx\t1\n", "lacks the column text; its first line has words, label"),
        ("text\tlabel\nx\n", r"line 2: 1 columns instead of 2 \(text, label\)"),
        ("text\tlabel\nx\tgood\n", r"train\.tsv, line 2: a label must be a whole number .*, got 'good'"),
        ("", "train.tsv is empty"),
    ],
)
def test_wrong_tables_are_reported(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.tsv").write_text(content)
    (tmp_path / "test.tsv").write_text("text\tlabel\nx\t1\n")
    with pytest.raises(ValueError, match=message):
        labelled_texts.find(str(tmp_path))


def test_missing_texts_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"holds no train file \(\.parquet or \.tsv\)"):
        labelled_texts.find(str(tmp_path))
    (tmp_path / "train.txt").write_text("a text")
    for wrong in (tmp_path / "train.txt", tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="is not a folder; needed is a folder with train and test files"):
            labelled_texts.find(str(wrong))
    monkeypatch.setattr("leanformer.data.hub._unreachable", lambda: "")
    monkeypatch.setattr("datasets.load_dataset", lambda name: (_ for _ in ()).throw(ConnectionError("no network")))
    message = (
        "imdb is not on this machine, and stanfordnlp/imdb could not be downloaded from the hub: no network. Needed is "
        r"the folder imdb in a data folder \(root or LEANFORMER_DATA\) with train and test files"
    )
    with pytest.raises(NotAvailable, match=message):
        labelled_texts.find("imdb")


def test_long_fields_are_read_and_no_limit_is_changed(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    texts = [f"{index} {'x' * 200_000}" for index in range(40)]
    lines = "".join(f"{text}\t{index % 2}\n" for index, text in enumerate(texts))
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\n" + lines)
    found = labelled_texts.find(str(tmp_path))
    assert sorted(text for text, _ in [*found.train, *found.validation]) == sorted(texts)
    assert csv.field_size_limit() == before


def test_labels_that_are_no_whole_numbers_are_named(tmp_path: Path) -> None:
    for split in ("train", "test"):
        pq.write_table(pa.table({"text": ["a", "b"], "label": [1, None]}), tmp_path / f"{split}.parquet")
    with pytest.raises(ValueError, match=r"train\.parquet, row 1: a label must be a whole number .*, got None"):
        labelled_texts.find(str(tmp_path))
