"""ListOps: the value of nested expressions of MIN, MAX, MED and SM, drawn here as the Long-Range Arena draws them."""

from __future__ import annotations

from dataclasses import dataclass

from leanformer.data import listops
from leanformer.tasks.sequence_classes import Drawn, SequenceData


@dataclass(frozen=True, kw_only=True)
class ListOps(Drawn):
    """Which expressions, and how many; by default the published lengths and numbers."""

    min_length: int = 500
    """Expressions have more tokens than this …"""
    max_length: int = 2000
    """… and fewer than this."""
    train: int = 96_000
    validation: int = 2_000
    test: int = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings()

    def _settings(self) -> listops.ListOpsSettings:
        return listops.ListOpsSettings(min_length=self.min_length, max_length=self.max_length)

    def load(self) -> SequenceData:
        counts = (self.train, self.validation, self.test)
        parts = listops.splits(self._settings(), *counts, seed=self.seed, workers=self.workers)
        source = f"ListOps drawn here, {self.min_length} to {self.max_length} tokens, seed {self.seed}"
        return SequenceData(source, parts, self.max_length, {"num_labels": 10}, names="0123456789")
