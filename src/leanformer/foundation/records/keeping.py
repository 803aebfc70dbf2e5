"""Writing results so that none is lost: if a file cannot be written where it belongs, it is written elsewhere."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from leanformer.foundation.records import NotWritten
from leanformer.foundation.records.base import Record
from leanformer.foundation.records.views import view_of


def publish(
    record: Record,
    path: Path,
    *,
    report: bool = True,
    say: Callable[[str], None] = lambda message: None,
) -> None:
    """Write a result to its file, with its pages and figures beside it, and say where they are.

    Args:
        record: the result.
        path: its file.
        report: whether to write pages and figures too.
        say: receives one message that names the files.
    """
    if keep(record, path) != path:
        return
    files = [path]
    if report:
        try:
            files += view_of(record.kind).write(record, path.parent)
        except Exception as error:  # whatever fails in drawing, the caller still gets the result
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError) and error.strerror:
                why = ": ".join(filter(None, (str(error.filename2 or error.filename or ""), error.strerror)))
            warnings.warn(f"the report beside {path} could not be written: {why}", NotWritten, stacklevel=2)
    from leanformer.foundation.storage import shown

    say(f"written: {shown(path.parent)}{os.sep}{', '.join(str(file.relative_to(path.parent)) for file in files)}")


def keep(record: Record, path: Path) -> Path:
    """Write a record. If that fails, write it to the current or the temporary folder, and warn; returns its file."""
    try:
        record.write(path)
        return path
    except OSError as error:
        why = error.strerror or str(error)
    for other in _elsewhere(path):
        try:
            record.write(other)
        except OSError:
            continue
        warnings.warn(f"{path} could not be written: {why}; the record is in {other}", NotWritten, stacklevel=3)
        return other
    raise OSError(f"{path} could not be written: {why}; nor could a copy in the current or the temporary folder")


def _elsewhere(path: Path) -> Iterator[Path]:
    """Files that do not exist yet, in folders that may be on other disks."""
    name = f"{path.resolve().parent.name}-{path.stem}"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        taken = {other.name for other in folder.glob(f"{name}*{path.suffix}")}
        numbered = (f"{name}{f'-{number}' if number else ''}{path.suffix}" for number in range(len(taken) + 1))
        yield folder / next(candidate for candidate in numbered if candidate not in taken)
