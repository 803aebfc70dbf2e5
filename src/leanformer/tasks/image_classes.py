"""Image classification, from 8 × 8 digits to ImageNet.

Sets of up to a gigabyte live in memory as bytes and are batched by indexing: no workers, no decoding. Larger ones, and
those that are augmented the way timm does it, are decoded by workers as they are needed. May import timm.data.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from leanformer.data import image_sets as pictures
from leanformer.data.order import Order, Share, stream
from leanformer.tasks.base import Batch, Data, Metric, Task

GIGABYTE = 1 << 30
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")
"""PIL's names of images without colour; a set is read as grey if all of its images are."""
EVALUATED = 500
"""Held-out images that pass through the model at a time."""


@dataclass(frozen=True, kw_only=True)
class ImageClasses(Task):
    """Labelled images and how they are varied in training."""

    dataset: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, imagenet, a folder, or a data set on the hub."""
    root: str | None = None
    """Folder with local data sets; LEANFORMER_DATA by default."""
    img_size: int | None = None
    """Side that images are brought to; as they are by default."""
    shift: int = 0
    """Random shift by up to so many pixels."""
    flip: bool = False
    """Random horizontal flip."""
    auto_augment: str = ""
    """timm's augmentation of decoded images, such as "rand-m9-mstd0.5", with its random resized crop and flip."""
    mixup: float = 0.0
    """α of mixup."""
    cutmix: float = 0.0
    """α of cutmix; with mixup too, each batch draws one of them."""
    label_smoothing: float = 0.0
    workers: int = 4
    """Processes that decode, for sets that do not live in memory."""

    def __post_init__(self) -> None:
        for name in ("shift", "mixup", "cutmix", "workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and less than 1, got {self.label_smoothing}")
        if self.img_size is not None and self.img_size < 1:
            raise ValueError(f"img_size must be at least 1, got {self.img_size}")
        if self.auto_augment and (self.shift or self.flip):
            raise ValueError("auto_augment crops and flips by itself: leave shift and flip out")

    def load(self) -> ImageClassesData:
        found = pictures.find(self.dataset, self.root)
        if not isinstance(found.train.pictures, torch.Tensor):
            first = found.train.pictures[0]
            side = self.img_size or max(first.size)
            fits = len(found.train) * side * side * len(first.getbands()) <= GIGABYTE
            if self.auto_augment or not fits:
                return DecodedImages(self, found)
            found = _into_memory(self, found, first)
        elif self.auto_augment:
            return DecodedImages(self, found)
        elif self.img_size not in (None, found.train.pictures.shape[-1]):
            found = _resized(found, self.img_size)  # type: ignore[arg-type]
        return ImageClassesData(self, found)


