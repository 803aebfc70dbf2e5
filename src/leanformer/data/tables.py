"""Tables of samples: parquet and tab-separated files, read in bounded pieces, with errors that name the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leanformer.data import checks
from leanformer.data.checks import BadData

TOGETHER = 256
"""Rows of a parquet file that are decoded at once."""
LARGEST_GROUP = 4 << 30
"""Bytes of a column in one row group, which is decoded as a whole."""


def parquet_columns(file: Path) -> list[str]:
    """The names of a parquet file's columns. Two of one name are an error."""
    import pyarrow.parquet as pq

    with checks.reading(file, "parquet file"):
        names = list(pq.read_schema(file).names)
    _distinct(names, file)
    return names


def parquet_rows(file: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The rows of some columns, a few at a time."""
    import pyarrow.parquet as pq

    _needed(columns, parquet_columns(file), file)
    with checks.reading(file, "parquet file"), pq.ParquetFile(file) as table:
        about = table.metadata
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            for column in (group.column(index) for index in range(group.num_columns)):
                if column.path_in_schema in columns and column.total_uncompressed_size > LARGEST_GROUP:
                    raise BadData(
                        f"{file}: row group {number} has {column.total_uncompressed_size:,} bytes in the column "
                        f"{column.path_in_schema}, at most {LARGEST_GROUP:,} are read; write smaller row groups"
                    )
        for batch in table.iter_batches(TOGETHER, columns=list(columns)):
            yield list(zip(*(batch[column].to_pylist() for column in columns), strict=True))


def read_parquet(file: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a parquet file."""
    rows: dict[str, list[Any]] = {column: [] for column in columns}
    size = 0
    for group in parquet_rows(file, columns):
        for column, values in zip(columns, zip(*group, strict=True), strict=True):
            rows[column] += values
            size += sum(len(value) for value in values if isinstance(value, str))
        if size > checks.MOST_TEXT:
            raise BadData(f"{file} has more than {checks.MOST_TEXT:,} characters, which are kept in memory; use fewer")
    return rows


def read_tsv(file: Path, columns: Sequence[str], header: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a tab-separated file with their line numbers. A row with another number of columns is an error."""
    with checks.reading(file, "tab-separated file"), file.open(encoding="utf-8") as opened:
        size = 0
        # csv limits the size of fields for the whole process, so lines are cut here
        lines = iter(lambda: opened.readline(checks.LONGEST_TEXT + 1), "")
        names = next(lines, "").rstrip("\n").split("\t") if header else list(columns)
        if names == [""]:
            raise BadData(f"{file} is empty")
        _distinct(names, file)
        _needed(columns, names, file, "its first line has")
        for number, line in enumerate(lines, start=2 if header else 1):
            row = line.rstrip("\n").split("\t")
            size += len(line)
            if len(line) > checks.LONGEST_TEXT or size > checks.MOST_TEXT:
                raise BadData(f"{file}, line {number}: too many characters to be kept in memory; use fewer")
            if len(row) != len(names):
                raise BadData(f"{file}, line {number}: {len(row)} columns instead of {len(names)} ({', '.join(names)})")
            yield number, dict(zip(names, row, strict=True))


def _needed(columns: Sequence[str], names: Sequence[str], file: Path, found: str = "it has") -> None:
    if missing := [column for column in columns if column not in names]:
        raise BadData(f"{file} lacks the column {', '.join(missing)}; {found} {', '.join(names)[:200]}")


def _distinct(names: Sequence[str], file: Path) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise BadData(f"{file} has several columns named {twice[0]}; rename all but one")
