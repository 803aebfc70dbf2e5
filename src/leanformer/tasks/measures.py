"""Losses and scores by name, for tasks that a user puts together from a data set.

Everything keeps to samples: a loss and a mean are, of each sample, a sum over its elements and how many there are. So a
score does not depend on how samples are divided into batches and processes, and one sample's part of it is known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_leaves

IGNORED = -100
"""The class of elements that do not count, such as padding and pixels without a label."""

Parts = tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]
"""Of each sample: the sum over its elements, and how many there are."""
Sums = Mapping[str, float]


# Shapes


def aligned(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs with the classes in the last dimension; targets are classes by number, or shares of the same shape.

    The classes are last in the outputs for sequences (batch, tokens, classes), and second for images (batch, classes,
    height, width).
    """
    shape, image = outputs.shape, outputs.ndim > 3
    if targets.shape == shape:
        return (outputs.movedim(1, -1), targets.movedim(1, -1)) if image else (outputs, targets)
    for second in (image, not image):
        if targets.shape == ((shape[0], *shape[2:]) if second else shape[:-1]):
            return outputs.movedim(1, -1) if second else outputs, targets
    raise ValueError(
        f"outputs {list(shape)} do not fit targets {list(targets.shape)}: each target needs one output for every class"
    )


def matched(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs in the shape of the targets. Only a last dimension of 1 is dropped: outputs of 8 × 1 and 8 targets would
    otherwise silently become 8 × 8 differences."""
    if outputs.shape == (*targets.shape, 1):
        return outputs.squeeze(-1)
    if outputs.shape != targets.shape:
        raise ValueError(f"outputs {list(outputs.shape)} and targets {list(targets.shape)} must have the same shape")
    return outputs


def first_tensor(structure: Any) -> Tensor:
    """The first tensor of a structure of tensors."""
    return next(found for found in tree_leaves(structure) if isinstance(found, Tensor))


def _parts(values: Tensor, counted: Tensor) -> Parts:
    values, counted = (tensor.reshape(len(tensor), -1) for tensor in (values, counted))
    return (values * counted).sum(1), counted.to(values.dtype).sum(1)


# Losses


def cross_entropy(outputs: Tensor, targets: Tensor) -> Parts:
    logits, wanted = aligned(outputs, targets)
    if wanted.shape == logits.shape:
        values = -(wanted * logits.log_softmax(-1)).sum(-1)
        return _parts(values, torch.ones_like(values))
    values = F.cross_entropy(logits.flatten(0, -2), wanted.flatten().long(), reduction="none", ignore_index=IGNORED)
    return _parts(values.view(wanted.shape), wanted != IGNORED)


def _elementwise(function: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Parts]:
    def parts(outputs: Tensor, targets: Tensor) -> Parts:
        values = function(matched(outputs, targets), targets.to(outputs.dtype), reduction="none")
        return _parts(values, torch.ones_like(values))

    return parts


LOSSES: dict[str, Callable[[Tensor, Tensor], Parts]] = {
    "cross-entropy": cross_entropy,
    "bce": _elementwise(F.binary_cross_entropy_with_logits),
    "mse": _elementwise(F.mse_loss),
    "mae": _elementwise(F.l1_loss),
    "huber": _elementwise(F.huber_loss),
}
"""Losses by name. The last three compare numbers; bce takes logits, and targets of 0 and 1 for each label."""
UNITS = {"cross-entropy": "nats", "bce": "nats"}


# Scores


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """What is computed from held-out samples: sums that can be added, and the number that follows from them."""

    name: str
    unit: str = ""
    higher_is_better: bool = True

    @abstractmethod
    def sums(self, outputs: Any, targets: Any) -> dict[str, float]:
        """Sums over a batch."""

    @abstractmethod
    def value(self, sums: Sums) -> float:
        """The score of the sums over all samples."""

    def parts(self, outputs: Any, targets: Any) -> Tensor | None:
        """Of each sample, what it adds to the score: right or wrong, or a number; None if the score is no sum."""
        return None

    def nothing(self) -> dict[str, float]:
        """Sums over no samples: a process may have none."""
        return {"total": 0.0, "count": 0.0}

    def resolution(self, samples: int, elements: int) -> float:
        """The smallest step between two scores of so many samples, each with so many elements; 0 if there is none."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Mean(Score):
    """The mean over samples, or over their elements."""

    of_samples: Callable[[Tensor, Tensor], Parts]

    def sums(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        total, count = self.of_samples(outputs, targets)
        return {"total": total.double().sum().item(), "count": count.double().sum().item()}

    def value(self, sums: Sums) -> float:
        return sums["total"] / sums["count"] if sums["count"] else math.nan

    def parts(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        return self.of_samples(outputs, targets)[0].float()


@dataclass(frozen=True, kw_only=True)
class ShareRight(Mean):
    """The percentage of samples, or of their elements, that are predicted right."""

    unit: str = "%"
    whole: bool = False
    """Whether a sample counts as one, right if all of its elements are."""

    def value(self, sums: Sums) -> float:
        return 100 * super().value(sums)

    def parts(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        right, count = self.of_samples(outputs, targets)
        return right.bool() if bool((count == 1).all()) else right.float()

    def resolution(self, samples: int, elements: int) -> float:
        return 100 / (samples * (1 if self.whole else elements))


@dataclass(frozen=True, kw_only=True)
class OverClasses(Score):
    """The mean over classes of a share that follows from how often each class is hit, predicted and wanted."""

    unit: str = "%"
    classes: int
    labels: bool
    """Whether a sample has any number of labels, each decided on its own."""
    share: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """Numerator and denominator, of hits, predictions and targets by class."""
    pooled: bool = False
    """Whether hits, predictions and targets are added over the classes first."""

    def sums(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        given, wanted = predictions(outputs, targets, self.labels)
        if self.labels:
            given, wanted = (tensor.reshape(-1, self.classes).long() for tensor in (given, wanted))
            counts = [(given * wanted).sum(0), given.sum(0), wanted.sum(0)]
        else:
            given, wanted = given[wanted != IGNORED], wanted[wanted != IGNORED]
            counts = [self._counts(part) for part in (wanted[given == wanted], given, wanted)]
        return dict(zip(self.nothing(), torch.cat(counts).double().tolist(), strict=True))

    def _counts(self, classes: Tensor) -> Tensor:
        if len(classes) and (highest := int(classes.max())) >= self.classes:
            raise ValueError(f"{self.name} counts {self.classes} classes from 0 on, and class {highest} occurred")
        return torch.bincount(classes, minlength=self.classes)

    def value(self, sums: Sums) -> float:
        counts = torch.tensor([sums[key] for key in self.nothing()], dtype=torch.float64).view(3, self.classes)
        numerator, denominator = self.share(*(counts.sum(1, keepdim=True) if self.pooled else counts))
        present = denominator > 0  # a class that neither occurs nor is predicted does not count
        return 100 * (numerator[present] / denominator[present]).mean().item()

    def nothing(self) -> dict[str, float]:
        words = ("hits", "predicted", "wanted")
        return {f"{word} {index}": 0.0 for word in words for index in range(self.classes)}


@dataclass(frozen=True, kw_only=True)
class OwnScore(Score):
    """A user's function of outputs and targets: one number per sample, or their mean."""

    function: Callable[[Any, Any], Any]

    def sums(self, outputs: Any, targets: Any) -> dict[str, float]:
        found, count = torch.as_tensor(self.function(outputs, targets)), len(first_tensor(targets))
        if found.ndim > 1 or (found.ndim == 1 and len(found) != count):
            raise ValueError(
                f"{self.name} gives numbers of shape {list(found.shape)} for {count} samples; "
                "needed is one number per sample, or their mean"
            )
        return {"total": (found.double().sum() * (1 if found.ndim else count)).item(), "count": float(count)}

    def value(self, sums: Sums) -> float:
        return sums["total"] / sums["count"]

    def parts(self, outputs: Any, targets: Any) -> Tensor | None:
        found = torch.as_tensor(self.function(outputs, targets))
        return found.float() if found.ndim == 1 else None


@dataclass(frozen=True, kw_only=True)
class OwnSums(Score):
    """A user's sums over a batch, and the user's number that follows from all of them."""

    of_batch: Callable[[Any, Any], Mapping[str, Any]]
    of_sums: Callable[[Sums], Any]

    def sums(self, outputs: Any, targets: Any) -> dict[str, float]:
        return {str(key): float(value) for key, value in self.of_batch(outputs, targets).items()}

    def value(self, sums: Sums) -> float:
        return float(self.of_sums(sums))

    def nothing(self) -> dict[str, float]:
        return {}


# Scores by name


def predictions(outputs: Tensor, targets: Tensor, labels: bool) -> tuple[Tensor, Tensor]:
    """What is predicted and what is wanted: classes by number, or for each label whether it is given."""
    if labels:
        return matched(outputs, targets) > 0, targets > 0.5
    logits, wanted = aligned(outputs, targets)
    return logits.argmax(-1), wanted.argmax(-1) if wanted.shape == logits.shape else wanted.long()


def _right(labels: bool, whole: bool) -> Callable[[Tensor, Tensor], Parts]:
    def parts(outputs: Tensor, targets: Tensor) -> Parts:
        given, wanted = predictions(outputs, targets, labels)
        counted = torch.ones_like(wanted, dtype=torch.bool) if labels else wanted != IGNORED
        right = given == wanted
        if whole:
            right = (right | ~counted).reshape(len(right), -1).all(1)
            counted = torch.ones_like(right)
        return _parts(right.float(), counted)

    return parts


def _f1(hits: Tensor, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    return 2 * hits, given + wanted


def _iou(hits: Tensor, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    return hits, given + wanted - hits


SCORES = ("accuracy", "token-accuracy", "exact-match", "f1", "f1-micro", "mean-iou", "mse", "mae", "loss")
"""Scores by name."""


def named(name: str, loss: str, labels: bool, classes: int | None) -> Score:
    """The score of that name.

    Args:
        name: one of `SCORES`.
        loss: the name of the task's loss; empty if it has none.
        labels: whether a sample has any number of labels.
        classes: how many classes or labels there are, where they are counted.
    """
    if name not in SCORES:
        raise ValueError(f"there is no metric {name!r}: there are {', '.join(SCORES)}; or give a function")
    if name == "loss":
        if loss not in LOSSES:
            raise ValueError('metric="loss" needs a loss by name: give a function with one number per sample instead')
        return Mean(name=name, unit=UNITS.get(loss, ""), higher_is_better=False, of_samples=LOSSES[loss])
    if name in ("mse", "mae"):
        return Mean(name=name, higher_is_better=False, of_samples=LOSSES[name])
    if name in ("accuracy", "token-accuracy", "exact-match"):
        whole = name == "exact-match"
        return ShareRight(name=name, whole=whole, of_samples=_right(labels, whole))
    if classes is None:
        raise ValueError(f"metric={name!r} counts classes: give classes, or num_classes in the options")
    share = _iou if name == "mean-iou" else _f1
    return OverClasses(name=name, classes=classes, labels=labels, share=share, pooled=name == "f1-micro")
