"""Sets of labelled images: a local folder, parquet files, Debian's packages, scikit-learn, or the hub.

`find` looks in that order. The set says in words where it came from. Images are tensors, or are decoded on access.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leanformer.data import hub
from leanformer.data.locations import files_in, in_root, needed, shown

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
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


@dataclass(frozen=True)
class ImageSet:
    """A set of labelled images, split in two."""

    train: LabelledImages
    held_out: LabelledImages
    classes: int
    source: str

    def __post_init__(self) -> None:
        for name, split in (("training", self.train), ("held-out", self.held_out)):
            if not len(split):
                raise ValueError(f"{self.source}: the {name} split is empty")
            wrong = ((split.labels < 0) | (split.labels >= self.classes)).nonzero()
            if len(wrong):
                row = int(wrong[0])
                raise ValueError(
                    f"{self.source}: {name} sample {row} has label {int(split.labels[row])}; "
                    f"with {self.classes} classes labels go from 0 to {self.classes - 1}"
                )


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
    return Path(name).is_dir() or "/" not in name or name.startswith(("/", ".", "~"))


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
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder, and there is no data set of that name ({', '.join(SETS)})")
    if any(folder.glob("*-images-idx3-ubyte*")):
        return _from_idx(folder, shown(folder))
    if (folder / "train").is_dir() and any(path.is_dir() for path in (folder / "train").iterdir()):
        return _from_class_folders(folder)
    if any(folder.rglob("*.parquet")):
        return _from_parquet(folder, known)
    if (folder / "train").is_dir():
        return _from_class_folders(folder)
    raise ValueError(f"{folder} holds no images that can be trained on; needed are {CONTENTS}")


def _from_class_folders(folder: Path) -> ImageSet:
    """train/CLASS/… and val/CLASS/…, as for torchvision's ImageFolder."""
    train = folder / "train"
    names = sorted(path.name for path in train.iterdir() if path.is_dir())
    if not names:
        raise ValueError(f"{train} holds no folders; each class needs one, such as {train / 'cat'}")
    label_of = {name: label for label, name in enumerate(names)}

    def read(split: Path) -> LabelledImages:
        if unknown := sorted({path.name for path in split.iterdir() if path.is_dir()} - label_of.keys()):
            raise ValueError(f"{split / unknown[0]} is a class that {train} lacks")
        files = [(file, label_of[name]) for name in names for file in _images(split / name)]
        labels = torch.tensor([label for _, label in files], dtype=torch.int64)
        return LabelledImages(Files([file for file, _ in files]), labels)

    held_out = next((folder / name for name in HELD_OUT if (folder / name).is_dir()), None)
    if held_out is not None:
        return ImageSet(read(train), read(held_out), len(names), f"the folder {shown(folder)}")
    return _tenth_held_out(read(train), len(names), f"the folder {shown(folder)}")


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS) if folder.is_dir() else []


