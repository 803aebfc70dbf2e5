"""Classes of images, from 8 × 8 digits to ImageNet.

Sets of up to a gigabyte are kept in memory as bytes, and a batch is an indexing operation. Larger sets, and those with
timm's augmentation, are decoded by workers when they are needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from leanformer.architecture import Architecture
from leanformer.data import image_files, image_sets
from leanformer.data.checks import BadData
from leanformer.data.fingerprints import fingerprint, fingerprint_of_images
from leanformer.data.labelled_images import ImageSet, LabelledImages, Reading
from leanformer.data.locations import settings_for
from leanformer.data.order import Order, Share, stream, tuning_rows
from leanformer.foundation.formats import counted
from leanformer.models import families
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric, Task
from leanformer.tasks.seeding import Keys, seeded
from leanformer.tasks.settings import check

Images = Float[Tensor, "batch channels height width"]
ByteImages = UInt8[Tensor, "batch channels height width"]
ImageBatch = tuple[Images, Shaped[Tensor, " batch *classes"]]
"""Normalised images, and their labels; mixing gives each image a weight for every class."""

GIGABYTE = 1 << 30
GREY = ("1", "L", "LA", "I", "I;16", "I;16B")
"""PIL's modes without colour. A set is read as grey if all of its images are."""
EVALUATED = 500
"""Held-out images that pass through the model at once."""


