"""A task on the part of its training samples that settings are tuned on, which no verdict sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.tasks.base import Data, Task, read


@dataclass(frozen=True, kw_only=True)
class TuningPart(Task):
    """Another task without its held-out samples: some of the training samples take their place."""

    of: Task
    """The task whose settings are tuned."""

    def __post_init__(self) -> None:
        if isinstance(self.of, Mapping):  # as a record gives it back
            object.__setattr__(self, "of", read(self.of))

    def load(self) -> Data:
        return self.of.load().for_tuning()

    def with_data(self, path: str | Path) -> TuningPart:
        return TuningPart(of=self.of.with_data(path))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "tuning-part", "of": self.of.to_dict()}
