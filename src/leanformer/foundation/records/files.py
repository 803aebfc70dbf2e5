"""Files that records live in: written whole or not at all, read with errors that name the file and the remedy."""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from leanformer.foundation.leases import FolderShelf, Held, Lease, leased, owner_in

HALF_WRITTEN = ".*.part"
"""Files that are being written, or that a kill left so."""
MANY = 100
"""Files from which on they are put onto the disk together."""


def plain(value: Any) -> Any:
    """The value as strict JSON can hold it: infinities become the strings "inf" and "-inf", tuples become lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def as_json(value: Any, indent: int | None = 2) -> str:
    """Strict JSON; NaN is an error."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    write_text(path, as_json(value, indent) + "\n")


def write_lines(path: Path, values: list[Any]) -> None:
    """One line of JSON for each value."""
    write_text(path, "".join(as_json(value, indent=None) + "\n" for value in values))


def append_line(path: Path, value: Any) -> None:
    """Add one line of JSON. A kill may cut it off: `read_lines` passes over a last line that is not whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # to open a pipe would wait for somebody who reads it
        raise ValueError(f"{path} is not a plain file: remove it")
    with path.open("a", encoding="utf-8") as file:
        file.write(as_json(value, indent=None) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file so that readers see the old or the new one, never half of it."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write many text files, each whole or not at all. All of them are on the disk before the first gets its name."""
    asides = {path: _aside(path) for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            asides[path].write_text(text, encoding="utf-8")
        flush_all(list(asides.values()))
        for path, aside in asides.items():
            os.replace(aside, path)
    except OSError:
        for aside in asides.values():
            aside.unlink(missing_ok=True)
        raise
    flush_all(list(dict.fromkeys(path.parent for path in texts)))


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write a file to. At the end it takes the place of the old one as a whole, and is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    try:
        yield aside
        flush(aside)
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    flush(path.parent)


def flush(path: Path) -> None:
    """Have the operating system put a file or folder onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(paths: Sequence[Path]) -> None:
    """The same for many: to put everything onto the disk once is then quicker than each of them."""
    if len(paths) > MANY and hasattr(os, "sync"):
        os.sync()
        return
    for path in paths:
        flush(path)


def read_json(path: Path) -> Any:
    """What a JSON file holds, or a `ValueError` that names the file, the place and the reason."""
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: byte {error.start} is not UTF-8") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: it is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{path} is damaged: it holds a number that is too long") from error


def read_text(path: Path) -> str:
    """The text of a file. A pipe or a device could be read without end, so only plain files are read."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(kind):
        raise ValueError(f"{path} is damaged: it is not a plain file")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def with_usual_mode(path: Path) -> None:
    """Let others read a file as they may read any new one; safetensors writes files for their owner alone."""
    example = path.with_name(f".{path.name}.{os.getpid()}.mode")
    with suppress(OSError):  # some file systems have no modes
        example.touch()
        path.chmod(example.stat().st_mode & 0o777)
        example.unlink()


def read_lines(path: Path) -> Iterator[Any]:
    """The values of a file of JSON lines; nothing if there is no such file."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):  # cut off by a kill, or damaged
            continue


@contextmanager
def locked(folder: Path, name: str = ".lock") -> Iterator[Lease]:
    """Keep other processes out of a folder, those of this host and those of others that see it.

    A lock of the file system keeps out those of this host, and is lifted when the process ends, however it ends. Not
    all network file systems have such locks, or share them between hosts: a lease does that part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / name, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise Held(f"another process is working in {folder}: wait for it, or choose another folder") from None
    except NotImplementedError:
        pass  # a file system without locks: the lease alone keeps others out
    try:
        with leased(FolderShelf(folder), f"{name}ed-by", str(folder)) as lease:
            yield lease
    finally:
        lock.release()


SILENT = 15 * 60
"""Seconds without any change after which a process of another host is shown as dead."""


def worker_in(folder: Path, name: str = ".lock") -> str:
    """Host and process that work in a folder, as "host 123"; empty if none does.

    The lock itself is not tried, since that could keep out a process that starts now. A process of another host cannot
    be looked at: it is believed to be alive while something in the folder changes.
    """
    try:
        owner = owner_in(FolderShelf(folder), f"{name}ed-by")
        alive = owner is not None and (owner.is_of_this_host or _is_fresh(folder))
    except OSError:
        return ""
    return str(owner) if alive else ""


def _is_fresh(folder: Path) -> bool:
    return time.time() - max(path.stat().st_mtime for path in folder.iterdir()) < SILENT


def number(value: Any) -> float:
    """A number back from its plain form."""
    return float(value)
