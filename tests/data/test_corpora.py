"""Corpora: no leaks between the parts, named parts kept, files of every kind, and splits that are stated."""

import csv
import json
from pathlib import Path
from typing import Any

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


# Files of every kind

DOCUMENTS = [f'story {index}, with "quotes", commas\nand a second line é' for index in range(60)]


def write_csv(file: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with file.open("w", encoding="utf-8-sig", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return file


def write_jsonl(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    return file


def write_parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".csv", write_csv),
        (".CSV", write_csv),
        (".jsonl", write_jsonl),
        (".json", lambda file, rows: (file.write_text(json.dumps(rows, indent=1)), file)[1]),
        (".parquet", write_parquet),
        (".tsv", None),
    ],
)
def test_every_kind_of_file_has_the_same_documents(ending: str, write: Any, tmp_path: Path) -> None:
    file = tmp_path / f"mine{ending}"
    if write is None:
        wanted = [text.replace("\n", " ") for text in DOCUMENTS]
        file.write_text("id\tStory\r\n" + "".join(f"{n}\t{text}\r\n" for n, text in enumerate(wanted)), newline="")
    else:
        wanted = DOCUMENTS
        write(file, [{"id": n, "Story": text} for n, text in enumerate(wanted)])
    for place in (file, tmp_path):
        found = texts.find(str(place))
        train, held_out = list(found.train()), list(found.held_out())
        assert sorted(train + held_out) == sorted(wanted)
        assert train == [text for text in wanted if not texts.is_held_out(text)]
        assert found.notes() == (
            "the texts are in the column Story",
            "10 % of the documents are held out, by a hash of each (held_out=0.1)",
        )
    with pytest.raises(ValueError, match=r"lacks the column body; it has id, Story"):
        texts.find(str(file), reading=texts.Reading(text_column="body"))
    assert list(texts.find(str(file), reading=texts.Reading(text_column="Story")).train()) == train


def test_of_a_folder_one_kind_is_read_and_the_rest_is_said(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "part-1.jsonl", [{"text": text} for text in DOCUMENTS])
    (tmp_path / "README.md").write_text("About these data")
    (tmp_path / ".hidden.txt").write_text("nobody's")
    found = texts.find(str(tmp_path))
    assert found.source == f"1 file in {tmp_path}"
    assert found.notes()[0] == "left out: 1 file beside .jsonl (.md 1)"


def test_many_files_are_documents_and_parts_have_names(tmp_path: Path) -> None:
    for index in range(12):
        (tmp_path / f"{index}.txt").write_text(f"article {index}\n\nwith two paragraphs")
    found = texts.find(str(tmp_path))
    assert len([*found.train(), *found.held_out()]) == 12
    assert found.notes()[0] == f"a document is a file, or what {texts.END} separates"
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.txt").write_text(f"{split} one\n\n{split} two")
    found = texts.find(str(tmp_path))
    assert list(found.held_out()) == ["val one\n\nval two"]
    assert len(list(found.train())) == 13
    assert found.notes()[:2] == ("held out: val/a.txt", "not used: test/a.txt")


# Splits


def test_the_share_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"story number {index}" for index in range(400)))
    for share in (0.02, 0.25, 0.5):
        found = texts.find(str(tmp_path / "a.txt"), reading=texts.Reading(held_out=share))
        train, held_out = list(found.train()), list(found.held_out())
        assert len(train) + len(held_out) == 400
        assert len(held_out) == pytest.approx(400 * share, rel=0.2, abs=4)
        assert f"held_out={share:g}" in found.notes()[-1]


def test_a_dozen_documents_have_whole_ones_held_out(tmp_path: Path) -> None:
    for first in range(20):
        documents = [f"document {first} {index} {'word ' * 20}".strip() for index in range(12)]
        (tmp_path / "a.txt").write_text("\n\n".join(documents))
        found = texts.find(str(tmp_path / "a.txt"))
        train, held_out = list(found.train()), list(found.held_out())
        assert sorted(train + held_out) == sorted(documents)
        assert 1 <= len(held_out) <= 4
        assert "10 % of the documents are held out, by a hash of each" in found.notes()[-1]


@pytest.mark.parametrize("text", ["word " * 1000, "one paragraph " * 50 + "\n\n" + "another one " * 50, "line\n" * 900])
def test_few_documents_are_cut_at_the_end(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    found = texts.find(str(tmp_path / "a.txt"))
    train, held_out = " ".join(found.train()).split(), " ".join(found.held_out()).split()
    assert sorted(train + held_out) == sorted(text.split()), "no word is cut"
    assert len(held_out) == pytest.approx(len(text.split()) / 10, rel=0.1)
    assert "too few documents to hold out some of them: the last 10 % of each" in found.notes()[-1]


def test_the_content_decides_the_identity(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.txt").write_text("one\n\ntwo")
    first = texts.find(str(tmp_path / "a.txt")).identity
    assert first == texts.find(str(tmp_path / "elsewhere" / "b.txt")).identity
    assert first != texts.find(str(tmp_path / "a.txt"), reading=texts.Reading(held_out=0.2)).identity
    (tmp_path / "a.txt").write_text("one\n\nten")
    assert first != texts.find(str(tmp_path / "a.txt")).identity


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no texts are named: give a file or a folder with texts \(\.txt"):
        texts.find("")
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(
        ValueError, match="a text file has no columns, so that body names nothing: leave out text_column"
    ):
        texts.find(str(tmp_path / "a.txt"), reading=texts.Reading(text_column="body"))
    write_csv(tmp_path / "a.csv", [{"one": 1, "two": 2}])
    with pytest.raises(
        ValueError, match=r"a\.csv: which column holds the text\? It has one, two; name it by text_column"
    ):
        texts.find(str(tmp_path / "a.csv"))


def test_the_standard_librarys_source_is_split_by_file() -> None:
    found = texts.find("pycode")
    train, held_out = set(found.train()), set(found.held_out())
    assert len(train) + len(held_out) > 300
    assert not train & held_out
    assert sum(map(len, train)) > 5_000_000
    assert 0.03 < sum(map(len, held_out)) / sum(map(len, train)) < 0.3
    assert Path(json.__file__).read_text(encoding="utf-8") in train | held_out
    assert Path(pytest.__file__).read_text(encoding="utf-8") not in train | held_out, "installed packages are no part"
    with pytest.raises(ValueError, match="standard library has no columns"):
        texts.find("pycode", reading=texts.Reading(text_column="text"))
