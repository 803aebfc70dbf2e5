"""Classification of texts read byte by byte: IMDb's reviews, or any labelled texts in parquet or tsv files."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leanformer.data.corpora import is_held_out
from leanformer.data.locations import shown
from leanformer.tasks.base import Task
from leanformer.tasks.sequence_classes import Ragged, SequenceData

Row = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class ByteClasses(Task):
    """Which texts, and how many bytes of each are read."""

    dataset: str = "imdb"
    """imdb, or a folder with train and test files (.parquet or .tsv) that have the columns text and label."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    length: int = 4000
    """Bytes read of each text."""

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1 byte, got {self.length}")

    def load(self) -> SequenceData:
        folder = local(self.dataset, self.root)
        if folder is None:
            rows, source = _from_hub(self.dataset)
        else:
            rows = {split: list(read_rows(folder, split)) for split in ("train", "test")}
            source = f"{self.dataset} in {shown(folder)}"
        classes = 1 + max(label for _, label in rows["train"])
        for split, listed in rows.items():
            if wrong := next(((n, label) for n, (_, label) in enumerate(listed) if not 0 <= label < classes), None):
                raise ValueError(
                    f"{source}: {split} row {wrong[0]} has label {wrong[1]}; training has 0 to {classes - 1}"
                )
        validation = [row for row in rows["train"] if is_held_out(row[0])]
        train = [row for row in rows["train"] if not is_held_out(row[0])]
        if not train or not validation or not rows["test"]:
            raise ValueError(f"{source}: {len(rows['train'])} training and {len(rows['test'])} test texts are too few")
        parts = [self._ragged(listed) for listed in (train, validation, rows["test"])]
        return SequenceData(f"{source}, as bytes", parts, self.length, {"num_labels": classes})

    def _ragged(self, rows: list[Row]) -> Ragged:
        return Ragged.of([text.encode() for text, _ in rows], [label for _, label in rows], self.length)


def local(dataset: str, root: str | None) -> Path | None:
    """The data set's folder on this machine: itself one, or one of that name in the data folder."""
    if Path(dataset).expanduser().is_dir():
        return Path(dataset).expanduser()
    root = root or os.environ.get("LEANFORMER_DATA")
    if root is not None and not Path(root).is_dir():
        raise ValueError(f"the data folder {root} does not exist (--data or LEANFORMER_DATA)")
    return Path(root) / dataset if root is not None and (Path(root) / dataset).is_dir() else None


def read_rows(folder: Path, split: str) -> Iterator[Row]:
    """Texts and labels of a split's parquet or tsv files."""
    files = sorted(file for file in folder.rglob(f"{split}*") if file.suffix in (".parquet", ".tsv"))
    if not files:
        raise ValueError(f"{folder} holds no {split} file (.parquet or .tsv)")
    for file in files:
        if file.suffix == ".tsv":
            yield from (
                (row["text"], whole_number(row["label"], file, line)) for line, row in read_tsv(file, ("text", "label"))
            )
        else:
            import pyarrow.parquet as pq

            names = pq.read_schema(file).names
            if missing := {"text", "label"} - set(names):
                raise ValueError(f"{file} lacks the column {', '.join(sorted(missing))}; it has {', '.join(names)}")
            table = pq.read_table(file, columns=["text", "label"])
            yield from zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True)


def read_tsv(file: Path, columns: tuple[str, ...], header: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a tab-separated file with their line numbers; a row with too few columns is told."""
    csv.field_size_limit(1 << 30)
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)
            names = next(rows, None) if header else list(columns)
            if names is None:
                raise ValueError(f"{file} is empty")
            if missing := [column for column in columns if column not in names]:
                raise ValueError(f"{file} lacks the column {', '.join(missing)}; its first line has {', '.join(names)}")
            for line, row in enumerate(rows, start=2 if header else 1):
                if len(row) != len(names):
                    raise ValueError(
                        f"{file}, line {line}: {len(row)} columns instead of {len(names)} ({', '.join(names)})"
                    )
                yield line, dict(zip(names, row, strict=True))
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise ValueError(f"{file} is not UTF-8: byte {found:#04x}; convert it first") from error


def whole_number(text: str, file: Path, line: int) -> int:
    try:
        return int(float(text))
    except ValueError:
        raise ValueError(f'{file}, line {line}: a label must be a number, got "{text}"') from None


def _from_hub(name: str) -> tuple[dict[str, list[Row]], str]:
    import datasets

    hub = {"imdb": "stanfordnlp/imdb"}.get(name, name)
    try:
        loaded = datasets.load_dataset(hub)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{name} is not on this machine and the hub did not give {hub}: {reason}. Needed is a folder {name} with "
            f"train and test files in LEANFORMER_DATA (or --data), or a network"
        ) from error
    rows = {split: list(zip(loaded[split]["text"], loaded[split]["label"], strict=True)) for split in ("train", "test")}
    return rows, f"{hub} from the hub"
