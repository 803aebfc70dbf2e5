"""The data of a task of the user's own: samples by number, each read with random generators seeded for it.

Before a training sample is read, the generators of Python, NumPy and torch are seeded with the run's seed, the step and
the sample's number. So random augmentation inside the data set is new in every epoch, and is the same in every arm, in
a resumed run, and with any number of workers and processes. Held-out samples are read alike every time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from torch.utils.data import DataLoader, Dataset, Subset, default_collate, get_worker_info

from leanformer.data.order import Order, Share, tuning_rows
from leanformer.foundation.registry import in_one_line
from leanformer.tasks import measures
from leanformer.tasks.base import Batch, Contents, Data, HeldOutSums, Metric
from leanformer.tasks.measures import LOSSES, Score
from leanformer.tasks.seeding import Key, Keys, generators_kept, seed_generators

if TYPE_CHECKING:
    from leanformer.tasks.own import OwnTask


@dataclass(frozen=True)
class _Unreadable:
    """Why there is no batch. Readers in other processes hand it over; an error would keep them from ending."""

    why: str
    error: Exception | None
    """What happened, if it happened in this process."""

    @classmethod
    def since(cls, error: Exception, what: str, remedy: str = "") -> _Unreadable:
        return cls(f"{what}: {in_one_line(error)}{remedy}", error if get_worker_info() is None else None)


class _Samples(Dataset[Any]):
    """A data set whose samples are each read with generators seeded for them."""

    def __init__(self, data: Any, name: str) -> None:
        self.data, self.name = data, name

    def __getitems__(self, keys: Sequence[tuple[int, Key]]) -> list[Any] | _Unreadable:
        found = []
        with generators_kept():
            for row, key in keys:
                seed_generators(*key)
                try:
                    found.append(self.data[row])
                except Exception as error:
                    return _Unreadable.since(error, f"sample {row} of {self.name} cannot be read")
        return found


class OwnData(Data):
    """A user's data set in batches, with the user's loss and metric."""

    def __init__(self, own: OwnTask, train: Any, held_out: Any, test: Any) -> None:
        self.task, self.train, self.held_out, self.test = own, train, held_out, test
        self.size, self.options = len(train), own.options
        first, self.structure = self._one_batch(range(1))
        inputs, targets = self._parts(first)
        self.score_of = self._score(targets)
        self.metric = Metric(
            self.score_of.name,
            self.score_of.unit,
            self.score_of.higher_is_better,
            self.score_of.resolution(len(held_out if test is None else test), measures.first_tensor(targets).numel()),
        )
        ids = measures.first_tensor(inputs)
        counted = ids.shape[1] if ids.ndim > 1 and not ids.is_floating_point() else None
        self.tokens = own.tokens if own.tokens is not None else counted
        self.source = own.source or f"{own.reference().rpartition(':')[2]} ({type(train).__name__})"

    def for_tuning(self) -> OwnData:
        if self.test is not None:  # whose score counts, so the held-out samples are free
            return self.changed(test=None)
        parts = tuning_rows(len(self.train), most=len(self.held_out))
        train, held_out = (Subset(self.train, rows.tolist()) for rows in parts)
        return OwnData(self.task, train, held_out, None)

    def contents(self) -> Contents:
        return Contents(source=self.source, train=self.size, held_out=len(self.held_out))

    def _score(self, targets: Any) -> Score:
        own = self.task
        if isinstance(own.metric, str):
            floating = measures.first_tensor(targets).is_floating_point()
            labels = own.loss == "bce" or (callable(own.loss) and floating)
            classes = own.classes if own.classes is not None else own.options.get("num_classes")
            return measures.named(own.metric, own.loss if isinstance(own.loss, str) else "", labels, classes)
        about: dict[str, Any] = dict(name=own.metric_name, unit=own.unit, higher_is_better=own.higher_is_better)
        if isinstance(own.metric, tuple):
            return measures.OwnSums(of_batch=own.metric[0], of_sums=own.metric[1], **about)
        return measures.OwnScore(function=own.metric, **about)

    # Batches

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[Batch]:
        for leaves, structure in self._read(self.train, "train", Keys(order, steps, share)):
            if structure != self.structure:
                parts = (found.num_leaves for found in (structure, self.structure))
                raise ValueError(
                    "train and held_out must give batches of one form; they have {} and {} parts".format(*parts)
                )
            yield leaves

    def _one_batch(self, rows: range) -> tuple[Batch, TreeSpec]:
        """Held-out samples, read in this process."""
        return next(self._read(self.held_out, "held_out", [[(row, (row,)) for row in rows]], workers=0))

    def _read(
        self, data: Any, name: str, keys: Iterable[Any], workers: int | None = None
    ) -> Iterator[tuple[Batch, TreeSpec]]:
        loader: DataLoader[Any] = DataLoader(
            _Samples(data, name),
            batch_sampler=keys,
            num_workers=self.task.workers if workers is None else workers,
            collate_fn=functools.partial(_collated, self.task.collate or default_collate),
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # else the loader would draw a seed from the training's own generator
        )
        yield from map(_flattened, loader)

    def _parts(self, leaves: Sequence[Any]) -> tuple[Any, Any]:
        """Inputs and targets of a batch."""
        batch = tree_unflatten(list(leaves), self.structure)
        if isinstance(batch, Mapping):
            if "labels" not in batch:
                raise ValueError(f'a sample that is a mapping needs "labels"; it has {", ".join(map(str, batch))}')
            return {key: value for key, value in batch.items() if key != "labels"}, batch["labels"]
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise ValueError(f"a sample must be (inputs, target) or a mapping with labels, got {type(batch).__name__}")
        *inputs, targets = batch
        return inputs[0] if len(inputs) == 1 else tuple(inputs), targets

    # Training and evaluation

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        outputs, targets = self._outputs(model, batch)
        total, count = self._losses(outputs, targets)
        return total / count

    def _losses(self, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a batch, and of how many elements."""
        given, own_loss = self.task.loss, self.task.loss_name
        if isinstance(given, str):
            total, count = self._computed(f"the loss {given}", LOSSES[given], outputs, targets)
            return total.sum(), count.sum().clamp(min=1)
        found = self._computed(f"the loss {own_loss}", given, outputs, targets)
        if not isinstance(found, Tensor) or found.numel() != 1:
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(f"the loss {own_loss} must return a tensor with one number, got {shape}")
        count = torch.tensor(float(len(measures.first_tensor(targets))), device=found.device)
        return found.reshape(()) * count, count

    def _outputs(self, model: nn.Module, batch: Batch) -> tuple[Any, Any]:
        inputs, targets = self._parts(batch)
        outputs = self._computed("the model's call", self.task.forward or called, model, inputs)
        outputs = getattr(outputs, "logits", outputs)
        return outputs.float() if isinstance(outputs, Tensor) else outputs, targets

    def _computed(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns. What it cannot compute is reported with the shapes that it was given."""
        try:
            return function(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            given = ", ".join(_shapes(argument) for argument in arguments if not isinstance(argument, nn.Module))
            raise ValueError(f"{what} fails on {given}: {in_one_line(error)}") from error

    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        return self._sums(self.held_out, "held_out", model, share, device)

    def evaluate_final(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float] | None:
        return None if self.test is None else self._sums(self.test, "test", model, share, device)

    @torch.no_grad()
    def _sums(self, data: Any, name: str, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        sums = HeldOutSums("loss", "elements", *(f"score.{key}" for key in self.score_of.nothing()))
        if len(data) < share.count:
            raise ValueError(f"{name} has {len(data)} samples, fewer than the {share.count} processes")
        rows, many = share.strided(len(data)), self.task.evaluated
        keys = [[(row, (row,)) for row in rows[start : start + many]] for start in range(0, len(rows), many)]
        for leaves, _ in self._read(data, name, keys):
            on_device = tuple(leaf.to(device) if isinstance(leaf, Tensor) else leaf for leaf in leaves)
            outputs, targets = self._outputs(model, on_device)
            total, count = self._losses(outputs, targets)
            found = self._computed(f"the metric {self.score_of.name}", self.score_of.sums, outputs, targets)
            if (parts := self.score_of.parts(outputs, targets)) is not None:
                sums.keep(parts)
            for key, value in {"loss": total.item(), "elements": count.item(), **_scored(found)}.items():
                sums[key] = sums.get(key, 0.0) + value
        return sums.in_order()

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        found = {key.removeprefix("score."): value for key, value in sums.items() if key.startswith("score.")}
        value = self._computed(f"the metric {self.score_of.name}", self.score_of.value, found)
        if math.isnan(value):
            raise ValueError(f"the metric {self.score_of.name} of the held-out samples is not a number")
        return {"loss": sums["loss"] / max(sums["elements"], 1.0), self.score_of.name: value}

    def probe_batch(self, count: int) -> Any:
        if self.task.probe is not None:
            return tree_map(lambda value: value[:count] if isinstance(value, Tensor) else value, self.task.probe)
        return self._parts(self._one_batch(range(min(count, len(self.held_out))))[0])[0]


def called(model: nn.Module, inputs: Any) -> Any:
    """A model's outputs: a mapping is given by name, several tensors one after the other."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def _collated(collate: Callable[[list[Any]], Any], samples: list[Any] | _Unreadable) -> Any:
    if isinstance(samples, _Unreadable):
        return samples
    try:
        return collate(samples)
    except Exception as error:
        return _Unreadable.since(error, "samples cannot be put into a batch", "; give collate")


def _flattened(batch: Any) -> tuple[Batch, TreeSpec]:
    """A batch as tensors, and its structure. The numbers of Python and NumPy are float64, which models are not."""
    if isinstance(batch, _Unreadable):
        raise ValueError(batch.why) from batch.error
    leaves, structure = tree_flatten(batch)
    for leaf in leaves:
        if not isinstance(leaf, Tensor) or leaf.ndim == 0:
            raise ValueError(
                f"a batch must be made of tensors with one row per sample, got {type(leaf).__name__}; give collate"
            )
    return tuple(leaf.float() if leaf.dtype == torch.float64 else leaf for leaf in leaves), structure


def _scored(sums: Mapping[str, float]) -> dict[str, float]:
    return {f"score.{key}": value for key, value in sums.items()}


def _shapes(value: Any) -> str:
    leaves = [
        f"{list(leaf.shape)} {str(leaf.dtype).removeprefix('torch.')}"
        for leaf in tree_flatten(value)[0]
        if isinstance(leaf, Tensor)
    ]
    return " and ".join(leaves) or type(value).__name__