class ImageClassesData(Data):
    """Images in memory."""

    def __init__(self, task: ImageClasses, found: pictures.ImageSet) -> None:
        self.task, self.found = task, found
        self.source, self.size, self.classes = found.source, len(found.train), found.classes
        self.metric = Metric("accuracy", "%", resolution=100 / len(found.held_out))
        self.mixing = _mixing(task, found.classes)
        self._prepare()

    def _prepare(self) -> None:
        self.images, self.held_out = map(torch.as_tensor, (self.found.train.pictures, self.found.held_out.pictures))
        seen = self.images[:5000].float()
        self.mean, self.spread = (seen.mean((0, 2, 3))[:, None, None], seen.std((0, 2, 3))[:, None, None].clamp(min=1))
        channels, height, width = self.images.shape[1:]
        self.options: Mapping[str, Any] = {
            "num_classes": self.classes,
            "in_chans": channels,
            "img_size": height if height == width else [height, width],
        }

    def normalised(self, images: torch.Tensor) -> torch.Tensor:
        return (images.float() - self.mean) / self.spread

    # Training

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        for step in steps:
            rows = torch.from_numpy(part.of(order.indices(step)))
            images = self.images[rows]
            if self.task.flip or self.task.shift:
                images = self._varied(images, stream(order.seed, step), order.batch_at(step), part)
            yield self._mixed(self.normalised(images), self.found.train.labels[rows], (order.seed, step))

    def _varied(self, images: torch.Tensor, draw: np.random.Generator, batch: int, part: Share) -> torch.Tensor:
        """Shifted and flipped at random; the draws are those of the whole batch, whatever part this is."""
        if self.task.flip:
            flipped = torch.from_numpy(part.of(draw.random(batch) < 0.5))
            images = torch.where(flipped[:, None, None, None], images.flip(-1), images)
        if reach := self.task.shift:
            down, right = (torch.from_numpy(part.of(draw.integers(0, 2 * reach + 1, batch))) for _ in range(2))
            height, width = images.shape[-2:]
            rows, columns = down[:, None] + torch.arange(height), right[:, None] + torch.arange(width)
            padded = F.pad(images, (reach,) * 4)
            sample = torch.arange(len(images))[:, None, None]
            images = padded[sample, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return images

    def _mixed(self, images: torch.Tensor, labels: torch.Tensor, key: tuple[int, ...]) -> Batch:
        """timm mixes a batch with its mirror image; here that pairs neighbours: parts pair as the whole does."""
        if self.mixing is None:
            return images, labels
        if len(images) % 2:
            raise ValueError(f"mixup and cutmix pair images: a process needs an even number of them, got {len(images)}")
        pairs = torch.cat([torch.arange(0, len(images), 2), torch.arange(1, len(images), 2).flip(0)])
        with seeded(*key):
            return self.mixing(images[pairs], labels[pairs])

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        images, targets = batch
        smoothing = 0.0 if self.mixing is not None else self.task.label_smoothing  # mixing has smoothed the labels
        return F.cross_entropy(model(images), targets, label_smoothing=smoothing)

    # Evaluation

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: Share, device: torch.device) -> dict[str, float]:
        sums = dict.fromkeys(("loss", "correct", "correct5", "count"), 0.0)
        for images, labels in self.held_out_batches(part):
            logits, wanted = model(images.to(device)).float(), labels.to(device)
            ranked = logits.topk(min(5, self.classes), dim=-1).indices == wanted[:, None]
            sums["loss"] += F.cross_entropy(logits, wanted, reduction="sum").item()
            sums["correct"] += ranked[:, 0].sum().item()
            sums["correct5"] += ranked.sum().item()
            sums["count"] += len(labels)
        return sums

    def held_out_batches(self, part: Share) -> Iterator[Batch]:
        rows = torch.arange(*_bounds(part.strided(len(self.held_out))))
        for chosen in rows.split(EVALUATED):
            yield self.normalised(self.held_out[chosen]), self.found.held_out.labels[chosen]

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        found = {"accuracy": 100 * sums["correct"] / sums["count"], "loss": sums["loss"] / sums["count"]}
        return found | ({"top5": 100 * sums["correct5"] / sums["count"]} if self.classes > 20 else {})

    def probe_batch(self, count: int) -> torch.Tensor:
        return self.normalised(self.held_out[:count])


class DecodedImages(ImageClassesData):
    """Images that workers decode and augment as they are needed, by timm's transforms."""

    def _prepare(self) -> None:
        from timm.data import create_transform

        side = self.task.img_size or 224
        self.options = {"num_classes": self.classes, "in_chans": 3, "img_size": side}
        self.show = create_transform(side, is_training=False, interpolation="bicubic")
        if self.task.auto_augment:
            named = self.task.auto_augment
            self.augment = create_transform(side, is_training=True, auto_augment=named, interpolation="bicubic")
        else:
            self.augment = self._shifted_and_flipped(side)

    def _shifted_and_flipped(self, side: int) -> Any:
        """What images in memory are put through, for decoded ones."""
        from torchvision import transforms

        resize, crop, *rest = self.show.transforms
        shift = [transforms.RandomCrop(side, padding=self.task.shift)] if self.task.shift else []
        flip = [transforms.RandomHorizontalFlip()] if self.task.flip else []
        return transforms.Compose([resize, crop, *shift, *flip, *rest])

    def batches(self, order: Order, steps: range, part: Share) -> Iterator[Batch]:
        """Each sample is augmented by a draw of its own: workers and processes change nothing."""
        keys = Keys(order, steps, part)
        for step, (images, labels) in zip(steps, self._loader(self.found.train, self.augment, keys), strict=True):
            yield self._mixed(images, labels, (order.seed, step))

    def held_out_batches(self, part: Share) -> Iterator[Batch]:
        rows = part.strided(len(self.found.held_out))
        keys = [[(row, (row,)) for row in rows[start : start + 64]] for start in range(0, len(rows), 64)]
        yield from self._loader(self.found.held_out, self.show, keys)

    def _loader(self, split: pictures.LabelledImages, transform: Any, batches: Iterable[Any]) -> Iterator[Batch]:
        loader: DataLoader = DataLoader(
            Decoded(split, transform),  # type: ignore[arg-type]
            batch_sampler=batches,  # type: ignore[arg-type]
            num_workers=self.task.workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # else the loader would draw a seed from the training's own generator
        )
        try:
            yield from ((images, labels) for images, labels in loader)
        except ValueError as error:  # a worker's error comes with its whole trace; the last line says what is wrong
            raise ValueError(str(error).strip().splitlines()[-1].removeprefix("ValueError: ")) from error

    def probe_batch(self, count: int) -> torch.Tensor:
        decoded = Decoded(self.found.held_out, self.show)
        return torch.stack([decoded[row, (row,)][0] for row in range(min(count, len(self.found.held_out)))])


