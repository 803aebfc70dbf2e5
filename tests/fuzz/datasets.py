"""Broken data sets of every form: refused in one line that names them, or loaded as what they truly are."""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fuzz.isolation import home
from fuzz.outcome import SILENT, WORKED, Wrong, one_line
from leanformer import tasks
from leanformer.data.order import Order, Share
from support.glue import write_glue
from support.permissions import permissions_hold

COUNT = 330

Damage = Callable[[random.Random, Path], bool]
"""Changes a healthy data set; returns whether it must be refused."""


# Healthy sets


def _png(value: int = 100, size: tuple[int, int] = (8, 8)) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", size, value % 256).save(buffer, "png")
    return buffer.getvalue()


def _image_folders(place: Path) -> Any:
    for split, count in (("train", 6), ("val", 3)):
        for name in ("cat", "dog"):
            (place / split / name).mkdir(parents=True)
            for number in range(count):
                (place / split / name / f"{number}.png").write_bytes(_png(20 * number))
    return tasks.ImageClasses(dataset=str(place))


def _image_tables(place: Path) -> Any:
    for split, count in (("train", 12), ("validation", 6)):
        images = [{"bytes": _png(10 * number), "path": None} for number in range(count)]
        table = pa.table({"image": images, "label": [number % 2 for number in range(count)]})
        pq.write_table(table, place / f"{split}-0.parquet")
    return tasks.ImageClasses(dataset=str(place))


def _idx(place: Path) -> Any:
    for split, count in (("train", 12), ("t10k", 6)):
        pixels = np.arange(count * 64, dtype=np.uint8).tobytes()
        (place / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, count, 8, 8) + pixels)
        labels = bytes(number % 10 for number in range(count))
        (place / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + labels)
    return tasks.ImageClasses(dataset=str(place))


def _rows(count: int) -> list[tuple[str, int]]:
    return [(f"text number {number} about something", number % 2) for number in range(count)]


def _labelled_tsv(place: Path) -> Any:
    for split, count in (("train", 60), ("test", 10)):
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in _rows(count))]
        (place / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tasks.ByteClasses(dataset=str(place), length=64)


def _labelled_tables(place: Path) -> Any:
    for split, count in (("train", 60), ("test", 10)):
        texts, labels = zip(*_rows(count), strict=True)
        pq.write_table(pa.table({"text": texts, "label": labels}), place / f"{split}-0.parquet")
    return tasks.ByteClasses(dataset=str(place), length=64)


def _corpus(place: Path) -> Any:
    (place / "train.txt").write_text("\n\n".join(f"a text of number {n} and more" for n in range(60)))
    (place / "validation.txt").write_text("\n\n".join(f"held out {n} and more" for n in range(20)))
    return tasks.NextToken(dataset=str(place), length=16)


def _corpus_tables(place: Path) -> Any:
    for split, count in (("train", 60), ("validation", 20)):
        pq.write_table(
            pa.table({"text": [f"{split} text {n} and more" for n in range(count)]}), place / f"{split}.parquet"
        )
    return tasks.NextToken(dataset=str(place), length=16)


def _glue(place: Path) -> Any:
    write_glue(place, "sst2")
    return tasks.SentenceClasses(name="sst2", root=str(place), tokenizer="wordpiece:300", length=16)


def _pairs(place: Path) -> Any:
    for word in ("train", "eval", "test"):
        lines = [f"{n % 2}.0\tp{n}\tq{n}\tfirst text {n}\tsecond text {n}" for n in range(20)]
        (place / f"new_aan_pairs.{word}.tsv").write_text("\n".join(lines) + "\n")
    return tasks.PairClasses(dataset=str(place), length=32)


HEALTHY: dict[str, tuple[Callable[[Path], Any], int]] = {
    "image folders": (_image_folders, 12),
    "image tables": (_image_tables, 12),
    "idx files": (_idx, 12),
    "labelled tsv": (_labelled_tsv, 0),
    "labelled tables": (_labelled_tables, 0),
    "corpus": (_corpus, 0),
    "corpus tables": (_corpus_tables, 0),
    "glue": (_glue, 40),
    "pairs": (_pairs, 20),
}
"""What makes each form, and its number of training samples; 0 where that is not so simple."""


# Damages


def _files(place: Path, *endings: str) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file() and (not endings or path.suffix in endings))


def _file(draw: random.Random, place: Path) -> Path:
    return draw.choice(_files(place))


def _emptied(draw: random.Random, place: Path) -> bool:
    _file(draw, place).write_bytes(b"")
    return True


def _cut(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(1, len(content) - 1)])
    return file.suffix == ".parquet" or "idx" in file.name


