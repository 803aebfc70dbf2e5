"""Broken data sets of every kind of source: each is refused with one line that names the file, or loads."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.broken_data import (
    LOADED,
    WORDS,
    Make,
    cells,
    cut,
    fractions,
    glue_table,
    idx_bytes,
    image_table,
    images_alone,
    invalid_utf8,
    labels,
    labels_as_words,
    line,
    link,
    nested,
    pairs,
    pipe,
    png,
    put,
    text_table,
    tsv,
    twice,
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)


REFUSED: list[tuple[str, str, Make, str]] = [
    # folders of images
    ("folders", "zero bytes", put("train/dog/2.png", b""), r"dog/2\.png is not a readable image"),
    ("folders", "cut png", put("train/dog/2.png", png(1, (64, 64))[:80]), r"dog/2\.png is not a readable image"),
    ("folders", "cut jpeg", put("train/dog/2.jpg", png(1, (64, 64), "JPEG")[:300]), r"dog/2\.jpg is not a readable"),
    ("folders", "text", put("val/dog/2.png", "no image"), r"val/dog/2\.png is not a readable image"),
    (
        "folders",
        "postscript",
        put("train/cat/2.png", "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n"),
        "not a read",
    ),
    ("folders", "zip", put("train/cat/2.png", b"PK\3\4" + bytes(50)), r"cat/2\.png is not a readable image"),
    ("folders", "pipe", pipe("train/dog/x.png"), r"dog/x\.png is a named pipe; needed is a regular file"),
    ("folders", "device", link("train/dog/x.png", "/dev/zero"), r"dog/x\.png is a device or a socket"),
    (
        "folders",
        "link to nothing",
        link("train/dog/x.png", "gone.png"),
        r"x\.png is a link to gone\.png, which does not",
    ),
    ("folders", "class that is gone", link("train/emu", "gone"), r"train/emu is a link to gone, which does not exist"),
    ("folders", "link to itself", link("train/dog/x.png", "x.png"), r"x\.png cannot be read: Too many levels"),
    ("folders", "circle", link("train/dog/up", ".."), r"train/dog/up/.* is a link to a folder that contains it"),
    ("folders", "empty class", lambda p: (p / "train" / "emu").mkdir(), r"train/emu holds no images \(\.png"),
    ("folders", "class in val alone", put("val/emu/0.png", png()), r"val/emu is a class that .*train lacks"),
    ("folders", "image outside", put("train/0.png", png()), r"train/0\.png is an image outside the folders"),
    ("folders", "other kind", put("train/cat/2.heic", b""), r"cat/2\.heic is an image of a kind that is not read"),
    ("folders", "another kind in a class alone", put("train/emu/2.svg", b""), r"emu/2\.svg is an image of a kind that"),
    ("folders", "fractions", fractions, r"cat/2\.tif is an image of fractions"),
    ("folders", "held out alone", lambda p: (p / "train").rename(p / "test"), "has the folder val but no folder train"),
    ("folders", "deeper", nested, r"holds one folder, set, which has the splits: give .*set"),
    ("folders", "images alone", images_alone, "holds no images that can be trained on; needed are CLASS"),
    ("folders", "sizes", put("train/cat/2.png", png(1, (5, 4))), r"images differ in size \(4 × 4, 5 × 4\)"),
    ("folders", "elongated", put("train/cat/2.png", png(1, (1001, 1))), r"cat/2\.png has 1,001 × 1 pixels"),
    ("folders", "newline in a name", put("train/dog/a\nb.png", b"x"), r"dog/a\\nb\.png is not a readable image"),
    ("folders", "markup in a name", put("train/dog/[red]<b>.png", b"x"), r"\[red\]<b>\.png is not a readable image"),
    (
        "folders",
        "name that is no UTF-8",
        put(os.fsdecode(b"train/dog/\xff.png"), b"x"),
        r"\\udcff\.png is not a readable",
    ),
    (
        "folders",
        "file for a split",
        lambda p: (p / "train").rename(p / "gone") and put("train", "x")(p),
        "has the folder val but no folder train",
    ),
    # MNIST's files
    (
        "idx",
        "cut",
        cut("train-images-idx3-ubyte", 0.5),
        r"train-images-idx3-ubyte has .* bytes of content, but its head",
    ),
    ("idx", "longer", put("train-images-idx3-ubyte", idx_bytes((20, 3, 3), 200)), "ubyte has more bytes of content"),
    ("idx", "zero bytes", put("t10k-images-idx3-ubyte", b""), "t10k-images-idx3-ubyte is not a readable idx file"),
    ("idx", "cut gz", cut("t10k-labels-idx1-ubyte.gz", 0.6), r"idx1-ubyte\.gz is not a readable idx file"),
    (
        "idx",
        "damaged gz",
        put("t10k-labels-idx1-ubyte.gz", b"\x1f\x8b\x08\0" + b"\xff" * 30),
        "not a readable idx file",
    ),
    ("idx", "fewer labels", put("train-labels-idx1-ubyte", idx_bytes((15,))), "20 samples and 15 labels"),
    (
        "idx",
        "label 10",
        put("train-labels-idx1-ubyte", idx_bytes((20,))[:-1] + b"\n"),
        "sample 19 has label 10; with 10",
    ),
    (
        "idx",
        "dimensions",
        put("train-images-idx3-ubyte", idx_bytes((20, 9))),
        "not a readable idx file of bytes in 3 dim",
    ),
    (
        "idx",
        "floats",
        put("train-images-idx3-ubyte", b"\0\0\x0d\3" + bytes(12)),
        "not a readable idx file of bytes in 3",
    ),
    (
        "idx",
        "huge",
        put("train-images-idx3-ubyte", bytes([0, 0, 8, 3]) + b"\xff" * 12),
        "by its header; it must be 1 to",
    ),
    ("idx", "no pixels", put("train-images-idx3-ubyte", idx_bytes((20, 0, 3))), "has 0 bytes of content by its header"),
    ("idx", "missing", lambda p: (p / "t10k-images-idx3-ubyte").unlink(), r"lacks t10k-images-idx3-ubyte\.gz"),
    (
        "idx",
        "pipe",
        lambda p: ((p / "t10k-images-idx3-ubyte").unlink(), pipe("t10k-images-idx3-ubyte")(p)),
        "a named pipe",
    ),
    # parquet files of images
    ("images", "zero bytes", put("train.parquet", b""), r"train\.parquet is not a readable parquet file"),
    ("images", "cut", cut("train.parquet", 0.5), r"train\.parquet is not a readable parquet file"),
    (
        "images",
        "cut image",
        lambda p: image_table(p, image=[{"bytes": png()[:40], "path": None}] * 4),
        "parquet, row 0 is n",
    ),
    (
        "images",
        "no image",
        lambda p: image_table(p, image=[None, *cells(3)]),
        r"train\.parquet, row 0: needed are the byt",
    ),
    (
        "images",
        "texts as images",
        lambda p: [image_table(p, split, image=["a"] * 4) for split in ("train", "test")],
        "needed are a column of images and one of",
    ),
    (
        "images",
        "path that is gone",
        lambda p: [
            image_table(p, s, image=[*cells(3), {"bytes": None, "path": "/gone.png"}]) for s in ("train", "test")
        ],
        r"train\.parquet, row 3: there is no file /gone\.png",
    ),
    (
        "images",
        "no labels",
        lambda p: pq.write_table(pa.table({"image": cells()}), p / "train.parquet"),
        "one of labels",
    ),
    ("images", "null", labels(image_table, None), r"train\.parquet, row 1: a label must be a whole number"),
    (
        "images",
        "fraction",
        labels(image_table, 0.5),
        r"train\.parquet, row 1: a label must be a whole number .*got 0\.5",
    ),
    ("images", "NaN", labels(image_table, float("nan")), r"train\.parquet, row 1: a label must be a whole .*got nan"),
    ("images", "new word", labels_as_words, r"test\.parquet, row 1: the class 'cat' has no training samples"),
    ("images", "-1", labels(image_table, -1), r"train\.parquet, row 1 has label -1; labels begin with 0"),
    ("images", "1e20", labels(image_table, 1e20), r"train\.parquet, row 1: a label must be a whole .*got 1e\+20"),
    ("images", "10**9", labels(image_table, 10**9), r"train\.parquet, row 1: a label must be a whole .*got 1000000000"),
    ("images", "gap", labels(image_table, 5), r"train\.parquet, row 1 has label 5, but no training sample has label 2"),
    ("images", "unseen class", labels(image_table, 2, "test"), r"test\.parquet, row 1 has label 2; with 2 classes"),
    ("images", "one class", lambda p: image_table(p, label=[0] * 4), "all samples have one class"),
    ("images", "lists", lambda p: image_table(p, label=[[0], [1], [0], [1]]), r"row 0: a label must be .* got \[0\]"),
    (
        "images",
        "several labels",
        twice("train.parquet", ["image", "label", "label"], [cells(2), [0, 1], [0, 1]]),
        "several",
    ),
    (
        "images",
        "schemas differ",
        lambda p: image_table(p, "train-1", image=["a"] * 4),
        "the parquet files in .* cannot be read as one data",
    ),
    ("images", "no train", lambda p: (p / "train.parquet").unlink(), r"holds no train-\*\.parquet, only test"),
    (
        "images",
        "empty",
        lambda p: image_table(p, image=pa.array([], pa.struct([("bytes", pa.binary())])), label=[]),
        "has no rows",
    ),
    # parquet files of texts
    ("texts", "zero bytes", put("train.parquet", b""), r"train\.parquet is not a readable parquet file"),
    ("texts", "cut", cut("test.parquet", 0.7), r"test\.parquet is not a readable parquet file"),
    ("texts", "pipe", pipe("train-2.parquet"), r"train-2\.parquet is a named pipe"),
    ("texts", "folder", lambda p: ((p / "test.parquet").unlink(), (p / "test.parquet").mkdir()), "holds no test file"),
    (
        "texts",
        "columns",
        lambda p: pq.write_table(pa.table({"a": [1]}), p / "train.parquet"),
        "lacks the column text, label",
    ),
    (
        "texts",
        "several",
        twice("train.parquet", ["text", "text", "label"], [["a"], ["b"], [0]]),
        "several columns named text",
    ),
    (
        "texts",
        "null text",
        lambda p: text_table(p, text=[None, *WORDS[1:]]),
        r"parquet, row 0: needed is a text, got None",
    ),
    ("texts", "numbers", lambda p: text_table(p, text=list(range(40))), r"parquet, row 0: needed is a text, got 0"),
    ("texts", "empty text", lambda p: text_table(p, text=["", *WORDS[1:]]), r"parquet, row 0: the text is empty"),
    ("texts", "not UTF-8", invalid_utf8, r"train\.parquet is not UTF-8: row 0, column text, has the byte 0xe9"),
    ("texts", "null", labels(text_table, None), r"train\.parquet, row 1: a label must be a whole number .*got None"),
    ("texts", "fraction", labels(text_table, 1.5), r"train\.parquet, row 1: a label must be a whole number .*got 1\.5"),
    ("texts", "word", labels(text_table, "good"), r"train\.parquet, row 0: a label must be a whole number, got"),
    ("texts", "gap", labels(text_table, 7), r"train\.parquet, row 1 has label 7, but no training sample has label 2"),
    ("texts", "unseen class", labels(text_table, 2, "test", 3), r"test\.parquet, row 3 has label 2; with 2 classes"),
    ("texts", "one class", lambda p: text_table(p, label=[0] * 40), "all samples have one class"),
    (
        "texts",
        "no rows",
        lambda p: text_table(p, text=pa.array([], pa.string()), label=[]),
        "there are no training samples",
    ),
    (
        "texts",
        "two",
        lambda p: pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 1]}), p / "train.parquet"),
        "too f",
    ),
    # tab-separated texts
    ("tsv", "zero bytes", put("train.tsv", ""), r"train\.tsv is empty"),
    ("tsv", "header alone", put("train.tsv", "text\tlabel\n"), "there are no training samples"),
    ("tsv", "latin", put("train.tsv", "text\tlabel\ncaf\xe9\t1\n".encode("latin-1")), r"train\.tsv is not UTF-8"),
    ("tsv", "utf-16", put("train.tsv", "text\tlabel\na\t1\n".encode("utf-16")), r"train\.tsv is not UTF-8"),
    ("tsv", "several", lambda p: tsv(p, header="text\tlabel\tlabel"), r"train\.tsv has several columns named label"),
    (
        "tsv",
        "commas",
        put("train.tsv", "text,label\na,1\n"),
        r"train\.tsv lacks the column text, label; its first line",
    ),
    ("tsv", "columns", line("a\t1\t2"), r"train\.tsv, line 42: 3 columns instead of 2"),
    ("tsv", "blank line", line(""), r"train\.tsv, line 42: 1 columns instead of 2"),
    ("tsv", "fraction", line("a\t0.5"), r"train\.tsv, line 42: a label must be a whole number .*got '0\.5'"),
    ("tsv", "word", line("a\tgood"), r"train\.tsv, line 42: a label must be a whole number .*got 'good'"),
    ("tsv", "none", line("a\t"), r"train\.tsv, line 42: a label must be a whole number .*got ''"),
    ("tsv", "NaN", line("a\tnan"), r"train\.tsv, line 42: a label must be a whole number"),
    ("tsv", "inf", line("a\tinf"), r"train\.tsv, line 42: a label must be a whole number"),
    ("tsv", "1e20", line("a\t1e20"), r"train\.tsv, line 42: a label must be a whole number"),
    ("tsv", "1_0", line("a\t1_0"), r"train\.tsv, line 42: a label must be a whole number"),
    ("tsv", "-1", line("a\t-1"), r"train\.tsv, line 42 has label -1; labels begin with 0"),
    ("tsv", "unseen class", line("a\t2", "test"), r"test\.tsv, line 42 has label 2; with 2 classes"),
    ("tsv", "empty text", line("\t1"), r"train\.tsv, line 42: the text is empty"),
    # pairs
    ("pairs", "zero bytes", put("aan.eval.tsv", ""), r"aan\.eval\.tsv is empty"),
    (
        "pairs",
        "columns",
        lambda p: pairs(p, "test", ["1\ta\tb\tonly"]),
        r"aan\.test\.tsv, line 1: 4 columns instead of 5",
    ),
    (
        "pairs",
        "label",
        lambda p: pairs(p, "test", ["2\ta\tb\tx\ty"]),
        r"aan\.test\.tsv, line 1: a label is 0 or 1, got 2",
    ),
    (
        "pairs",
        "fraction",
        lambda p: pairs(p, "train", ["0.7\ta\tb\tx\ty"]),
        r"aan\.train\.tsv, line 1: a label must be",
    ),
    ("pairs", "empty text", lambda p: pairs(p, "train", ["1\ta\tb\tx\t"]), r"train\.tsv, line 1: the text is empty"),
    ("pairs", "missing", lambda p: (p / "aan.eval.tsv").unlink(), r"holds no eval file \(\*\.eval\.tsv\)"),
    # GLUE
    ("sst2", "cut", cut("glue/sst2/train-00000.parquet", 0.5), r"train-00000\.parquet is not a readable parquet file"),
    ("sst2", "null", labels(glue_table, None), r"train-00000\.parquet, row 1: a label must be a whole number"),
    ("sst2", "fraction", labels(glue_table, 0.5), r"train-00000\.parquet, row 1: a label must be a whole number"),
    ("sst2", "hidden labels", labels(glue_table, -1, "validation"), r"validation-00000\.parquet, row 1 has label -1"),
    (
        "sst2",
        "null sentence",
        lambda p: glue_table(p, sentence=[None, *WORDS[1:]]),
        "row 0, column sentence: needed is a t",
    ),
    (
        "sst2",
        "no rows",
        lambda p: glue_table(p, "validation", sentence=pa.array([], pa.string()), label=[]),
        "has no rows",
    ),
    ("stsb", "NaN", labels(glue_table, float("nan"), name="stsb"), r"row 1: a label must be a finite number, got nan"),
    ("stsb", "1e39", labels(glue_table, 1e39, name="stsb"), r"row 1: a label must be a finite number, got 1e\+39"),
    ("stsb", "null", labels(glue_table, None, name="stsb"), r"row 1: a label must be a finite number, got None"),
    ("stsb", "words", labels(glue_table, "a", name="stsb"), r"row 0: a label must be a finite number, got '0'"),
    # corpora
    ("corpus", "latin", put("b.txt", "caf\xe9".encode("latin-1")), r"b\.txt is not UTF-8: line 1 has the byte 0xe9"),
    ("corpus", "utf-16", put("b.txt", "text".encode("utf-16")), r"b\.txt is not UTF-8: line 1 has the byte 0xff"),
    ("corpus", "cut letter", put("b.txt", "a\n\né".encode()[:-1]), r"b\.txt is not UTF-8: line 3 has the byte 0xc3"),
    ("corpus", "pipe", pipe("b.txt"), r"b\.txt is a named pipe"),
    ("corpus", "zero bytes", put("a.txt", ""), "the training part has 0 tokens, too few"),
    ("corpus", "one word", put("a.txt", "word"), "part has 5 tokens, too few"),
    ("corpus", "cut parquet", put("a.parquet", b"PAR1x"), r"a\.parquet is not a readable parquet file"),
    (
        "corpus",
        "numbers",
        twice("a.parquet", ["text"], [[1, 2]]),
        r"a\.parquet, row 0: the column text holds 1",
    ),
    ("corpus", "structs", twice("a.parquet", ["text"], [[{"a": 1}]]), r"a\.parquet, row 0: needed is a text"),
    ("corpus", "column", twice("a.parquet", ["a", "b"], [["x"], ["y"]]), r"a\.parquet: which column holds the text\?"),
    ("corpus", "cut json", put("a.jsonl", '{"text": "a"}\n{"text": '), r"a\.jsonl, line 2: not JSON \("),
    (
        "corpus",
        "json of numbers",
        put("a.jsonl", '{"text": "a"}\n3\n'),
        r"a\.jsonl, line 2: needed is an object with text",
    ),
    (
        "corpus",
        "latin json",
        put("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}\n'),
        r"a\.jsonl is not UTF-8: line 2 has the",
    ),
    (
        "corpus",
        "half a letter",
        put("a.jsonl", '{"text": "a \\ud800"}\n'),
        r"a\.jsonl, line 1: the text is not Unicode",
    ),
    ("corpus", "json list", put("a.json", '[{"text": "a"}'), r"a\.json is not a readable JSON list"),
    ("corpus", "csv columns", put("a.csv", "text,other\na,b\nc\n"), r"a\.csv, line 3: 1 columns instead of 2"),
    ("corpus", "open quote", put("a.csv", 'text,other\n"a,b\nc,d\n'), r"a\.csv, line 3: unexpected end of data"),
    (
        "corpus",
        "latin csv",
        put("a.csv", b"text,other\na,b\n\xe9,d\n"),
        r"a\.csv is not UTF-8: line 3 has the byte 0xe9",
    ),
    (
        "corpus",
        "utf-16 csv",
        put("a.csv", "text\na\n".encode("utf-16")),
        r"a\.csv is not UTF-8: line 1 has the byte 0xff",
    ),
    ("corpus", "empty csv", put("a.csv", ""), r"a\.csv is empty"),
    (
        "corpus",
        "held out alone",
        lambda p: (p / "a.txt").rename(p / "a-valid.txt"),
        "there is nothing to train on, only a-",
    ),
    ("corpus", "no texts", lambda p: (p / "a.txt").rename(p / "a.bin"), "holds no texts"),
    ("corpus", "circle", link("up", "."), "up.* is a link to a folder that contains it"),
]
"""Kind of source, what is wrong, how it is made wrong, and what the message says."""

TAKEN: list[tuple[str, str, Make]] = [
    ("folders", "nested folders", put("train/cat/deep/er/2.png", png())),
    ("folders", "folder named like an image", put("train/cat/x.png/2.png", png())),
    ("folders", "capitals", put("train/cat/2.PNG", png())),
    ("folders", "another ending than the content", put("train/cat/2.jpg", png())),
    ("folders", "strange names", put('train/cat/"a" [b]\n$c.png', png())),
    ("folders", "other files", put("train/cat/notes.txt", "a note")),
    ("folders", "linked class", lambda p: ((p / "val" / "dog").rename(p / "dog"), link("val/dog", "../dog")(p))),
    ("images", "whole numbers as floats", labels(image_table, 1.0)),
    ("images", "booleans", lambda p: [image_table(p, s, label=[True, False] * 2) for s in ("train", "test")]),
    ("images", "other splits", lambda p: pq.write_table(pa.table({"a": [1]}), p / "extra.parquet")),
    ("images", "brackets in a name", lambda p: (p / "train.parquet").rename(p / "train-[0].parquet")),
    ("texts", "nested folders", lambda p: ((p / "d").mkdir(), (p / "train.parquet").rename(p / "d" / "train.parquet"))),
    ("texts", "other columns", lambda p: text_table(p, other=WORDS)),
    ("tsv", "whole numbers as floats", line("a\t1.0")),
    ("tsv", "quotes and markup", line('"a" [red] <b>\t1')),
    ("tsv", "windows lines", put("test.tsv", "text\tlabel\r\na\t1\r\n")),
    ("pairs", "one sample", lambda p: pairs(p, "test", ["1\ta\tb\tx\ty"])),
    ("sst2", "one class", lambda p: glue_table(p, label=[1] * 40)),
    ("corpus", "byte order mark", put("a.txt", "\ufeff" + "\n\n".join(word * 20 for word in WORDS))),
    ("corpus", "semicolons", put("a.csv", "text;n\n" + "".join(f'"{word * 20}";1\n' for word in WORDS))),
    ("corpus", "strings of json", put("a.jsonl", "\n".join(f'"{word * 20}"' for word in WORDS))),
    ("corpus", "empty documents", put("b.txt", "\n\n\n\n")),
    ("corpus", "null", lambda p: pq.write_table(pa.table({"text": [None, *(w * 20 for w in WORDS)]}), p / "a.parquet")),
]
"""Unusual data that are right."""


def test_the_tables_are_long() -> None:
    assert len(REFUSED) >= 100
    assert len({(kind, what) for kind, what, _, _ in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize(
    ("kind", "what", "spoil", "message"), REFUSED, ids=[f"{kind}: {what}" for kind, what, *_ in REFUSED]
)
@pytest.mark.filterwarnings("ignore:.*samples of the class")
def test_bad_data_are_refused_with_one_line(kind: str, what: str, spoil: Make, message: str, tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    write, load = LOADED[kind]
    write(place)
    spoil(place)
    with pytest.raises(ValueError, match=message) as raised:
        finished(lambda: load(place))
    said = str(raised.value)
    assert said.isprintable()
    assert str(place) in said, "the message names the file"


@pytest.mark.parametrize("kind", LOADED)
def test_whole_data_are_loaded_without_a_word(kind: str, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    write, load = LOADED[kind]
    write(tmp_path)
    assert load(tmp_path).size > 3
    assert not [str(found.message) for found in recwarn if "samples of the class" in str(found.message)]


@pytest.mark.parametrize(("kind", "what", "change"), TAKEN, ids=[f"{kind}: {what}" for kind, what, _ in TAKEN])
@pytest.mark.filterwarnings("ignore:.*samples of the class")
def test_unusual_data_are_loaded(kind: str, what: str, change: Make, tmp_path: Path) -> None:
    write, load = LOADED[kind]
    write(tmp_path)
    change(tmp_path)
    assert load(tmp_path).size > 2


def finished(run: Callable[[], Any]) -> Any:
    """What a call gives or raises, if it ends within 20 seconds."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((run(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert outcome, "it hangs"
    value, error = outcome[0]
    if error is not None:
        raise error
    return value
