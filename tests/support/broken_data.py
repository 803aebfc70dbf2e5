"""Small whole data sets of every kind of source, and ways to break one of their files."""

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from leanformer.tasks import ByteClasses, ImageClasses, NextToken, PairClasses, SentenceClasses

Make = Callable[[Path], Any]


# Whole data sets


def png(value: int = 0, size: tuple[int, int] = (4, 4), kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (value, 0, 0)).save(buffer, kind)
    return buffer.getvalue()


def folders(place: Path) -> None:
    for split in ("train", "val"):
        for label, name in enumerate(("cat", "dog")):
            (place / split / name).mkdir(parents=True)
            for index in range(2):
                (place / split / name / f"{index}.png").write_bytes(png(10 * label + index))


def idx(place: Path) -> None:
    for kind in ("train", "t10k"):
        (place / f"{kind}-images-idx3-ubyte").write_bytes(idx_bytes((20, 3, 3)))
        (place / f"{kind}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes((20,))))


def idx_bytes(shape: tuple[int, ...], content: int | None = None) -> bytes:
    count = int(np.prod(shape)) if content is None else content
    values = (np.arange(count) % 10).astype(np.uint8).tobytes()
    return bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + values


def cells(count: int = 4) -> list[dict[str, Any]]:
    return [{"bytes": png(index), "path": None} for index in range(count)]


def image_table(place: Path, split: str = "train", **columns: Any) -> None:
    pq.write_table(pa.table({"image": cells(), "label": [0, 1, 0, 1], **columns}), place / f"{split}.parquet")


def image_tables(place: Path) -> None:
    image_table(place), image_table(place, "test")


WORDS = [f"text number {index}" for index in range(40)]


def text_table(place: Path, split: str = "train", **columns: Any) -> None:
    pq.write_table(pa.table({"text": WORDS, "label": [0, 1] * 20, **columns}), place / f"{split}.parquet")


def text_tables(place: Path) -> None:
    text_table(place), text_table(place, "test")


def tsv(place: Path, split: str = "train", rows: list[str] | None = None, header: str = "text\tlabel") -> None:
    rows = [f"{text}\t{index % 2}" for index, text in enumerate(WORDS)] if rows is None else rows
    (place / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")


def tsvs(place: Path) -> None:
    tsv(place), tsv(place, "test")


def pairs(place: Path, word: str = "", rows: list[str] | None = None) -> None:
    rows = [f"{index % 2}.0\tA\tB\tfirst {index}\tsecond" for index in range(4)] if rows is None else rows
    for name in [word] if word else ["train", "eval", "test"]:
        (place / f"aan.{name}.tsv").write_text("".join(row + "\n" for row in rows))


def glue_table(place: Path, split: str = "train", name: str = "sst2", **columns: Any) -> None:
    (place / "glue" / name).mkdir(parents=True, exist_ok=True)
    sentences = {"sentence": WORDS} if name == "sst2" else {"sentence1": WORDS, "sentence2": WORDS}
    labels = [0, 1] * 20 if name == "sst2" else [0.5, 4.0] * 20
    pq.write_table(
        pa.table({**sentences, "label": labels, **columns}), place / "glue" / name / f"{split}-00000.parquet"
    )


def glue(place: Path) -> None:
    for name in ("sst2", "stsb"):
        glue_table(place, name=name), glue_table(place, "validation", name)


def corpus(place: Path) -> None:
    (place / "a.txt").write_text("\n\n".join(word * 20 for word in WORDS))


LOADED: dict[str, tuple[Make, Make]] = {
    "folders": (folders, lambda place: ImageClasses(dataset=str(place)).load()),
    "idx": (idx, lambda place: ImageClasses(dataset=str(place)).load()),
    "images": (image_tables, lambda place: ImageClasses(dataset=str(place)).load()),
    "texts": (text_tables, lambda place: ByteClasses(dataset=str(place), length=16).load()),
    "tsv": (tsvs, lambda place: ByteClasses(dataset=str(place), length=16).load()),
    "pairs": (pairs, lambda place: PairClasses(dataset=str(place), length=16).load()),
    "sst2": (glue, lambda place: SentenceClasses(name="sst2", root=str(place), tokenizer="wordpiece:300").load()),
    "stsb": (glue, lambda place: SentenceClasses(name="stsb", root=str(place), tokenizer="wordpiece:300").load()),
    "corpus": (corpus, lambda place: NextToken(dataset=str(place), length=16).load()),
}
"""For each kind of source: how a whole data set is written, and how it is loaded."""


def put(name: str, content: bytes | str) -> Make:
    def write(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def cut(name: str, share: float) -> Make:
    def write(place: Path) -> None:
        content = (place / name).read_bytes()
        (place / name).write_bytes(content[: int(share * len(content))])

    return write


def link(name: str, target: str) -> Make:
    return lambda place: ((place / name).unlink(missing_ok=True), (place / name).symlink_to(target))


def pipe(name: str) -> Make:
    return lambda place: os.mkfifo(place / name)


def twice(name: str, columns: list[str], values: list[list[Any]]) -> Make:
    return lambda place: pq.write_table(pa.Table.from_arrays([pa.array(v) for v in values], columns), place / name)


def labels(make: Callable[..., None], value: Any, split: str = "train", at: int = 1, **others: Any) -> Make:
    count = 4 if make is image_table else 40
    values = [row % 2 if not isinstance(value, (float, str)) else type(value)(row % 2) for row in range(count)]
    values[at] = value
    return lambda place: make(place, split, label=values, **others)


def line(text: str, split: str = "train") -> Make:
    return lambda place: tsv(place, split, [*(f"{word}\t{n % 2}" for n, word in enumerate(WORDS)), text])


def invalid_utf8(place: Path) -> None:
    raw = pa.array([b"caf\xe9", *(word.encode() for word in WORDS[1:])], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": raw, "label": [0, 1] * 20}), place / "train.parquet")


def labels_as_words(place: Path) -> None:
    image_table(place, label=["0", "1", "0", "1"]), image_table(place, "test", label=["0", "cat", "0", "1"])


def fractions(place: Path) -> None:
    Image.new("F", (4, 4)).save(place / "train" / "cat" / "2.tif")


def nested(place: Path) -> None:
    (place / "set").mkdir()
    for name in ("train", "val"):
        (place / name).rename(place / "set" / name)


def images_alone(place: Path) -> None:
    (place / "train").rename(place.parent / "gone")
    (place / "val").rename(place.parent / "gone too")
    (place / "0.png").write_bytes(png())
