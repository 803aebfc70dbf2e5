"""What every task is: settings that say which data, and data that give batches, a loss and a score.

`leanformer.data.order` says how every random choice is a function of the seed, the step and the sample.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.data.checks import printable
from leanformer.data.order import Order, Share
from leanformer.tasks import TASKS

Batch = tuple[Shaped[Tensor, "batch ..."], ...]
"""A model's inputs and the targets of the loss. The first dimension of every tensor is the sample."""
SHOWN_CLASSES = 6
"""Classes whose names are shown."""


@dataclass(frozen=True)
class Metric:
    """The number that a comparison is about."""

    name: str
    unit: str = ""
    higher_is_better: bool = True
    resolution: float = 0.0
    """The smallest step between two values: the weight of one held-out sample."""

    @property
    def sign(self) -> int:
        """1 if more is better, else −1."""
        return 1 if self.higher_is_better else -1


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a task's data consist of, as it is shown before anything is trained."""

    source: str
    """In words, where the data came from."""
    samples: str = "samples"
    """What a sample is, in the plural: images, texts, windows of 64 tokens."""
    train: int | None = None
    """Training samples; None if every step draws new ones."""
    held_out: int | None = None
    """Samples that give the score; None if it is not known."""
    classes: tuple[str, ...] = ()
    """Names of the classes."""
    tokens: tuple[int, int] | None = None
    """Of texts: tokens for training and held-out ones."""
    notes: tuple[str, ...] = ()
    """How the data were split, what was guessed and what was left out."""

    def lines(self) -> list[str]:
        """In words, one line and one for each note."""
        counts = [f"{self.train:,} training"] if self.train is not None else []
        counts += [f"{self.held_out:,} held-out"] if self.held_out is not None else []
        words = f"{' and '.join(counts)} {self.samples}" if counts else ""
        if self.train is None:
            words = ", ".join(filter(None, ("new training samples at every step", words)))
        if self.tokens is not None:
            words += f" ({self.tokens[0]:,} and {self.tokens[1]:,} tokens)"
        if self.classes:
            more = ", …" if len(self.classes) > SHOWN_CLASSES else ""
            words += f", {len(self.classes):,} classes: {', '.join(self.classes[:SHOWN_CLASSES])}{more}"
        return [f"data: {printable(f'{self.source}: {words}')}", *(f"note: {printable(note)}" for note in self.notes)]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """Which data are learned, and how they are shown to a model. All settings are plain values."""

    @abstractmethod
    def load(self) -> Data:
        """Find and read the data."""

    @functools.cached_property
    def options(self) -> Mapping[str, Any]:
        """Options with which a model fits the data, as `lf.architecture_of` and `lf.create` take them: `Data.options`.

        The data are read for it. A task that knows its options before may have a field or an attribute of this name.
        """
        return load(self).options

    def with_data(self, path: str | Path) -> Task:
        """This task on the data at a user's path. A task without data from outside refuses."""
        raise ValueError(f"the task {TASKS.name_of(type(self))} makes its own data; it cannot read {path}")

    def to_dict(self) -> dict[str, Any]:
        """Plain settings, with the name under which `read` finds the class again, in this process or another."""
        kind = TASKS.name_of(type(self))
        return {"kind": kind, **{name: _plain(value, kind, name) for name, value in asdict(self).items()}}


def _plain(value: Any, kind: str, name: str) -> Any:
    """A setting as a file holds it: a tuple is a list there."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, kind, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, kind, name) for item in value]
    if value is not None and not isinstance(value, (str, int, float)):
        raise ValueError(
            f"the task {kind}: {name} must be plain (numbers, text, lists or mappings), since records keep it; "
            f"got {type(value).__name__} {value!r}"
        )
    return value


def read(plain: Mapping[str, Any]) -> Task:
    """The task of `Task.to_dict`. A task in a file is read only if that file is trusted; see `registry.resolve`."""
    if not isinstance(kind := plain.get("kind"), str):
        raise ValueError(f"a task needs a kind, one of {', '.join(TASKS.names())}; got {kind!r}")
    task = TASKS.get(kind, from_record=True)
    settings = {key: value for key, value in plain.items() if key != "kind"}
    if not (isinstance(task, type) and issubclass(task, Task)):
        from leanformer.tasks.own import as_task, with_settings

        return with_settings(as_task(task, kind, from_record=True), settings)
    if unknown := settings.keys() - {item.name for item in fields(task)}:
        known = ", ".join(item.name for item in fields(task))
        raise ValueError(f"the task {kind} has no setting {', '.join(sorted(unknown))}; it has {known}")
    declared = {item.name: str(item.type) for item in fields(task)}
    tuples = {key for key, value in settings.items() if isinstance(value, list) and declared[key].startswith("tuple")}
    return task(**{key: tuple(value) if key in tuples else value for key, value in settings.items()})


_KEPT: list[tuple[Task, Data]] = []
"""The task whose data were read last. Settings may be lists, as in records, and have no hash."""


def load(task: Task) -> Data:
    """A task's data, kept for the next run of the same process."""
    if not _KEPT or _KEPT[0][0] != task:
        _KEPT[:] = [(task, _checked(task, task.load()))]
    return _KEPT[0][1]


