"""Results that are made once and kept on disk: drawn data, trained tokenizers, tokenized texts.

Entries are complete or absent. The folder is LEANFORMER_CACHE [default: ~/.cache/leanformer].
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

DAMAGED = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged file of arrays raises. Making the data again repairs it."""


def cache_folder() -> Path:
    return Path(os.environ.get("LEANFORMER_CACHE") or "~/.cache/leanformer").expanduser()


def cached_folder(name: str, key: Any, make: Callable[[Path], None]) -> Path:
    """A folder in the cache that `make` filled for that key. If it is absent, it is made first."""
    folder = cache_folder() / f"{name}-{_digest(json.dumps(key, sort_keys=True))}"
    if not folder.is_dir():
        aside = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            aside.mkdir(parents=True)
            make(aside)
            aside.rename(folder)
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            if not folder.is_dir():  # another process may have been faster
                raise _unwritable(folder, error) from error
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    return folder


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
    except DAMAGED:
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
