"""Encoded images: which files are images, how they are decoded, and which of them cannot be.

Every format that Pillow decodes is read, except those that start a program. Where a file has several frames or pages,
the first is the image.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leanformer.data import checks
from leanformer.data.cache import cached_folder
from leanformer.data.checks import BadData
from leanformer.data.class_folders import is_litter
from leanformer.foundation.machine import cores
from leanformer.foundation.records.files import read_json, write_json

USUAL = ("PNG", "JPEG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "JPEG2000", "ICO", "AVIF")
"""Formats that are known by their first bytes, whatever a file's name says."""
NOT_DECODED = frozenset({"EPS", "WMF", "MPEG", "BUFR", "GRIB", "HDF5"})
"""Formats that Pillow recognises and does not decode itself; for EPS it would start a program."""
NOT_READ = frozenset(
    {
        *(".heic", ".heif", ".jxl", ".svg", ".svgz", ".eps", ".ps", ".pdf", ".wmf", ".emf", ".exr", ".hdr"),
        *(".raw", ".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2"),
    }
)
"""Endings of images that Pillow does not read by itself. A plugin such as pillow-heif adds its own."""
SHOWN = ".png, .jpg, .webp, .tif and others that Pillow reads"
"""The endings, in words."""
TOGETHER = 256
"""Images that a thread decodes before it takes the next ones."""
MOST_PIXELS = 178_956_970
"""Pixels of an image, as PIL's own limit. More is taken for a decompression bomb."""
MOST_ELONGATED = 1000
"""How many times its shorter side an image's longer side may be. Scaling the shorter side scales the other too."""


# Which files are images


@functools.cache
def endings() -> Mapping[str, str]:
    """Endings of images that are read, each with its format."""
    from PIL import Image

    Image.init()
    known = {**Image.registered_extensions(), ".mpo": "JPEG"}
    return {ending: kind for ending, kind in known.items() if kind in Image.OPEN and kind not in NOT_DECODED}


def is_image(file: Path) -> bool:
    """Whether a file is an image that is read, by its name."""
    return file.suffix.lower() in endings() and not is_litter(file)


def is_unread_image(file: Path) -> bool:
    """Whether a file is an image of a kind that is not read, by its name."""
    ending = file.suffix.lower()
    return ending in NOT_READ and ending not in endings()


# Images decoded on access


class Files(Sequence[Any]):
    """Image files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        return decode(checks.regular(self.paths[index]), self.name(index))

    def name(self, index: Any) -> str:
        return str(self.paths[index])

    def identity(self) -> str:
        """Changes when the files change."""
        return checks.identity(self.paths)


class Rows(Sequence[Any]):
    """Encoded images in a Hugging Face data set."""

    def __init__(self, split: Any, column: str, where: checks.Where) -> None:
        self.split, self.column, self.where = split, column, where

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: Any) -> Any:
        cell, name = self.split[int(index)][self.column], self.name(index)
        content, path = ((cell or {}).get(key) for key in ("bytes", "path"))
        if isinstance(content, bytes):
            return decode(io.BytesIO(content), name)
        if not isinstance(path, str):
            raise BadData(f"{name}: needed are the bytes of an image file, got {checks.shortened(cell)}")
        if not os.path.isfile(path):
            raise BadData(f"{name}: there is no file {path}, which should hold the image")
        return decode(Path(path), f"{name}, the file {path},")

    def name(self, index: Any) -> str:
        return self.where(int(index))

    def identity(self) -> str:
        """Changes when the files change; empty for a download, which is taken to be whole."""
        return checks.identity(self.where.files) if isinstance(self.where, checks.Places) else ""


class Chosen(Sequence[Any]):
    """Some of other images."""

    def __init__(self, images: Any, rows: np.ndarray) -> None:
        self.images, self.rows = images, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.images[self.rows[index]]

    def name(self, index: Any) -> str:
        return str(self.images.name(self.rows[index]))

    def identity(self) -> str:
        below = self.images.identity()
        return below and f"{below} {hashlib.sha256(self.rows.tobytes()).hexdigest()}"


def chosen(images: Any, rows: np.ndarray) -> Any:
    """Some of the images, in the given order."""
    return images[rows] if isinstance(images, torch.Tensor) else Chosen(images, rows)


def decode(source: Any, name: str) -> Any:
    """A PIL image, completely decoded. Its size is checked before it is decoded."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PIL warns of sizes that are accepted here
            image = Image.open(source, formats=_formats(source))
        _check_size(image.size, name)
        image.load()
    except BadData:
        raise
    except Exception as error:  # PIL's readers raise almost anything for damaged files
        raise BadData(f"{name} is not a readable image: {_reason(error)}") from error
    if image.mode == "F":
        raise BadData(f"{name} is an image of fractions, whose scale is not known; convert it to 8 or 16 bits")
    return image


def _formats(source: Any) -> tuple[str, ...]:
    """What an image's content may be: a usual format, or that of its name. Others have no sign to know them by."""
    from PIL import Image

    known = endings()
    named = known.get(source.suffix.lower()) if isinstance(source, Path) else None
    return tuple(kind for kind in dict.fromkeys((*USUAL, *([named] if named else []))) if kind in Image.OPEN)


def _reason(error: Exception) -> str:
    return "its content is of no known format" if "cannot identify" in str(error) else checks.first_line(error)


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS or max(size) > MOST_ELONGATED * min(size):
        raise BadData(
            f"{name} has {width:,} × {height:,} pixels; an image may have {MOST_PIXELS:,}, and one side may be "
            f"{MOST_ELONGATED:,} times the other: crop or remove it"
        )


# All of them at once


def in_memory(images: Sequence[Any], prepare: Callable[[Any], Any]) -> tuple[list[torch.Tensor], dict[int, str]]:
    """Images as bytes, and why others cannot be read, by row; `prepare` turns each into a PIL image of one size."""
    ready, wrong = [], {}
    for row in range(len(images)):
        try:
            image = images[row]
        except BadData as error:
            wrong[row] = str(error)
            continue
        ready.append(as_bytes(prepare(image)))
    return ready, wrong


def unreadable(images: Any) -> dict[int, str]:
    """Why images cannot be read, by row. All are decoded, once: the answer is kept until the files change.

    Downloads are not decoded here.
    """
    identity = images.identity()
    if not identity:
        return {}

    def make(aside: Path) -> None:
        write_json(aside / "wrong.json", _undecodable(images))

    folder = cached_folder("checked-images", identity, make)
    return {int(row): why for row, why in read_json(folder / "wrong.json").items()}


def _undecodable(images: Any) -> dict[str, str]:
    def tried(rows: np.ndarray) -> dict[str, str]:
        wrong = {}
        for row in rows.tolist():
            try:
                images[row]
            except BadData as error:
                wrong[str(row)] = str(error)
        return wrong

    with ThreadPoolExecutor(cores()) as pool:
        parts = pool.map(tried, np.array_split(np.arange(len(images)), -(-len(images) // TOGETHER)))
        return {row: why for part in parts for row, why in part.items()}


def in_colour(image: Any) -> Any:
    """Red, green and blue bytes. Grey images of 16 bits are scaled to 8; PIL would clip them."""
    from PIL import Image

    if image.mode in ("I", "I;16", "I;16B"):
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    return image.convert("RGB")


def as_bytes(image: Any) -> torch.Tensor:
    """A PIL image as (channels, height, width)."""
    array = np.asarray(image)
    return torch.from_numpy(array.copy()[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1)))
