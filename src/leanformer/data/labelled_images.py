"""Labelled images in two splits, whatever they were read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from leanformer.data import checks, image_files
from leanformer.data.checks import BadData
from leanformer.foundation.formats import counted, percent

SHARE = 0.1
"""What is held out of images that have no held-out split."""


@dataclass(frozen=True)
class Reading:
    """How a set of one's own is read."""

    held_out: float | None = None
    """Which share of each class is held out, if there is no held-out split; SHARE by default."""
    skip_bad: bool = False
    """Leave out images that cannot be read, and classes without images; else they are errors."""
    label_column: str = ""
    """The column of labels in tables; by default one of the usual names."""


@dataclass(frozen=True)
class LabelledImages:
    """Images and their labels."""

    images: torch.Tensor | Sequence[Any]
    """Bytes (samples, channels, height, width), or a sequence of PIL images that are decoded on access."""
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def place(self, words: str) -> checks.Where:
        """Where each image is, in words: in its file, or by its number."""
        name = getattr(self.images, "name", None)
        return name if name is not None else lambda row: f"{words} {row}"

    def chosen(self, rows: np.ndarray) -> LabelledImages:
        """Some of them, in the given order."""
        return LabelledImages(image_files.chosen(self.images, rows), self.labels[rows])


@dataclass(frozen=True)
class ImageSet:
    """A set of labelled images, split in two."""

    train: LabelledImages
    held_out: LabelledImages
    classes: int
    source: str
    names: tuple[str, ...] = ()
    """Of the classes, by label, if they have names."""
    notes: tuple[str, ...] = ()
    """What a person should know about it: how it was split, and what was left out."""
    split_here: bool = False
    """Whether the held-out images were chosen here, since the set had none."""

    def __post_init__(self) -> None:
        for name, split in (("training", self.train), ("held-out", self.held_out)):
            if not len(split):
                raise BadData(f"{self.source}: the {name} split is empty")
            checks.as_many(len(split.images), len(split.labels), f"{self.source}, {name} split")
            checks.in_range(split.labels.numpy(), self.classes, split.place(f"{self.source}: {name} sample"))
        checks.several(self.classes, self.source)
        if self.names and len(self.names) != self.classes:
            raise BadData(f"{self.source}: there are {len(self.names)} names for {self.classes} classes")
        for name, split in (("training", self.train), ("held-out", self.held_out)):
            checks.report_missing(split.labels.numpy(), self.classes, name, self.source, self.names)

    def name_of(self, label: int) -> str:
        return self.names[label] if self.names else str(label)

    def without(self, wrong: Sequence[Mapping[int, str]], skip_bad: bool) -> ImageSet:
        """The set without images that cannot be read.

        Args:
            wrong: why images cannot be read, by row, of the training and of the held-out split.
            skip_bad: whether they may be left out; if not, all are reported in one error.
        """
        if not any(wrong):
            return self
        if not skip_bad:
            checks.raise_all(
                [why for part in wrong for why in part.values()],
                "repair or remove such files, or set {skip_bad} to train without them",
            )
        splits = (self.train, self.held_out)
        labels = [int(split.labels[row]) for split, part in zip(splits, wrong, strict=True) for row in part]
        lost = checks.by_class(Counter(self.name_of(label) for label in labels))
        train, held_out = (
            split.chosen(np.array([row for row in range(len(split)) if row not in part], dtype=np.int64))
            for split, part in zip(splits, wrong, strict=True)
        )
        if gone := sorted(set(self.train.labels.tolist()) - set(train.labels.tolist())):
            raise BadData(f"{self.source}: no training image of the class {self.name_of(gone[0])} can be read")
        note = f"left out: {counted(len(labels), 'image')} that cannot be read ({lost})"
        return replace(self, train=train, held_out=held_out, notes=(*self.notes, note))


def split_off(
    whole: LabelledImages,
    classes: int,
    source: str,
    names: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    share: float | None = None,
) -> ImageSet:
    """A set without a held-out split: a share of each class is held out, by a fixed shuffle, and at least one image."""
    share = SHARE if share is None else share
    draw, labels, held_out = np.random.default_rng(0), whole.labels.numpy(), []
    for label in range(classes):
        rows = draw.permutation(np.flatnonzero(labels == label))
        if len(rows) > 1:
            held_out.append(rows[: min(len(rows) - 1, max(1, round(share * len(rows))))])
    taken = np.sort(np.concatenate([np.zeros(0, np.int64), *held_out]))
    if not len(taken):
        raise BadData(f"{source}: no class has 2 images, so that none can be held out; add images")
    rest = np.setdiff1d(np.arange(len(whole)), taken)
    note = f"no held-out images are given: {percent(share)} of each class are held out here, by a fixed shuffle"
    return ImageSet(
        whole.chosen(rest),
        whole.chosen(taken),
        classes,
        f"{source}, {percent(share)} of it held out here",
        names,
        (*notes, f"{note} (held_out={share:g})"),
        split_here=True,
    )
