"""Runs in this process, one after the other; under torchrun, on all its processes together."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leanformer.runners.base import Listener, execute


@dataclass(frozen=True)
class ThisProcess:
    log_with: str = ""

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        for folder in folders:
            execute(folder, functools.partial(listen, folder), self.log_with)
