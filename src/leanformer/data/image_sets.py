"""Sets of labelled images: a local folder, parquet files, Debian's packages, scikit-learn, or the hub.

`find` looks in that order. The set says in words where it came from. Images are tensors, or are decoded on access.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leanformer.data import checks, class_folders, hub, image_folders, image_tables
from leanformer.data.checks import BadData, own_part
from leanformer.data.labelled_images import ImageSet, LabelledImages, Reading
from leanformer.data.locations import files_in, in_root, needed, shown
from leanformer.foundation.formats import counted

LARGEST_IDX = 8 << 30
"""Bytes of an idx file's content."""
DEBIAN = Path("/usr/share/datasets")
CONTENTS = (
    "CLASS/*.png, train/CLASS/*.png with or without val/CLASS/*.png, parquet files with an image and a label column, "
    "or MNIST's idx files"
)
"""In words, what a folder of labelled images consists of."""


@dataclass(frozen=True)
class KnownImageSet:
    """A public set of labelled images."""

    classes: int | None = None
    hub: str = ""
    """Its name on the hub."""
    debian: str = ""
    """Its folder in DEBIAN, and its package without "dataset-"."""
    label: str = ""
    """Its column of labels, if it has several."""


SETS = {
    "digits": KnownImageSet(10),
    "mnist": KnownImageSet(10, hub="ylecun/mnist"),
    "fashion-mnist": KnownImageSet(10, hub="zalando-datasets/fashion_mnist", debian="fashion-mnist"),
    "cifar10": KnownImageSet(10, hub="uoft-cs/cifar10"),
    "cifar100": KnownImageSet(100, hub="uoft-cs/cifar100", label="fine_label"),
    "imagenet": KnownImageSet(1000, hub="ILSVRC/imagenet-1k"),
}
"""Sets known by name. Any other name is a folder or a data set on the hub."""


DIGITS_SHARE = 0.2
"""What is held out of the digits."""


def find(name: str, root: str | None = None, reading: Reading | None = None) -> ImageSet:
    """The set of that name; `root` is the folder with local data sets [default: LEANFORMER_DATA]."""
    found = _find(name, root, reading)
    if reading is not None and reading.held_out is not None and not found.split_here:
        raise own_part(found.source, counted(len(found.held_out), "held-out image"))
    return found


def _find(name: str, root: str | None, reading: Reading | None) -> ImageSet:
    if not name:
        raise ValueError(
            f"no images are named: give your images, a folder with CLASS/*.png or with train/CLASS/*.png and "
            f"val/CLASS/*.png, or the name of a data set ({', '.join(SETS)})"
        )
    known, reading = SETS.get(name), reading or Reading()
    if known is None and _is_path(name):
        return _from_path(Path(name).expanduser(), KnownImageSet(), reading)
    if name == "digits":
        return _digits(DIGITS_SHARE if reading.held_out is None else reading.held_out)
    known = known or KnownImageSet(hub=name)
    reading = replace(reading, label_column=reading.label_column or known.label)
    if (folder := in_root(spellings(name), root)) is not None:
        return _from_path(folder, known, reading)
    if known.debian and (DEBIAN / known.debian).is_dir():
        return _from_idx(DEBIAN / known.debian, f"Debian's package dataset-{known.debian}")
    return _from_hub(name, known, root, reading)


def spellings(name: str) -> tuple[str, ...]:
    """Names of a public set's folder in the data folder; none if the set is embedded or a folder of one's own."""
    if name == "digits" or (name not in SETS and _is_path(name)):
        return ()
    return tuple(dict.fromkeys((name, name.replace("-", "_"), name.rpartition("/")[2])))


def _is_path(name: str) -> bool:
    """Whether a name that is not in SETS is meant as a folder, not as a data set on the hub."""
    return os.path.exists(name) or "/" not in name or name.startswith(("/", ".", "~"))


def holds_images(path: Path) -> bool:
    """Whether a path is a set of labelled images by itself: a parquet file, or a folder."""
    if os.path.isfile(path):
        return path.suffix == ".parquet"
    names = [file.name for file in files_in(path)]
    return any(
        "-images-idx3-ubyte" in name or (name.startswith("train") and name.endswith(".parquet")) for name in names
    ) or class_folders.holds_classes(path, image_folders.IMAGES)