def _noise(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    file.write_bytes(draw.choice([draw.randbytes(500), b"\xff\xfe\x00" * 50, bytes(300)]))
    return file.suffix not in (".txt",) or b"\xff" in file.read_bytes()


def _flipped(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(content))
    return False


def _deleted(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    file.unlink()
    return file.suffix != ".png" and "validation" not in file.name


def _folder_instead(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    file.unlink()
    file.mkdir()
    return file.suffix != ".png" and "validation" not in file.name


def _pipe(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    os.mkfifo(file.with_name(f"a{file.name}"))
    return False


def _dangling(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    file.with_name(f"a{file.name}").symlink_to("/nowhere/else")
    return False


def _all_gone(draw: random.Random, place: Path) -> bool:
    shutil.rmtree(place)
    if draw.random() < 0.5:
        place.mkdir()
    return True


def _huge_line(draw: random.Random, place: Path) -> bool:
    texts = _files(place, ".tsv", ".txt")
    if not texts:
        return _emptied(draw, place)
    with draw.choice(texts).open("a") as file:
        file.write("y" * 3_000_000)
    return texts[0].suffix == ".tsv"


def _without_permission(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    draw.choice([file, file.parent]).chmod(0)
    return True


LABELS: list[Any] = [None, float("nan"), 1.5, -1, 10**6, 2**62, float("inf"), "cat", "", "1.7", [1], True]


def _bad_label(draw: random.Random, place: Path) -> bool:
    """One label that is none."""
    label = draw.choice(LABELS)
    tables, lines, idx = (
        _files(place, ".parquet"),
        _files(place, ".tsv"),
        [f for f in _files(place) if "labels" in f.name],
    )
    if lines:
        file = draw.choice(lines)
        content = file.read_text().splitlines()
        row = draw.randrange(1, len(content))
        cells = content[row].split("\t")
        cells[1 if len(cells) == 2 else 0] = "" if label is None else str(label)
        content[row] = "\t".join(cells)
        file.write_text("\n".join(content) + "\n")
        return True
    if idx:
        file = draw.choice(idx)
        content = bytearray(file.read_bytes())
        content[-1] = 200
        file.write_bytes(bytes(content))
        return True
    if not tables or "label" not in pq.read_schema(tables[0]).names:
        return _emptied(draw, place)
    file = draw.choice(tables)
    columns = pq.read_table(file).to_pydict()
    columns["label"][draw.randrange(len(columns["label"]))] = label
    if not isinstance(label, (int, float, type(None))) or isinstance(label, bool):
        columns["label"] = [label] * len(columns["label"])
    elif isinstance(label, float):
        columns["label"] = list(map(float, columns["label"]))
    pq.write_table(pa.table(columns), file)
    return not isinstance(label, bool)


def _fewer_labels(draw: random.Random, place: Path) -> bool:
    idx = [file for file in _files(place) if "labels" in file.name]
    if not idx:
        return _bad_label(draw, place)
    file = draw.choice(idx)
    count = len(file.read_bytes()) - 8 - draw.choice([1, 3])
    file.write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + file.read_bytes()[8 : 8 + count])
    return True


def _lacking_column(draw: random.Random, place: Path) -> bool:
    tables = _files(place, ".parquet")
    if not tables:
        return _emptied(draw, place)
    file = draw.choice(tables)
    columns = pq.read_table(file).to_pydict()
    columns.pop(draw.choice(list(columns)))
    pq.write_table(pa.table(columns or {"x": [1]}), file)
    return set(columns) != {"sentence", "label"} and set(columns) != {"text"}


def _bad_cell(draw: random.Random, place: Path) -> bool:
    """A text or image that is none."""
    tables = list(_files(place, ".parquet"))
    if not tables:
        return _noise(draw, place)
    file = draw.choice(tables)
    columns = pq.read_table(file).to_pydict()
    name = draw.choice([name for name in columns if name != "label" and name != "idx"])
    columns[name] = draw.choice([[None] * len(columns[name]), [5] * len(columns[name]), [b"\xff"] * len(columns[name])])
    pq.write_table(pa.table(columns), file)
    return True


def _other_compression(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    file.write_bytes(gzip.compress(file.read_bytes()))
    return file.suffix not in (".txt",)


def _bomb(draw: random.Random, place: Path) -> bool:
    images = _files(place, ".png")
    if not images:
        return _noise(draw, place)
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13)
    size = draw.choice([60_000, 2**31 - 1, 0])
    import zlib

    body = b"IHDR" + struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    draw.choice(images).write_bytes(head + body + struct.pack(">I", zlib.crc32(body)) + _png()[33:])
    return True


def _strange_name(draw: random.Random, place: Path) -> bool:
    file = _file(draw, place)
    name = draw.choice(["[red]x", "$x$", "é€", "a b", "-x", "x" * 200, "<b>"])
    shutil.copyfile(file, file.with_name(f"{name}{file.suffix}"))
    return False


def _empty_class(draw: random.Random, place: Path) -> bool:
    if not (place / "train" / "cat").is_dir():
        return _all_gone(draw, place)
    split = draw.choice(["train", "val"])
    (place / split / draw.choice(["empty", "[red]"])).mkdir()
    return True


DAMAGES: dict[str, Damage] = {
    name.removeprefix("_").replace("_", " "): damage
    for name, damage in list(globals().items())
    if name
    in (
        *("_emptied", "_cut", "_noise", "_flipped", "_deleted", "_folder_instead", "_pipe", "_dangling", "_all_gone"),
        *("_huge_line", "_bad_label", "_fewer_labels", "_lacking_column", "_bad_cell", "_other_compression", "_bomb"),
        *("_strange_name", "_empty_class", "_without_permission"),
    )
}


def trial(draw: random.Random) -> tuple[str, str]:
    form, name = draw.choice(list(HEALTHY)), draw.choice(list(DAMAGES))
    place = home() / "data" / f"set-{draw.getrandbits(40):x}"  # a name of its own, since caches are kept by path
    place.mkdir(parents=True)
    task = HEALTHY[form][0](place)
    must_refuse = DAMAGES[name](draw, place)
    what = f"{form}, {name}"
    try:
        with permissions_hold():
            data = task.load()
            batch = next(iter(data.batches(Order(0, 4, data.size), range(1), Share())))
            data.probe_batch(2)
    except (ValueError, OSError) as error:
        return one_line(error, str(place)), what
    except Exception as error:
        error.add_note(what)
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if must_refuse:
        raise Wrong(SILENT, f"{what} was accepted: {data.size} samples, batch {str(batch[-1])[:80]}")
    return WORKED, what
