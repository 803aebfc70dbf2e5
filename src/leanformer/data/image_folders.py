"""Images in folders of classes."""

from __future__ import annotations

from pathlib import Path

import torch

from leanformer.data.class_folders import Kind, Listing, Parts
from leanformer.data.image_files import SHOWN, Files, is_image, is_unread_image
from leanformer.data.labelled_images import ImageSet, LabelledImages, Reading, split_off
from leanformer.data.locations import shown

IMAGES = Kind("image", SHOWN, is_image, is_unread_image)


def read(folder: Path, reading: Reading) -> ImageSet:
    """The labelled images of a folder that has the splits, or the classes."""
    parts, source = Parts.of(folder), f"the folder {shown(folder)}"
    listing = Listing(IMAGES, parts.train, reading.skip_bad)
    names = listing.classes()

    def labelled(split: Path) -> LabelledImages:
        found = listing.labelled(split, names)
        labels = torch.tensor([label for _, label in found], dtype=torch.int64)
        return LabelledImages(Files([file for file, _ in found]), labels)

    train = labelled(parts.train)
    if parts.held_out is None:
        return split_off(train, len(names), source, names, tuple(listing.notes()), reading.held_out)
    held_out = labelled(parts.held_out)
    return ImageSet(train, held_out, len(names), source, names, (*listing.notes(), *parts.notes()))
