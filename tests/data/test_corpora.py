"""Corpora: no leaks between the parts, named parts kept, and messages for bad files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leanformer.data import corpora as texts


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


def test_copies_of_a_document_stay_on_one_side(tmp_path: Path) -> None:
    documents = [f"story number {index}" for index in range(200)]
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    (tmp_path / "b.txt").write_text(texts.END.join([*documents[100:], "  story number 3\n"]))
    found = texts.find(str(tmp_path))
    train, held_out = set(found.train()), set(found.held_out())
    assert train | held_out == set(documents)
    assert not train & held_out
    assert 5 < len(held_out) < 40
    assert list(found.train()) == list(found.train())


def test_named_parts_are_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "", "b"]}), tmp_path / "train-0.parquet")
    pq.write_table(pa.table({"text": ["c"]}), tmp_path / "validation-0.parquet")
    found = texts.find(str(tmp_path))
    assert (list(found.train()), list(found.held_out())) == (["a", "b"], ["c"])
    stories = tmp_path / "stories"
    stories.mkdir()
    (stories / "TinyStoriesV2-GPT4-train.txt").write_text(f"one\n{texts.END}\ntwo\n")
    (stories / "TinyStoriesV2-GPT4-valid.txt").write_text("three")
    found = texts.find(str(stories))
    assert (list(found.train()), list(found.held_out())) == (["one", "two"], ["three"])