def _checked(task: Task, data: Any) -> Data:
    """What a task's `load` returned, if it says of itself what every task's data say."""
    if not isinstance(data, Data):
        name = task.to_dict()["kind"]
        raise ValueError(f"the task {name} does not load data: needed is an lf.Data, got {type(data).__name__}")
    for attribute, kind, needed in (
        ("metric", Metric, "an lf.Metric"),
        ("source", str, "words that say where the data came from"),
        ("size", (int, type(None)), "a number of training samples, or None if every step draws new ones"),
        ("options", Mapping, "a mapping of options with which models fit the data"),
    ):
        if not isinstance(value := getattr(data, attribute, _MISSING), kind):
            name, got = task.to_dict()["kind"], "nothing" if value is _MISSING else repr(value)
            raise ValueError(f"the data of the task {name}: {attribute} must be {needed}, got {got}")
    return data


_MISSING = object()


class HeldOutSums(dict[str, float]):
    """Sums over held-out samples that also keep each sample's part of the metric, in the order of the share."""

    def __init__(self, *names: str) -> None:
        super().__init__(dict.fromkeys(names, 0.0))
        self.parts: list[Shaped[Tensor, " samples"]] = []

    def in_order(self) -> HeldOutSums:
        """Sums by name, so that all processes have them in one order."""
        other = HeldOutSums()
        other.update(sorted(self.items()))
        other.parts = self.parts
        return other

    def keep(self, parts: Shaped[Tensor, " samples"]) -> Shaped[Tensor, " samples"]:
        """Keep the next samples' parts: right or wrong as booleans, anything else as numbers."""
        self.parts.append(parts.detach().cpu())
        return parts


Same = TypeVar("Same", bound="Data")


class Data(ABC):
    """A task's data, read."""

    metric: Metric
    source: str
    """In words, where the data came from."""
    size: int | None
    """Training samples; None if every step draws new ones."""
    options: Mapping[str, Any] = {}
    """Options with which a model fits the data, in the words of its family: num_classes, img_size and in_chans of
    timm's models, vocab_size and num_labels of language models. Models that do not give an option get it from here."""
    tokens: int | None = None
    """Length of a sequence; images have the size that the options say."""
    own_held_out: bool = False
    """Whether the data bring a held-out part, so that no share of them is held out."""
    baselines: Mapping[str, float] = {}
    """Scores of trivial answers, by what they are."""

    def contents(self) -> Contents:
        """What the data consist of, for people."""
        return Contents(source=self.source, train=self.size)

    def check_model(self, design: Architecture) -> None:
        """Raise a `ValueError` if a model of that design cannot learn these data."""

    def remarks(self, design: Architecture) -> list[str]:
        """What a person should know of a model of that design on these data, before it is trained."""
        return []

    def for_tuning(self) -> Data:
        """The data that settings are tuned on: the training samples alone, some of which take the held-out ones' place.

        Data with a test split give up that split instead, since the verdict is on the test split only.
        """
        raise ValueError(
            f"{self.source} has no part that settings can be tuned on: its class of data, {type(self).__name__}, "
            f"needs a method for_tuning (docs/how_to/own_task.md)"
        )

    def changed(self: Same, **attributes: Any) -> Same:
        """A copy with other attributes, and therefore with another identity and other baselines."""
        other = copy.copy(self)
        for name in list(other.__dict__):
            if isinstance(getattr(type(other), name, None), functools.cached_property):
                del other.__dict__[name]  # computed from what is changed
        for name, value in attributes.items():
            setattr(other, name, value)
        return other

    @functools.cached_property
    def identity(self) -> str:
        """A digest of the samples as models see them; empty if the task does not say it.

        A run resumes only on the data that it began with, and results are compared only if their data are the same.
        """
        return ""

    @abstractmethod
    def batches(self, order: Order, steps: range, share: Share) -> Iterator[Batch]:
        """This share of the batch of each step."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """The mean loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float]:
        """Sums over this share of the held-out samples. The caller adds those of all shares.

        `HeldOutSums` also keep every sample's part of the metric, from which intervals for other samples follow.
        """

    def evaluate_final(self, model: nn.Module, share: Share, device: torch.device) -> dict[str, float] | None:
        """The same sums over a test split, if there is one. It is used once, and then its score counts."""
        return None

    @abstractmethod
    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The metric, by its name, and other numbers that follow from the sums."""

    @abstractmethod
    def probe_batch(self, count: int) -> Shaped[Tensor, "batch ..."] | dict[str, Shaped[Tensor, "batch ..."]]:
        """A fixed batch of held-out inputs, to measure κ on."""

    def preprocessing(self) -> dict[str, Any] | None:
        """How inputs are prepared for a trained model, as `save_pretrained` takes it; None where there is no need."""
        return None

    def accompany(self, folder: Path) -> None:
        """Write beside a trained model what is needed to use it, such as a tokenizer."""
