"""Tables of samples: parquet, CSV, TSV and JSON lines, read in bounded pieces, with errors that name file and row."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leanformer.data import checks
from leanformer.data.checks import BadData

TOGETHER = 256
"""Rows of a parquet file that are decoded at once."""
LARGEST_GROUP = 4 << 30
"""Bytes of a column in one row group, which is decoded as a whole."""
ENDINGS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""Of all tables that are read."""
DELIMITERS = ",;\t|"
"""What may separate the columns of a CSV file; its first line shows which."""


class Row(NamedTuple):
    """A row's values, and where it is in words."""

    place: str
    values: tuple[Any, ...]
    problem: str = ""
    """What is wrong with the row, if it has no values."""


# Any table


def columns_of(file: Path) -> list[str]:
    """The names of a table's columns. Two of one name are an error."""
    if file.suffix.lower() == ".parquet":
        return parquet_columns(file)
    if file.suffix.lower() in (".csv", ".tsv"):
        names = next(_cells(file), (0, []))[1]
        if not names:
            raise BadData(f"{file} is empty")
    else:
        first = next(_objects(file), None)
        if first is None or first.problem:
            raise BadData(f"{first.place}: {first.problem}" if first else f"{file} is empty")
        names = list(first.values[0]) if isinstance(first.values[0], dict) else ["text"]
    _distinct(names, file)
    return names


def column(file: Path, given: str, usual: Sequence[str], what: str) -> str:
    """The column that holds the texts: the given one, or one of a usual name, or the only one."""
    names = columns_of(file)
    found = among(names, given, usual, str(file)) or (names[0] if len(names) == 1 else "")
    if not found:
        raise unknown_column(names, what, str(file))
    return found


def among(names: Sequence[str], given: str, usual: Sequence[str], source: str) -> str:
    """The given column, which must be there, or the first of a usual name, in capitals or not; else ""."""
    if given:
        _needed([given], names, source)
        return given
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in usual if name in lower), "")


def unknown_column(names: Sequence[str], what: str, source: str) -> BadData:
    return BadData(
        f"{source}: which column holds the {what}? It has {', '.join(names)[:200]}", f"; name it by {{{what}_column}}"
    )


def rows_of(file: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of some columns. A row that cannot be read is returned with its problem; a whole file is an error."""
    _needed(columns, columns_of(file), file)
    kind = file.suffix.lower()
    if kind == ".parquet":
        for number, group in enumerate(parquet_rows(file, columns)):
            for row, values in enumerate(group, start=number * TOGETHER):
                yield Row(f"{file}, row {row}", tuple(values))
    elif kind in (".csv", ".tsv"):
        yield from _csv_rows(file, columns)
    else:
        for found in _objects(file):
            yield found if found.problem else _picked(found, columns)


def _picked(found: Row, columns: Sequence[str]) -> Row:
    (value,) = found.values
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        return Row(found.place, (), f"needed is an object with {', '.join(columns)}, got {checks.shortened(value)}")
    return Row(found.place, tuple(value.get(name) for name in columns))


# Text


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1. A line that is not UTF-8 is named."""
    with checks.reading(file, "text file"), file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(checks.LONGEST_TEXT + 1), b""), start=1):
            if len(line) > checks.LONGEST_TEXT:
                raise BadData(f"{file}, line {number}: it has more than {checks.LONGEST_TEXT:,} bytes; split it up")
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(file, number, line[error.start]) from error


def not_utf8(file: Path, line: int, byte: int) -> BadData:
    return BadData(f"{file} is not UTF-8: line {line:,} has the byte {byte:#04x}; convert the file first")


# CSV and TSV


