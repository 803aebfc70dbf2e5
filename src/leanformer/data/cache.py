"""What is worth making once: drawn data and tokenized texts, kept in a folder, whole or not at all.

The folder is LEANFORMER_CACHE [default: ~/.cache/leanformer]. Standard library and NumPy only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")


def cache_folder() -> Path:
    return Path(os.environ.get("LEANFORMER_CACHE") or "~/.cache/leanformer").expanduser()


def remembered(name: str, key: Any, make: Callable[[Path], None]) -> Path:
    """A folder in the cache that `make` has filled for that key; it is there whole or not at all."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder() / f"{name}-{digest}"
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
                raise ValueError(
                    f"cannot write {folder}: {error}; let LEANFORMER_CACHE name a folder with room"
                ) from error
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    return folder


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Generator[Result, None, None]:
    """The function of each item, in the items' order, a few ahead of what is asked for; items may be endless."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers == 1:
        yield from map(function, items)
        return
    # Forked workers need not import the package again, which takes seconds; they use NumPy alone.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def cached(name: str, key: Mapping[str, Any], make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of that key from the cache; where they are missing or damaged they are made, and put there.

    The cache is the folder LEANFORMER_CACHE [default: ~/.cache/leanformer].
    """
    folder = cache_folder()
    written = json.dumps(key, sort_keys=True)
    path = folder / f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:16]}.npz"
    found = _read(path, written)
    if found is None:
        found = make()
        _write(path, written, found)
    return found


def _read(path: Path, key: str) -> dict[str, np.ndarray] | None:
    """What a cache file holds, if it is whole and of that key."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files if name != "key"} if str(file["key"]) == key else None
    except Exception:  # damaged files fail in many ways, all of them mended by making the data again
        return None


def _write(path: Path, key: str, arrays: Mapping[str, np.ndarray]) -> None:
    """A cache file that is whole or not there at all."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, key=np.array(key), **arrays)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise ValueError(f"cannot write {path}: {error}; let LEANFORMER_CACHE name a folder with room") from error
