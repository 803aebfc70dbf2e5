"""Classes of images that are read as sequences of grey pixels, as the Long-Range Arena reads CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from leanformer.data import image_sets
from leanformer.data.labelled_images import LabelledImages
from leanformer.data.locations import settings_for
from leanformer.data.sequences import PixelSequences
from leanformer.tasks.base import Task
from leanformer.tasks.image_classes import ImageClasses
from leanformer.tasks.sequence_classes import SequenceData
from leanformer.tasks.settings import check

GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue (ITU-R 601)."""


@dataclass(frozen=True, kw_only=True)
class PixelClasses(Task):
    """Which images. A tenth of the training images, chosen by a fixed shuffle, is for validation."""

    dataset: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, a folder, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    img_size: int | None = None
    """Side to which images are resized; by default they keep their size."""

    def __post_init__(self) -> None:
        check(self, least={"img_size": 1})

    def with_data(self, path: str | Path) -> PixelClasses:
        names = image_sets.spellings(self.dataset)
        return replace(self, **settings_for(path, names, image_sets.holds_images, image_sets.CONTENTS))

    def load(self) -> SequenceData:
        found = ImageClasses(dataset=self.dataset, root=self.root, img_size=self.img_size).load().found
        train, test = (_grey(split) for split in (found.train, found.held_out))
        rows = np.random.default_rng(0).permutation(len(train))
        cut = max(1, len(rows) // 10)
        validation, rest = np.sort(rows[:cut]), np.sort(rows[cut:])
        parts = [*(PixelSequences(train.pixels[chosen], train.labels[chosen]) for chosen in (rest, validation)), test]
        return SequenceData(found.source, parts, test.pixels.shape[1], {"num_labels": found.classes}, found.names)


def _grey(split: LabelledImages) -> PixelSequences:
    images = torch.as_tensor(split.images)
    if images.shape[1] == 3:
        weights = torch.tensor(GREY)[:, None, None]
        images = torch.cat([(chunk * weights).sum(1, keepdim=True).round().byte() for chunk in images.split(1000)])
    return PixelSequences(images.flatten(1).numpy(), split.labels.numpy())
