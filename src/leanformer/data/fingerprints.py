"""Digests of data in memory: whether two runs saw the same samples.

What counts is the content as a model sees it, not where it is stored: a folder may be moved or copied.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from leanformer.data import image_files
from leanformer.data.labelled_images import LabelledImages

BLOCK, MOST_BLOCKS = 1 << 22, 64
"""Arrays of up to so many blocks of bytes are read whole; of a larger one, so many blocks at equal distances are."""
MOST_IMAGES = 256
"""Encoded images that are read of a set whose images have no files of their own, at equal distances."""


def fingerprint(*parts: Any) -> str:
    """The SHA-256 of arrays, tensors, texts and numbers."""
    digest = hashlib.sha256()
    for given in parts:
        part = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            for block in _blocks(part):
                digest.update(block)
        elif isinstance(part, (str, int)):
            digest.update(f"{len(str(part))}:{part}".encode())
        else:
            raise TypeError(f"a fingerprint is of arrays, texts and numbers, got {type(part).__name__}")
    return digest.hexdigest()


def ragged(sequences: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of any lengths as two arrays: their lengths, and all of their numbers."""
    lengths: list[int] = []
    flat: list[int] = []
    for sequence in sequences:
        lengths.append(len(sequence))
        flat += sequence
    return np.array(lengths, np.int64), np.array(flat, np.int64)


def fingerprint_of_images(split: LabelledImages) -> str:
    """Of images in memory, their content; of others, labels with the names and sizes of files, or some of them."""
    images = split.images
    if isinstance(images, torch.Tensor):
        return fingerprint(images, split.labels)
    return fingerprint(split.labels, *_encoded(images))


def _blocks(array: np.ndarray) -> Iterable[Any]:
    """The bytes of an array, in its own order; of a very large one, a part."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    count = -(-len(flat) // BLOCK)
    chosen = range(count) if count <= MOST_BLOCKS else np.linspace(0, count - 1, MOST_BLOCKS).astype(int)
    return (flat[start * BLOCK : (start + 1) * BLOCK].data for start in map(int, chosen))


def _encoded(images: Any) -> Iterable[Any]:
    """What says which images these are, without decoding any."""
    if isinstance(images, image_files.Chosen):
        yield np.asarray(images.rows)
        yield from _encoded(images.images)
    elif isinstance(images, image_files.Files):
        for path in images.paths:
            yield f"{path.parent.name}/{path.name}"
            yield os.stat(path).st_size
    else:
        yield len(images)
        for row in np.unique(np.linspace(0, len(images) - 1, min(len(images), MOST_IMAGES)).astype(int)):
            yield image_files.as_bytes(images[int(row)])