@dataclass(frozen=True)
class Keys:
    """What to decode for each step: rows, each with the key of its draw."""

    order: Order
    steps: range
    part: Share

    def __iter__(self) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
        for step in self.steps:
            yield [(int(row), (self.order.seed, step, int(row))) for row in self.part.of(self.order.indices(step))]


class Decoded(Dataset):
    """One sample at a time, transformed under a seed of its own."""

    def __init__(self, split: pictures.LabelledImages, transform: Any) -> None:
        self.split, self.transform = split, transform

    def __getitem__(self, key: tuple[int, tuple[int, ...]]) -> tuple[torch.Tensor, int]:
        row, seed = key
        picture = self.split.pictures[row]
        if isinstance(picture, torch.Tensor):
            picture = _to_pil(picture)
        with seeded(*seed):
            return self.transform(pictures.in_colour(picture)), int(self.split.labels[row])


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """timm draws from the global generators: inside, they start from the key; afterwards they are as before."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    words = np.random.SeedSequence(key).generate_state(4)
    with torch.random.fork_rng(devices=[]):
        np.random.seed(words)
        random.seed(words.tobytes())
        torch.default_generator.manual_seed(int(words[0]))  # that of the CPU alone: a GPU's draws are the model's
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _mixing(task: ImageClasses, classes: int) -> Any:
    if not task.mixup and not task.cutmix:
        return None
    from timm.data import Mixup

    return Mixup(task.mixup, task.cutmix, label_smoothing=task.label_smoothing, num_classes=classes)


def _bounds(rows: range) -> tuple[int, int, int]:
    return rows.start, max(rows.stop, rows.start), rows.step


# Bringing images to one size


def _into_memory(task: ImageClasses, found: pictures.ImageSet, first: Any) -> pictures.ImageSet:
    size = (task.img_size, task.img_size) if task.img_size else first.size
    grey = True

    def prepare(picture: Any) -> Any:
        nonlocal grey
        grey = grey and picture.mode in GREY
        picture = pictures.in_colour(picture)
        if picture.size != size:
            if task.img_size is None:
                one, other = (" × ".join(map(str, pair)) for pair in (size, picture.size))
                raise ValueError(
                    f"{found.source}: images differ in size ({one}, {other}); give one, as in --set task.img_size=64"
                )
            picture = _square(picture, task.img_size)
        return picture

    read = [pictures.in_memory(split.pictures, prepare) for split in (found.train, found.held_out)]  # type: ignore[arg-type]
    train, held_out = (
        pictures.LabelledImages(images[:, :1].contiguous() if grey else images, split.labels)
        for images, split in zip(read, (found.train, found.held_out), strict=True)
    )
    return pictures.ImageSet(train, held_out, found.classes, found.source)


def _square(picture: Any, side: int) -> Any:
    """Scaled until the shorter side fits, and cut to the middle."""
    from PIL import Image

    scale = side / min(picture.size)
    width, height = (max(side, math.ceil(length * scale)) for length in picture.size)
    left, top = (width - side) // 2, (height - side) // 2
    return picture.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))


def _resized(found: pictures.ImageSet, side: int) -> pictures.ImageSet:
    def resize(split: pictures.LabelledImages) -> pictures.LabelledImages:
        scaled = [
            F.interpolate(chunk.float(), (side, side), mode="bilinear", antialias=True).round().byte()
            for chunk in torch.as_tensor(split.pictures).split(1000)
        ]
        return pictures.LabelledImages(torch.cat(scaled), split.labels)

    return pictures.ImageSet(resize(found.train), resize(found.held_out), found.classes, found.source)


def _to_pil(picture: torch.Tensor) -> Any:
    from PIL import Image

    array = picture.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
