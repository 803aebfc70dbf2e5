"""A working folder, an environment and a cache that the attackers may spoil; nothing outside is touched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

HOME = "LEANFORMER_FUZZ"
"""The environment variable that names the attackers' folder."""


@contextlib.contextmanager
def isolated(folder: Path) -> Iterator[None]:
    """While it is open, the process works in this folder, with a cache in it and without the user's data."""
    before, threads = Path.cwd(), torch.get_num_threads()
    changes = {"LEANFORMER_CACHE": str(folder / "cache"), HOME: str(folder), "COLUMNS": "200", "HF_HUB_OFFLINE": "1"}
    with mock.patch.dict(os.environ, changes):
        for name in ("LEANFORMER_DATA", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)
        work = folder / "work"
        work.mkdir(exist_ok=True)
        os.chdir(work)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            os.chdir(before)
            torch.set_num_threads(threads)


def home() -> Path:
    return Path(os.environ[HOME])