def _cells(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line that is not blank, with its number. Cells of a TSV file are taken as they are."""
    lines = lines_of(file)
    if file.suffix.lower() == ".tsv":
        for number, line in lines:
            if text := line.rstrip("\r\n"):
                yield number, text.split("\t")
        return
    first = next(lines, None)
    if first is None:
        return
    delimiter = max(DELIMITERS, key=lambda mark: (first[1].count(mark), -DELIMITERS.index(mark)))
    reader = csv.reader((line for _, line in itertools.chain([first], lines)), delimiter=delimiter, strict=True)
    with checks.reading(file, "CSV file"):
        while (found := _next(reader, file)) is not None:
            if found:
                yield reader.line_num, found


def _next(reader: Any, file: Path) -> list[str] | None:
    """The next row. csv limits the size of cells for the whole process, so the limit is raised for one row only."""
    limit = csv.field_size_limit(checks.LONGEST_TEXT)
    try:
        return next(reader, None)
    except csv.Error as error:
        raise BadData(f"{file}, line {reader.line_num}: {error}; are quotes missing or doubled?") from error
    finally:
        csv.field_size_limit(limit)


def _csv_rows(file: Path, columns: Sequence[str]) -> Iterator[Row]:
    cells = _cells(file)
    names = next(cells)[1]
    places = [names.index(column) for column in columns]
    for number, row in cells:
        where = f"{file}, line {number}"
        if len(row) == len(names):
            yield Row(where, tuple(row[place] for place in places))
        else:
            wanted = f"{len(row)} columns instead of {len(names)} ({', '.join(names)[:100]})"
            yield Row(where, (), wanted)


def read_tsv(file: Path, columns: Sequence[str], header: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a tab-separated file with their line numbers. A row with another number of columns is an error."""
    size, lines = 0, lines_of(file)
    names = next(lines, (0, ""))[1].rstrip("\r\n").split("\t") if header else list(columns)
    if names == [""]:
        raise BadData(f"{file} is empty")
    _distinct(names, file)
    _needed(columns, names, file, "its first line has")
    for number, line in lines:
        row = line.rstrip("\r\n").split("\t")
        size += len(line)
        if size > checks.MOST_TEXT:
            raise BadData(f"{file}, line {number}: too many characters to be kept in memory; use fewer")
        if len(row) != len(names):
            raise BadData(f"{file}, line {number}: {len(row)} columns instead of {len(names)} ({', '.join(names)})")
        yield number, dict(zip(names, row, strict=True))


# JSON


def _objects(file: Path) -> Iterator[Row]:
    """The values of JSON lines, or of one JSON list. Blank lines do not count."""
    lines = lines_of(file)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        yield from _listed(file, first[1] + "".join(line for _, line in lines))
        return
    for number, line in itertools.chain([first], lines):
        if line.strip():
            yield _parsed(line, f"{file}, line {number}")


def _parsed(line: str, where: str) -> Row:
    try:
        return Row(where, (json.loads(line),))
    except (ValueError, RecursionError) as error:
        return Row(where, (), f"not JSON ({checks.first_line(error)})")


def _listed(file: Path, text: str) -> Iterator[Row]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadData(f"{file} is not a readable JSON list: {checks.first_line(error)}") from error
    for row, value in enumerate(values):
        yield Row(f"{file}, row {row}", (value,))


# Parquet


def parquet_columns(file: Path) -> list[str]:
    """The names of a parquet file's columns. Two of one name are an error."""
    import pyarrow.parquet as pq

    with checks.reading(file, "parquet file"):
        names = list(pq.read_schema(file).names)
    _distinct(names, file)
    return names


def class_names_of(file: Path, label: str) -> tuple[str, ...]:
    """The classes of a column of numbers, where a parquet file from the hub names them."""
    import pyarrow.parquet as pq

    with checks.reading(file, "parquet file"):
        about = (pq.read_schema(file).metadata or {}).get(b"huggingface", b"{}")
    try:
        names = json.loads(about)["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def parquet_rows(file: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The rows of some columns, a few at a time."""
    import pyarrow.parquet as pq

    _needed(columns, parquet_columns(file), file)
    with checks.reading(file, "parquet file"), pq.ParquetFile(file) as table:
        about = table.metadata
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            for index in range(group.num_columns):
                part = group.column(index)
                if part.path_in_schema in columns and part.total_uncompressed_size > LARGEST_GROUP:
                    raise BadData(
                        f"{file}: row group {number} has {part.total_uncompressed_size:,} bytes in the column "
                        f"{part.path_in_schema}, at most {LARGEST_GROUP:,} are read; write smaller row groups"
                    )
        first = 0
        for batch in table.iter_batches(TOGETHER, columns=list(columns)):
            yield list(zip(*(_values(batch[name], first, name, file) for name in columns), strict=True))
            first += batch.num_rows


def _values(cells: Any, first: int, name: str, file: Path) -> list[Any]:
    """A column as Python's values. A text that is not UTF-8 is named by its row."""
    try:
        return list(cells.to_pylist())
    except UnicodeDecodeError:
        for row, cell in enumerate(cells, start=first):
            try:
                cell.as_py()
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise BadData(
                    f"{file} is not UTF-8: row {row}, column {name}, has the byte {byte:#04x}; convert it first"
                ) from error
        raise


def read_parquet(file: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a parquet file."""
    rows: dict[str, list[Any]] = {name: [] for name in columns}
    size = 0
    for group in parquet_rows(file, columns):
        for name, values in zip(columns, zip(*group, strict=True), strict=True):
            rows[name] += values
            size += sum(len(value) for value in values if isinstance(value, str))
        if size > checks.MOST_TEXT:
            raise BadData(f"{file} has more than {checks.MOST_TEXT:,} characters, which are kept in memory; use fewer")
    return rows


def _needed(columns: Sequence[str], names: Sequence[str], file: Path | str, found: str = "it has") -> None:
    if missing := [name for name in columns if name not in names]:
        raise BadData(f"{file} lacks the column {', '.join(missing)}; {found} {', '.join(names)[:200]}")


def _distinct(names: Sequence[str], file: Path) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise BadData(f"{file} has several columns named {twice[0]}; rename all but one")
