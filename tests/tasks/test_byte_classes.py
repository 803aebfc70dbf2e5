"""Classes of texts read as bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leanformer.tasks.byte_classes import ByteClasses


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


def rows_of(task: Any, split: str) -> list[tuple[list[int], int]]:
    data = task.load()
    part = getattr(data, split)
    ids, lengths = part.padded(np.arange(len(part)), data.length)
    return [(row[:count].tolist(), int(label)) for row, count, label in zip(ids, lengths, part.labels, strict=True)]


def write_texts(folder: Path, rows: list[tuple[str, int]], name: str) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table({"text": [t for t, _ in rows], "label": [y for _, y in rows]}), folder / name)


def test_texts_are_bytes_and_no_part_sees_another(tmp_path: Path) -> None:
    rows = [(f"review {index} é", index % 2) for index in range(300)]
    write_texts(tmp_path / "imdb", [*rows, *rows[:50]], "train-0.parquet")
    write_texts(tmp_path / "imdb", [("a fine test", 1)], "test-0.parquet")
    task = ByteClasses(root=str(tmp_path), length=64)
    train, validation = (rows_of(task, split) for split in ("train", "validation"))
    assert rows_of(task, "test") == [([byte + 1 for byte in b"a fine test"], 1)]
    assert len(train) + len(validation) == 350
    assert not {tuple(ids) for ids, _ in train} & {tuple(ids) for ids, _ in validation}
    assert ([byte + 1 for byte in "review 7 é".encode()], 1) in train + validation
    assert rows_of(ByteClasses(root=str(tmp_path), length=4), "test") == [([byte + 1 for byte in b"a fi"], 1)]
