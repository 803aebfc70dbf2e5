"""Results that are made once and kept on disk: drawn data, trained tokenizers, tokenized texts.

Entries are complete or absent. The folder is LEANFORMER_CACHE [default: ~/.cache/leanformer].
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leanformer.foundation.machine import cache_folder
from leanformer.foundation.records.files import read_json, write_json

SUMS = "sums.json"
"""In each cached folder: size and checksum of every other file."""
SUMMED = 1 << 29
"""Bytes at the beginning and at the end of a file that its checksum covers."""
CHUNK = 1 << 22


def cached_folder(
    name: str, key: Any, make: Callable[[Path], None], whole: Callable[[Path], bool] = lambda folder: True
) -> Path:
    """A folder in the cache that `make` filled for that key. If it is absent or damaged, it is made first.

    Args:
        name: of its kind.
        key: what decides its content.
        make: fills a folder.
        whole: whether a folder of version 0.1, which has no checksums, is complete. It may raise any exception.
    """
    folder = cache_folder() / f"{name}-{_digest(json.dumps(key, sort_keys=True))}"
    if _verified(folder, whole):
        return folder
    _sweep(folder)
    aside = folder.with_name(f".{folder.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        make(aside)
        write_json(aside / SUMS, _sums(aside))
        _remove(folder)
        aside.rename(folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        if not _verified(folder, whole):  # another process may have been faster
            raise _unwritable(folder, error) from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return folder


def _verified(folder: Path, whole: Callable[[Path], bool]) -> bool:
    """Whether a folder has the content that was written. A folder of version 0.1 gets its checksums here."""
    if not folder.is_dir():
        return False
    try:
        if (folder / SUMS).is_file():
            return bool(read_json(folder / SUMS) == _sums(folder))
        if not whole(folder):
            return False
        with contextlib.suppress(OSError):  # a cache that cannot be written to is still good to read
            write_json(folder / SUMS, _sums(folder))
        return True
    except Exception:  # a damaged file can make its reader raise anything
        return False


def _sums(folder: Path) -> dict[str, list[int]]:
    """Size and checksum of each file."""
    return {
        file.name: [file.stat().st_size, _checksum(file)]
        for file in sorted(folder.iterdir())
        if file.name != SUMS and not file.name.startswith(".")
    }


def _checksum(file: Path) -> int:
    """Of the whole file; of a very large one, of its beginning and its end."""
    size, found = file.stat().st_size, 0
    parts = [(0, size)] if size <= 2 * SUMMED else [(0, SUMMED), (size - SUMMED, size)]
    with file.open("rb") as opened:
        for start, stop in parts:
            opened.seek(start)
            for place in range(start, stop, CHUNK):
                found = zlib.crc32(opened.read(min(CHUNK, stop - place)), found)
    return found


def _remove(folder: Path) -> None:
    """Remove a damaged folder. It is renamed first, so that no process sees a part of it."""
    if folder.exists():
        damaged = folder.with_name(f".{folder.name}.damaged.{os.getpid()}")
        folder.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what killed processes of this machine left of the same entry."""
    for left in folder.parent.glob(f".{folder.name}.{socket.gethostname()}.*"):
        process = left.name.rpartition(".")[2]
        if process.isdigit() and int(process) != os.getpid() and not _is_running(int(process)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def cached_arrays(
    name: str, key: Mapping[str, Any], make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of that key from the cache. If they are absent or damaged, they are made and stored first."""
    written = json.dumps(key, sort_keys=True)
    path = cache_folder() / f"{name}-{_digest(written)}.npz"
    found = _read(path, written)
    if found is None:
        found = make()
        _write(path, written, found)
    return found


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _read(path: Path, key: str) -> dict[str, np.ndarray] | None:
    """The arrays of a cache file, if it is complete and belongs to that key."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files if name != "key"} if str(file["key"]) == key else None
    except Exception:  # a damaged file can make its reader raise anything; making the data again repairs it
        return None


def _write(path: Path, key: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a cache file completely or not at all."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, key=np.array(key), **arrays)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ValueError:
    return ValueError(f"cannot write {path}: {error}; set LEANFORMER_CACHE to a folder with free space")