# Each kind of source


def _digits(share: float) -> ImageSet:
    """1,797 images of 8 × 8, of which an even share is held out: with 0.2, every fifth."""
    loaded = _digits_of_scikit_learn()
    images = torch.from_numpy((loaded[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).round().astype(np.uint8))
    labels = torch.from_numpy(loaded[:, -1].astype(np.int64))
    held_out = torch.from_numpy(np.diff(np.floor(np.arange(len(labels) + 1) * share + 1e-9)) > 0)
    train, rest = (LabelledImages(images[rows], labels[rows]) for rows in (~held_out, held_out))
    return ImageSet(train, rest, classes=10, source="digits, embedded in scikit-learn", split_here=True)


def _digits_of_scikit_learn() -> np.ndarray:
    """Rows of 64 pixels and the label, from the file: importing scikit-learn takes longer than small runs do."""
    package = importlib.util.find_spec("sklearn")
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz" if package and package.origin else None
    if file is not None and file.is_file():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return np.column_stack([loaded.data, loaded.target])


def _from_path(path: Path, known: KnownImageSet, reading: Reading) -> ImageSet:
    if not os.path.lexists(path):
        raise BadData(f"{path} is not a folder, and there is no data set of that name ({', '.join(SETS)})")
    if not os.path.isdir(path):
        if path.suffix != ".parquet":
            raise BadData(f"{path} is a file; images are read from a folder with {CONTENTS}, or from a parquet file")
        return image_tables.read(path, [path], reading, known.classes)
    if any("-images-idx3-ubyte" in file.name for file in checks.entries(path)):
        return _from_idx(path, shown(path))
    if not class_folders.holds_splits(path) and (
        tables := checks.files_below(path, lambda file: file.suffix == ".parquet")
    ):
        return image_tables.read(path, tables, reading, known.classes)
    if not class_folders.folders_of_classes(path):
        raise BadData(f"{path} holds no images that can be trained on; needed are {CONTENTS}")
    return image_folders.read(path, reading)


def _from_idx(folder: Path, source: str) -> ImageSet:
    """MNIST's own files."""

    def read(kind: str) -> LabelledImages:
        images, labels = (
            _read_idx(folder, f"{kind}-{what}-ubyte", dimensions)
            for what, dimensions in (("images-idx3", 3), ("labels-idx1", 1))
        )
        checks.as_many(
            len(images), len(labels), f"{shown(folder)}, {kind}-images-idx3-ubyte and {kind}-labels-idx1-ubyte"
        )
        return LabelledImages(images[:, None], labels.long())

    train, held_out = read("train"), read("t10k")
    return ImageSet(train, held_out, classes=10, source=source)


def _read_idx(folder: Path, name: str, dimensions: int) -> torch.Tensor:
    for path, opened in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if os.path.lexists(path):
            with checks.reading(path, "idx file"), opened(path, "rb") as file:
                return torch.from_numpy(_idx_content(file, dimensions, path))
    raise BadData(f"{folder} lacks {name}.gz")


def _idx_content(file: Any, dimensions: int, path: Path) -> np.ndarray:
    """The bytes of an idx file in the shape that its header says."""
    kind = file.read(4)
    if kind != bytes([0, 0, 8, dimensions]):
        raise BadData(f"{path} is not a readable idx file of bytes in {dimensions} dimensions; it begins with {kind!r}")
    shape = [int(size) for size in np.frombuffer(file.read(4 * dimensions), ">u4", dimensions)]
    size = math.prod(shape)
    if not 0 < size <= LARGEST_IDX:
        raise BadData(f"{path} has {size:,} bytes of content by its header; it must be 1 to {LARGEST_IDX:,}")
    content = file.read(size + 1)
    if len(content) != size:
        more = "more" if len(content) > size else f"{len(content):,}"
        raise BadData(f"{path} has {more} bytes of content, but its header says {size:,}; download it again")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()


def _from_hub(name: str, known: KnownImageSet, root: str | None, reading: Reading) -> ImageSet:
    debian = f", Debian's package dataset-{known.debian}" if known.debian else ""
    loaded = hub.load_dataset(known.hub, what=name, needed=f"{needed(name, root)}{debian}")
    return image_tables.from_datasets(loaded, f"{known.hub} from the hub", reading, known.classes)
