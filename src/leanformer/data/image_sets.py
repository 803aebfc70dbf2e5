"""Sets of labelled images: a local folder, parquet files, Debian's packages, scikit-learn, or the hub.

`find` looks in that order. The set says in words where it came from. Images are tensors, or are decoded on access.
"""

from __future__ import annotations

import glob
import gzip
import io
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leanformer.data import checks, hub
from leanformer.data.checks import BadData
from leanformer.data.locations import files_in, in_root, needed, shown
from leanformer.data.tables import parquet_columns, read_parquet

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
NOT_READ = (".gif", ".tif", ".tiff", ".avif", ".heic", ".jp2", ".jxl", ".ppm", ".pgm", ".tga")
"""Endings of image files that are not read."""
FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "JPEG2000", "ICO")
"""What an image's content may be, whatever its name says. Some of PIL's other formats start programs."""
MOST_PIXELS = 178_956_970
"""Pixels of an image, as PIL's own limit. More is taken for a decompression bomb."""
MOST_ELONGATED = 1000
"""How many times its shorter side an image's longer side may be. Scaling the shorter side scales the other too."""
LARGEST_IDX = 8 << 30
"""Bytes of an idx file's content."""
HELD_OUT = ("val", "validation", "valid", "test")
"""Names of the held-out split; the first that exists is taken."""
DEBIAN = Path("/usr/share/datasets")
CONTENTS = (
    "train/CLASS/*.png with val/CLASS/*.png, parquet files with an image and a label column, or MNIST's idx files"
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


@dataclass(frozen=True)
class ImageSet:
    """A set of labelled images, split in two."""

    train: LabelledImages
    held_out: LabelledImages
    classes: int
    source: str
    names: tuple[str, ...] = ()
    """Of the classes, by label, if they have names."""

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


def find(name: str, root: str | None = None) -> ImageSet:
    """The set of that name; `root` is the folder with local data sets [default: LEANFORMER_DATA]."""
    if not name:
        raise ValueError(
            f"no images are named: give your images, a folder with train/CLASS/*.png and val/CLASS/*.png, or the name "
            f"of a data set ({', '.join(SETS)})"
        )
    known = SETS.get(name)
    if known is None and _is_path(name):
        return _from_folder(Path(name).expanduser(), KnownImageSet())
    if name == "digits":
        return _digits()
    known = known or KnownImageSet(hub=name)
    if (folder := in_root(spellings(name), root)) is not None:
        return _from_folder(folder, known)
    if known.debian and (DEBIAN / known.debian).is_dir():
        return _from_idx(DEBIAN / known.debian, f"Debian's package dataset-{known.debian}")
    return _from_hub(name, known, root)


def spellings(name: str) -> tuple[str, ...]:
    """Names of a public set's folder in the data folder; none if the set is embedded or a folder of one's own."""
    if name == "digits" or (name not in SETS and _is_path(name)):
        return ()
    return tuple(dict.fromkeys((name, name.replace("-", "_"), name.rpartition("/")[2])))


def _is_path(name: str) -> bool:
    """Whether a name that is not in SETS is meant as a folder, not as a data set on the hub."""
    return os.path.isdir(name) or "/" not in name or name.startswith(("/", ".", "~"))


def holds_images(path: Path) -> bool:
    """Whether a folder is a set of labelled images by itself."""
    if (path / "train").is_dir():
        return True
    names = [file.name for file in files_in(path)]
    return any(
        "-images-idx3-ubyte" in name or (name.startswith("train") and name.endswith(".parquet")) for name in names
    )


# Each kind of source


def _digits() -> ImageSet:
    """1,797 images of 8 × 8; every fifth is held out."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.from_numpy((loaded.images * (255 / 16)).round().astype(np.uint8))[:, None]
    labels = torch.from_numpy(loaded.target.astype(np.int64))
    held_out = torch.arange(len(labels)) % 5 == 4
    train, rest = (LabelledImages(images[rows], labels[rows]) for rows in (~held_out, held_out))
    return ImageSet(train, rest, classes=10, source="digits, embedded in scikit-learn")


def _from_folder(folder: Path, known: KnownImageSet) -> ImageSet:
    if not os.path.isdir(folder):
        raise BadData(f"{folder} is not a folder, and there is no data set of that name ({', '.join(SETS)})")
    if any("-images-idx3-ubyte" in path.name for path in checks.entries(folder)):
        return _from_idx(folder, shown(folder))
    train = folder / "train"
    if train.is_dir() and checks.folders_in(train):
        return _from_class_folders(folder)
    if tables_in := checks.files_below(folder, lambda file: file.suffix == ".parquet"):
        return _from_parquet(folder, tables_in, known)
    if train.is_dir():
        return _from_class_folders(folder)
    raise BadData(f"{folder} holds no images that can be trained on; needed are {CONTENTS}")


def _from_class_folders(folder: Path) -> ImageSet:
    """train/CLASS/… and val/CLASS/…, as for torchvision's ImageFolder."""
    train = folder / "train"
    names = tuple(path.name for path in checks.folders_in(train))
    if not names:
        raise BadData(f"{train} holds no folders; each class needs one, such as {train / 'cat'}")
    label_of = {name: label for label, name in enumerate(names)}

    def read(split: Path) -> LabelledImages:
        listed = checks.entries(split)
        if unknown := sorted({path.name for path in listed if path.is_dir()} - label_of.keys()):
            raise BadData(f"{split / unknown[0]} is a class that {train} lacks")
        if outside := [path for path in listed if path.suffix.lower() in ENDINGS and not path.is_dir()]:
            raise BadData(f"{outside[0]} is an image outside the folders of classes; move it into one of them")
        files = [(file, label_of[name]) for name in names for file in _images(split / name)]
        labels = torch.tensor([label for _, label in files], dtype=torch.int64)
        return LabelledImages(Files([file for file, _ in files]), labels)

    found, source = read(train), f"the folder {shown(folder)}"
    if empty := sorted(set(range(len(names))) - set(found.labels.tolist())):
        raise BadData(
            f"{train / names[empty[0]]} holds no images ({', '.join(ENDINGS)}); add some, or remove the class"
        )
    held_out = next((folder / name for name in HELD_OUT if (folder / name).is_dir()), None)
    if held_out is not None:
        return ImageSet(found, read(held_out), len(names), source, names)
    return _tenth_held_out(found, len(names), source, names)


def _images(folder: Path) -> list[Path]:
    """The images of a class. Images of other kinds are an error: leaving them out would train on other data."""
    if not folder.is_dir():
        return []
    found = checks.files_below(folder, lambda file: file.suffix.lower() in (*ENDINGS, *NOT_READ))
    if other := [file for file in found if file.suffix.lower() in NOT_READ]:
        raise BadData(
            f"{other[0]} is an image of a kind that is not read ({', '.join(ENDINGS)} are); convert or remove it"
        )
    return found


def _tenth_held_out(split: LabelledImages, classes: int, source: str, names: tuple[str, ...] = ()) -> ImageSet:
    """Without a held-out split, a tenth of the samples is held out, by a fixed shuffle."""
    rows = np.random.default_rng(0).permutation(len(split))
    parts = []
    for chosen in (np.sort(rows[len(rows) // 10 :]), np.sort(rows[: len(rows) // 10])):
        images = split.images
        subset = images[chosen] if isinstance(images, torch.Tensor) else Chosen(images, chosen)
        parts.append(LabelledImages(subset, split.labels[chosen]))
    return ImageSet(parts[0], parts[1], classes, f"{source}, a tenth of it held out here", names)


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


def _from_parquet(folder: Path, listed: Sequence[Path], known: KnownImageSet) -> ImageSet:
    import datasets

    files: dict[str, list[Path]] = {}
    for path in listed:
        files.setdefault(path.name.split("-")[0].removesuffix(".parquet"), []).append(path)
    if "train" not in files:
        raise BadData(f"{folder} holds no train-*.parquet, only {', '.join(sorted(files))}")
    files = {split: paths for split, paths in files.items() if split in ("train", *HELD_OUT)}
    places = {
        split: checks.Places(paths, [_labels_in(path, known) for path in paths]) for split, paths in files.items()
    }
    try:
        with hub.without_progress_bars(), hub.without_messages():
            named = {split: [glob.escape(str(path)) for path in paths] for split, paths in files.items()}
            loaded = datasets.load_dataset("parquet", data_files=named)
    except Exception as error:  # the library wraps what it meets in errors of many kinds
        cause = checks.first_line(error.__cause__ or error)
        raise BadData(f"the parquet files in {folder} cannot be read as one data set: {cause}") from error
    return _from_datasets(loaded, known, f"parquet files in {shown(folder)}", places)


def _labels_in(file: Path, known: KnownImageSet) -> int:
    """How many labels a parquet file has. They are checked here: the library would convert what it can."""
    columns = parquet_columns(file)
    label = next((name for name in _label_names(known) if name in columns), None)
    if label is None:
        raise BadData(f"{file}: needed are a column of images and one of labels, got {', '.join(columns)[:200]}")
    values = read_parquet(file, [label])[label]
    if not values:
        raise BadData(f"{file} has no rows; remove it")
    checks.whole_labels(values, lambda row: f"{file}, row {row}")
    return len(values)


def _label_names(known: KnownImageSet) -> list[str]:
    return [known.label] if known.label else ["label", "labels", "fine_label"]


def _from_hub(name: str, known: KnownImageSet, root: str | None) -> ImageSet:
    debian = f", Debian's package dataset-{known.debian}" if known.debian else ""
    loaded = hub.load_dataset(known.hub, what=name, needed=f"{needed(name, root)}{debian}")
    return _from_datasets(loaded, known, f"{known.hub} from the hub")


def _from_datasets(
    loaded: Any, known: KnownImageSet, source: str, places: Mapping[str, checks.Where] | None = None
) -> ImageSet:
    """A Hugging Face data set with one column of images and one of labels."""
    import datasets

    if "train" not in loaded:
        raise BadData(f"{source} has no split named train, only {', '.join(loaded)}")
    features = loaded["train"].features
    image = next((key for key, kind in features.items() if _is_image_column(kind)), None)
    label = next((key for key in _label_names(known) if key in features), None)
    if image is None or label is None:
        raise BadData(f"{source}: needed are a column of images and one of labels, got {', '.join(features)}")
    names = tuple(getattr(features[label], "names", None) or ())

    def read(name: str) -> LabelledImages:
        split = loaded[name]
        if missing := [column for column in (image, label) if column not in split.features]:
            raise BadData(f"{source}: the split {name} lacks the column {missing[0]}, which train has")
        where = (places or {}).get(name) or (lambda row: f"row {row} of {name} of {source}")
        labels = checks.whole_labels(split[label][:], where)
        if isinstance(features[image], datasets.Image):
            split = split.cast_column(image, datasets.Image(decode=False))
        return LabelledImages(Rows(split.select_columns([image]), image, where), torch.from_numpy(labels))

    train = read("train")
    classes = known.classes or len(names) or checks.counted_classes(train.labels.numpy(), train.place(source), source)
    names = names if len(names) == classes else ()
    held_out = next((name for name in HELD_OUT if name in loaded), None)
    if held_out is None:
        return _tenth_held_out(train, classes, source, names)
    return ImageSet(train, read(held_out), classes, source, names)


def _is_image_column(kind: Any) -> bool:
    """The hub's image type, or a struct with the file's bytes, which is how a file without that type stores it."""
    return type(kind).__name__ == "Image" or (isinstance(kind, dict) and "bytes" in kind)


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


class Chosen(Sequence[Any]):
    """Some of other images."""

    def __init__(self, images: Sequence[Any], rows: np.ndarray) -> None:
        self.images, self.rows = images, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.images[self.rows[index]]

    def name(self, index: Any) -> str:
        images: Any = self.images
        return str(images.name(self.rows[index]))


def decode(source: Any, name: str) -> Any:
    """A PIL image, completely decoded. Its size is checked before it is decoded."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PIL warns of sizes that are accepted here
            image = Image.open(source, formats=FORMATS)
        _check_size(image.size, name)
        image.load()
    except BadData:
        raise
    except Exception as error:  # PIL's readers raise almost anything for damaged files
        raise BadData(f"{name} is not a readable image: {checks.first_line(error)}") from error
    return image


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS or max(size) > MOST_ELONGATED * min(size):
        raise BadData(
            f"{name} has {width:,} × {height:,} pixels; an image may have {MOST_PIXELS:,}, and one side may be "
            f"{MOST_ELONGATED:,} times the other: crop or remove it"
        )


def in_memory(images: Sequence[Any], prepare: Callable[[Any], Any]) -> torch.Tensor:
    """All images as one tensor of bytes; `prepare` turns each into a PIL image of one size.

    All images that cannot be read are reported together.
    """
    ready, wrong = [], []
    for index in range(len(images)):
        try:
            image = images[index]
        except BadData as error:
            wrong.append(str(error))
            continue
        if not wrong:
            ready.append(as_bytes(prepare(image)))
    checks.raise_all(wrong)
    return torch.stack(ready)


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
