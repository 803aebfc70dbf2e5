"""Pathfinder: whether a dashed contour joins two discs, in images that are drawn here and read pixel by pixel."""

from __future__ import annotations

from dataclasses import dataclass

from leanformer.data import pathfinder
from leanformer.data.sequences import PixelSequences
from leanformer.tasks.sequence_classes import Drawn, SequenceData


@dataclass(frozen=True, kw_only=True)
class Pathfinder(Drawn):
    """How long the contours are, and how many images; by default the published numbers of 32 × 32."""

    dashes: int = 14
    """Dashes of a contour that joins discs: 6, 9 and 14 are the published levels."""
    train: int = 160_000
    validation: int = 20_000
    test: int = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings()

    def _settings(self) -> pathfinder.PathfinderSettings:
        return pathfinder.PathfinderSettings(dashes=self.dashes)

    def load(self) -> SequenceData:
        counts = (self.train, self.validation, self.test)
        drawn = pathfinder.splits(self._settings(), *counts, seed=self.seed, workers=self.workers)
        parts = [PixelSequences(part.images.reshape(len(part), -1), part.labels) for part in drawn]
        source = f"Pathfinder drawn here, contours of {self.dashes} dashes, seed {self.seed}"
        names = ("not connected", "connected")
        return SequenceData(source, parts, parts[0].pixels.shape[1], {"num_labels": 2}, names)