def _tenth_held_out(split: LabelledImages, classes: int, source: str) -> ImageSet:
    """Without a held-out split, a tenth of the samples is held out, by a fixed shuffle."""
    rows = np.random.default_rng(0).permutation(len(split))
    parts = []
    for chosen in (np.sort(rows[len(rows) // 10 :]), np.sort(rows[: len(rows) // 10])):
        images = split.images
        subset = images[chosen] if isinstance(images, torch.Tensor) else Chosen(images, chosen)
        parts.append(LabelledImages(subset, split.labels[chosen]))
    return ImageSet(parts[0], parts[1], classes=classes, source=f"{source}, a tenth of it held out here")


def _from_idx(folder: Path, source: str) -> ImageSet:
    """MNIST's own files."""

    def read(kind: str) -> LabelledImages:
        images, labels = (_read_idx(folder, f"{kind}-{what}-ubyte") for what in ("images-idx3", "labels-idx1"))
        return LabelledImages(images[:, None], labels.long())

    train, held_out = read("train"), read("t10k")
    return ImageSet(train, held_out, classes=10, source=source)


def _read_idx(folder: Path, name: str) -> torch.Tensor:
    for path, opened in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.is_file():
            try:
                with opened(path, "rb") as file:
                    content = file.read()
                dimensions = content[3]
                shape = np.frombuffer(content, ">u4", dimensions, offset=4)
                values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
            except (OSError, EOFError, ValueError, IndexError) as error:
                raise ValueError(f"{path} is not a readable idx file: {error}") from error
            return torch.from_numpy(values.copy())
    raise ValueError(f"{folder} lacks {name}.gz")


def _from_parquet(folder: Path, known: KnownImageSet) -> ImageSet:
    files: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        files.setdefault(path.name.split("-")[0].removesuffix(".parquet"), []).append(str(path))
    if "train" not in files:
        raise ValueError(f"{folder} holds no train-*.parquet, only {', '.join(sorted(files))}")
    import datasets
    from datasets.exceptions import DatasetsError
    from pyarrow import ArrowException

    try:
        with hub.without_progress_bars():
            loaded = datasets.load_dataset("parquet", data_files=files)
    except (DatasetsError, ArrowException, OSError) as error:
        cause = error.__cause__ or error
        raise ValueError(f"the parquet files in {folder} cannot be read: {str(cause).splitlines()[0]}") from error
    return _from_datasets(loaded, known, f"parquet files in {shown(folder)}")


def _from_hub(name: str, known: KnownImageSet, root: str | None) -> ImageSet:
    debian = f", Debian's package dataset-{known.debian}" if known.debian else ""
    loaded = hub.load_dataset(known.hub, what=name, needed=f"{needed(name, root)}{debian}")
    return _from_datasets(loaded, known, f"{known.hub} from the hub")


def _from_datasets(loaded: Any, known: KnownImageSet, source: str) -> ImageSet:
    """A Hugging Face data set with one column of images and one of labels."""
    import datasets

    if "train" not in loaded:
        raise ValueError(f"{source} has no split named train, only {', '.join(loaded)}")
    features = loaded["train"].features
    image = next((key for key, kind in features.items() if _is_image_column(kind)), None)
    wanted = [known.label] if known.label else ["label", "labels", "fine_label"]
    label = next((key for key in wanted if key in features), None)
    if image is None or label is None:
        raise ValueError(f"{source}: needed are a column of images and one of labels, got {', '.join(features)}")
    names = getattr(features[label], "names", None)
    classes = known.classes or (len(names) if names else int(max(loaded["train"][label])) + 1)

    def read(split: Any) -> LabelledImages:
        if isinstance(features[image], datasets.Image):
            split = split.cast_column(image, datasets.Image(decode=False))
        return LabelledImages(Rows(split.select_columns([image]), image, source), torch.tensor(split[label][:]))

    held_out = next((loaded[name] for name in HELD_OUT if name in loaded), None)
    if held_out is None:
        return _tenth_held_out(read(loaded["train"]), classes, source)
    return ImageSet(read(loaded["train"]), read(held_out), classes, source)


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
        return decode(self.paths[index], str(self.paths[index]))


class Rows(Sequence[Any]):
    """Encoded images in a Hugging Face data set."""

    def __init__(self, split: Any, column: str, source: str) -> None:
        self.split, self.column, self.source = split, column, source

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: Any) -> Any:
        cell = self.split[int(index)][self.column]
        content = cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()
        return decode(io.BytesIO(content), f"row {int(index)} of {self.source}")


class Chosen(Sequence[Any]):
    """Some of other images."""

    def __init__(self, images: Sequence[Any], rows: np.ndarray) -> None:
        self.images, self.rows = images, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.images[self.rows[index]]


def decode(source: Any, name: str) -> Any:
    """A PIL image, completely decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(source)
        image.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{name} is not a readable image: {error}") from error
    return image


def in_memory(images: Sequence[Any], prepare: Callable[[Any], Any]) -> torch.Tensor:
    """All images as one tensor of bytes; `prepare` turns each into a PIL image of one size."""
    return torch.stack([as_bytes(prepare(images[index])) for index in range(len(images))])


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