@dataclass(frozen=True, kw_only=True)
class ImageClasses(Task):
    """Which labelled images, and how they are augmented in training."""

    dataset: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, imagenet, a folder, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    held_out: float | None = None
    """Share of each class that is held out, where the data have no held-out images."""
    skip_bad: bool = False
    """Train without images that cannot be read, and without classes that have no images."""
    label_column: str = ""
    """Column of labels in parquet files and on the hub; by default one of the usual names."""
    img_size: int | None = None
    """Side to which images are resized; by default they keep their size."""
    shift: int = 0
    """Largest random shift, in pixels."""
    flip: bool = False
    """Random horizontal flip."""
    auto_augment: str = ""
    """timm's augmentation of decoded images, such as "rand-m9-mstd0.5", with its random resized crop and flip."""
    mixup: float = 0.0
    """α of mixup."""
    cutmix: float = 0.0
    """α of cutmix. If both are given, each batch uses one of them, at random."""
    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes."""
    prepared_as: str = ""
    """timm model whose mean, deviation, crop and interpolation are used; by default the data's, or ImageNet's."""
    workers: int = 4
    """Processes that decode, for sets that are not kept in memory."""

    def __post_init__(self) -> None:
        least = dict.fromkeys(("shift", "mixup", "cutmix", "label_smoothing", "workers"), 0)
        check(self, least=least | {"img_size": 1}, shares=("held_out",))
        if self.label_smoothing >= 1:
            raise ValueError(f"label_smoothing must be less than 1, got {self.label_smoothing}")
        if self.auto_augment and (self.shift or self.flip):
            raise ValueError("auto_augment includes a random crop and flip: leave shift and flip out")

    def with_data(self, path: str | Path) -> ImageClasses:
        names = image_sets.spellings(self.dataset)
        return replace(self, **settings_for(path, names, image_sets.holds_images, image_sets.CONTENTS))

    def load(self) -> ImageClassesData:
        found = self.find()
        if not isinstance(found.train.images, torch.Tensor):
            first = _first(found)
            side = self.img_size or max(first.size)
            fits = len(found.train) * side * side * len(first.getbands()) <= GIGABYTE
            if self.auto_augment or not fits:
                wrong = [image_files.unreadable(split.images) for split in (found.train, found.held_out)]
                return DecodedImages(self, found.without(wrong, self.skip_bad))
            found = _into_memory(self, found, first)
        elif self.auto_augment:
            return DecodedImages(self, found)
        elif self.img_size not in (None, found.train.images.shape[-1]):
            return ImageClassesData(self, _resized(found, self.img_size), interpolation="bilinear")
        return ImageClassesData(self, found)

    def find(self) -> ImageSet:
        """The images, which need not be decoded yet."""
        reading = Reading(self.held_out, self.skip_bad, self.label_column)
        return image_sets.find(self.dataset, self.root, reading)


class ImageClassesData(Data):
    """Images in memory."""

    def __init__(self, task: ImageClasses, found: ImageSet, interpolation: str = "bicubic") -> None:
        self.task, self.found, self.interpolation = task, found, interpolation
        self.source, self.size, self.classes = found.source, len(found.train), found.classes
        self.own_held_out = not found.split_here
        self.metric = Metric("accuracy", "%", resolution=100 / len(found.held_out))
        self.mixing = _mixing(task, found.classes)
        self._prepare()

    def _prepare(self) -> None:
        self.images, self.held_out = map(torch.as_tensor, (self.found.train.images, self.found.held_out.images))
        seen = self.images[:5000].float()
        self.mean, self.spread = (seen.mean((0, 2, 3))[:, None, None], seen.std((0, 2, 3))[:, None, None].clamp(min=1))
        if self.task.prepared_as:
            stated = timm_preparation(self.task.prepared_as)
            if len(stated["mean"]) != self.images.shape[1]:
                raise BadData(
                    f"{self.source}: {self.task.prepared_as} takes images of {len(stated['mean'])} channels, these "
                    f"have {self.images.shape[1]}: leave prepared_as empty"
                )
            self.mean, self.spread = (255 * torch.tensor(stated[key])[:, None, None] for key in ("mean", "std"))
        channels, height, width = self.images.shape[1:]
        self.options: Mapping[str, Any] = {
            "num_classes": self.classes,
            "in_chans": channels,
            "img_size": height if height == width else [height, width],
        }

    def contents(self) -> Contents:
        return Contents(
            source=self.source,
            samples="images",
            train=len(self.found.train),
            held_out=len(self.found.held_out),
            classes=tuple(self.found.name_of(label) for label in range(self.classes)),
            notes=self.found.notes,
        )

    def remarks(self, design: Architecture) -> list[str]:
        """Pixels that no patch covers."""
        family = families.family(design.family)
        patch, size = family.patch_size(design), family.image_size(design)
        if patch is None or size is None:
            return []
        rows, columns = (side % cut for side, cut in zip(size[1:], patch, strict=True))
        if not rows and not columns:
            return []
        cut = f"{patch[0]}" if patch[0] == patch[1] else f"{patch[0]} × {patch[1]}"
        lost = [counted(rows, "row"), counted(columns, "column")]
        kept = " and ".join(part for part, number in zip(lost, (rows, columns), strict=True) if number)
        verb = "is" if rows + columns == 1 else "are"
        return [
            f"note: patches of {cut} do not divide images of {size[1]} × {size[2]}: the last {kept} {verb} not seen "
            f"({design.name})"
        ]

    def for_tuning(self) -> ImageClassesData:
        parts = tuning_rows(len(self.found.train), most=len(self.found.held_out))
        train, held_out = (self.found.train.chosen(rows) for rows in parts)
        found = replace(self.found, train=train, held_out=held_out, notes=())
        return type(self)(self.task, found, self.interpolation)

    @functools.cached_property
    def identity(self) -> str:
        return fingerprint(*(fingerprint_of_images(split) for split in (self.found.train, self.found.held_out)))

    def preprocessing(self) -> dict[str, Any]:
        """In timm's words: all of the shorter side is shown, and mean and deviation are those of numbers up to 1."""
        _, channels, height, width = self.images.shape
        stated = {
            "input_size": [channels, height, width],
            "mean": (self.mean.flatten().double() / 255).tolist(),
            "std": (self.spread.flatten().double() / 255).tolist(),
            "interpolation": self.interpolation,
            "crop_pct": 1.0,
            "crop_mode": "squash" if self.interpolation == "bilinear" else "center",
        }
        return stated | ({"label_names": list(self.found.names)} if self.found.names else {})

    def normalised(self, images: ByteImages) -> Images:
        return (images.float() - self.mean) / self.spread

    # Training

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[ImageBatch]:
        for step in steps:
            rows = torch.from_numpy(share.of(order.indices(step)))
            images = self.images[rows]
            if self.task.flip or self.task.shift:
                images = self._augmented(images, stream(order.seed, step), order.batch_at(step), share)
            yield self._mixed(self.normalised(images), self.found.train.labels[rows], (order.seed, step))

    def _augmented(self, images: ByteImages, draw: np.random.Generator, batch: int, share: Share) -> ByteImages:
        """Shifted and flipped at random. The draws are made for the whole batch, so that shares do not change them."""
        if self.task.flip:
            flipped = torch.from_numpy(share.of(draw.random(batch) < 0.5))
            images = torch.where(flipped[:, None, None, None], images.flip(-1), images)
        if reach := self.task.shift:
            down, right = (torch.from_numpy(share.of(draw.integers(0, 2 * reach + 1, batch))) for _ in range(2))
            height, width = images.shape[-2:]
            rows, columns = down[:, None] + torch.arange(height), right[:, None] + torch.arange(width)
            padded = F.pad(images, (reach,) * 4)
            sample = torch.arange(len(images))[:, None, None]
            images = padded[sample, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return images

    def _mixed(self, images: Images, labels: Int[Tensor, " batch"], key: tuple[int, ...]) -> ImageBatch:
        """timm mixes a batch with itself in reverse. This order makes neighbours pairs, in a share as in the whole."""
        if self.mixing is None:
            return images, labels
        if len(images) % 2:
            raise ValueError(f"mixup and cutmix mix pairs: a process needs an even number of images, got {len(images)}")
        pairs = torch.cat([torch.arange(0, len(images), 2), torch.arange(1, len(images), 2).flip(0)])
        with seeded(*key):
            return self.mixing(images[pairs], labels[pairs])

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        images, targets = batch
        smoothing = 0.0 if self.mixing is not None else self.task.label_smoothing  # mixing smooths the labels itself
        return F.cross_entropy(_logits(model, images), targets, label_smoothing=smoothing)

    # Evaluation

    @torch.no_grad()
    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        sums = HeldOutSums("loss", "correct", "correct5", "count")
        for images, labels in self.held_out_batches(share):
            logits, wanted = _logits(model, images.to(device)).float(), labels.to(device)
            ranked = logits.topk(min(5, self.classes), dim=-1).indices == wanted[:, None]
            sums["loss"] += F.cross_entropy(logits, wanted, reduction="sum").item()
            sums["correct"] += sums.keep(ranked[:, 0]).sum().item()
            sums["correct5"] += ranked.sum().item()
            sums["count"] += len(labels)
        return sums

    def held_out_batches(self, share: Share) -> Iterator[ImageBatch]:
        rows = torch.arange(*_bounds(share.strided(len(self.held_out))))
        for chosen in rows.split(EVALUATED):
            yield self.normalised(self.held_out[chosen]), self.found.held_out.labels[chosen]

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        found = {"accuracy": 100 * sums["correct"] / sums["count"], "loss": sums["loss"] / sums["count"]}
        return found | ({"top5": 100 * sums["correct5"] / sums["count"]} if self.classes > 20 else {})

    def probe_batch(self, count: int) -> Images:
        return self.normalised(self.held_out[:count])


def _logits(model: nn.Module, images: Images) -> Float[Tensor, "batch classes"]:
    """timm's models return logits, those of transformers an output that holds them."""
    found = model(images)
    return getattr(found, "logits", found)


class DecodedImages(ImageClassesData):
    """Images that workers decode and augment when they are needed, with timm's transforms."""

    def _prepare(self) -> None:
        from timm.data import create_transform

        side = self.task.img_size or 224
        self.options = {"num_classes": self.classes, "in_chans": 3, "img_size": side}
        self.prepared = timm_preparation(self.task.prepared_as)
        self.show = create_transform(side, is_training=False, **self.prepared)
        if self.task.auto_augment:
            shown = {key: value for key, value in self.prepared.items() if not key.startswith("crop")}
            self.augment = create_transform(side, is_training=True, auto_augment=self.task.auto_augment, **shown)
        else:
            self.augment = self._shifted_and_flipped(side)

    def preprocessing(self) -> dict[str, Any]:
        stated = {"input_size": [3, self.options["img_size"], self.options["img_size"]], **self.prepared}
        return stated | ({"label_names": list(self.found.names)} if self.found.names else {})

    def _shifted_and_flipped(self, side: int) -> Any:
        """The augmentation of images in memory, for decoded ones."""
        from torchvision import transforms

        resize, crop, *rest = self.show.transforms
        shift = [transforms.RandomCrop(side, padding=self.task.shift)] if self.task.shift else []
        flip = [transforms.RandomHorizontalFlip()] if self.task.flip else []
        return transforms.Compose([resize, crop, *shift, *flip, *rest])

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[ImageBatch]:
        """Each sample is augmented with a random stream of its own: workers and processes change nothing."""
        keys = Keys(order, steps, share)
        for step, (images, labels) in zip(steps, self._loader(self.found.train, self.augment, keys), strict=True):
            yield self._mixed(images, labels, (order.seed, step))

    def held_out_batches(self, share: Share) -> Iterator[ImageBatch]:
        rows = share.strided(len(self.found.held_out))
        keys = [[(row, (row,)) for row in rows[start : start + 64]] for start in range(0, len(rows), 64)]
        yield from self._loader(self.found.held_out, self.show, keys)

    def _loader(self, split: LabelledImages, transform: Any, batches: Iterable[Any]) -> Iterator[ImageBatch]:
        loader: DataLoader[Any] = DataLoader(
            Decoded(split, transform),
            batch_sampler=batches,
            num_workers=self.task.workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # else the loader would draw a seed from the training's own generator
        )
        try:
            yield from ((images, labels) for images, labels in loader)
        except ValueError as error:  # a worker's error has its traceback; the last line is the message
            raise ValueError(str(error).strip().splitlines()[-1].removeprefix("ValueError: ")) from error

    def probe_batch(self, count: int) -> Images:
        decoded = Decoded(self.found.held_out, self.show)
        return torch.stack([decoded[row, (row,)][0] for row in range(min(count, len(self.found.held_out)))])


class Decoded(Dataset[Any]):
    """One sample at a time, transformed with a seed of its own."""

    def __init__(self, split: LabelledImages, transform: Any) -> None:
        self.split, self.transform = split, transform

    def __getitem__(self, key: tuple[int, tuple[int, ...]]) -> tuple[Float[Tensor, "channels height width"], int]:
        row, seed = key
        image = self.split.images[row]
        if isinstance(image, torch.Tensor):
            image = _to_pil(image)
        with seeded(*seed):
            return self.transform(image_files.in_colour(image)), int(self.split.labels[row])


def timm_preparation(name: str = "") -> dict[str, Any]:
    """What timm says of a model's images, in timm's words; for no name, ImageNet's usual preparation."""
    from timm import get_pretrained_cfg, is_model
    from timm.data.constants import DEFAULT_CROP_PCT, IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

    if not name:
        usual = {"mean": list(IMAGENET_DEFAULT_MEAN), "std": list(IMAGENET_DEFAULT_STD)}
        return {**usual, "interpolation": "bicubic", "crop_pct": DEFAULT_CROP_PCT, "crop_mode": "center"}
    if not is_model(name) or (config := get_pretrained_cfg(name)) is None:
        raise ValueError(f"prepared_as must be the name of a timm model, got {name!r}")
    stated = {key: getattr(config, key) for key in ("mean", "std", "interpolation", "crop_pct", "crop_mode")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in stated.items()}


def _mixing(task: ImageClasses, classes: int) -> Any:
    if not task.mixup and not task.cutmix:
        return None
    from timm.data import Mixup

    return Mixup(task.mixup, task.cutmix, label_smoothing=task.label_smoothing, num_classes=classes)


def _bounds(rows: range) -> tuple[int, int, int]:
    return rows.start, max(rows.stop, rows.start), rows.step


# Resizing


def _first(found: ImageSet) -> Any:
    """The first training image that can be read."""
    wrong = {}
    for row in range(len(found.train)):
        try:
            return found.train.images[row]
        except BadData as error:
            wrong[row] = str(error)
    return found.without([wrong, {}], skip_bad=False)  # raises one error for all


def _into_memory(task: ImageClasses, found: ImageSet, first: Any) -> ImageSet:
    size = (task.img_size, task.img_size) if task.img_size else first.size
    grey = True

    def prepare(image: Any) -> Any:
        nonlocal grey
        grey = grey and image.mode in GREY
        image = image_files.in_colour(image)
        if image.size != size:
            if task.img_size is None:
                one, other = (" × ".join(map(str, pair)) for pair in (size, image.size))
                raise ValueError(
                    f"{found.source}: images differ in size ({one}, {other}); give one size, such as img_size=64"
                )
            image = _square(image, task.img_size)
        return image

    splits = (found.train, found.held_out)
    read, wrong = zip(*(image_files.in_memory(split.images, prepare) for split in splits), strict=True)  # type: ignore[arg-type]
    found = found.without(wrong, task.skip_bad)
    train, held_out = (
        LabelledImages(images[:, :1].contiguous() if grey else images, split.labels)
        for images, split in zip(map(torch.stack, read), (found.train, found.held_out), strict=True)
    )
    return replace(found, train=train, held_out=held_out)


def _square(image: Any, side: int) -> Any:
    """Scaled until the shorter side fits, and cropped at the centre."""
    from PIL import Image

    scale = side / min(image.size)
    width, height = (max(side, math.ceil(length * scale)) for length in image.size)
    left, top = (width - side) // 2, (height - side) // 2
    return image.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))


def _resized(found: ImageSet, side: int) -> ImageSet:
    def resize(split: LabelledImages) -> LabelledImages:
        scaled = [
            F.interpolate(chunk.float(), (side, side), mode="bilinear", antialias=True).round().byte()
            for chunk in torch.as_tensor(split.images).split(1000)
        ]
        return LabelledImages(torch.cat(scaled), split.labels)

    return replace(found, train=resize(found.train), held_out=resize(found.held_out))


def _to_pil(image: UInt8[Tensor, "channels height width"]) -> Any:
    from PIL import Image

    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
