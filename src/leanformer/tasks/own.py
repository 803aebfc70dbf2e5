"""A task of the user's own: a data set, a loss and a metric are enough.

Worker processes and resumed runs find it again by a reference: to the module that holds it under a name, or to the
function or recipe that makes it. What no reference leads to is trained in this process only.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import IterableDataset

from leanformer.foundation.registry import (
    CODE_VARIABLE,
    absolute,
    in_one_line,
    may_call,
    only_here,
    reference_to,
    trust,
)
from leanformer.tasks import TASKS, measures
from leanformer.tasks.base import Task, read
from leanformer.tasks.measures import LOSSES
from leanformer.tasks.own_data import OwnData

_MADE: weakref.WeakKeyDictionary[Callable[..., Any], weakref.ref[Task]] = weakref.WeakKeyDictionary()
"""Tasks that functions made in this process: each function is called once."""

Loss = str | Callable[[Any, Any], Tensor]
Measured = str | Callable[[Any, Any], Any] | tuple[Callable[[Any, Any], Mapping[str, Any]], Callable[[Any], Any]]


def task(
    *,
    train: Any,
    held_out: Any,
    loss: Loss,
    metric: Measured,
    test: Any = None,
    higher_is_better: bool | None = None,
    unit: str = "",
    options: Mapping[str, Any] | None = None,
    classes: int | None = None,
    tokens: int | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    probe: Any = None,
    source: str = "",
    workers: int = 0,
    evaluated: int = 64,
) -> Task:
    """A task made of a data set, a loss and a metric, for `lf.Recipe(task=…)`.

    >>> flowers = lf.task(
    ...     train=train_set,
    ...     held_out=test_set,
    ...     loss="cross-entropy",
    ...     metric="accuracy",
    ...     options={"num_classes": 5, "img_size": 32},
    ... )

    Assign it to a name at the top level of a module or file: worker processes and resumed runs import it from there.
    Elsewhere, as in a notebook, its runs are trained in this process, one at a time.

    Args:
        train, held_out: data sets with `len` and indexing, or functions that return them. A sample is
            `(inputs, target)`, or a mapping with "labels". Inputs are a tensor, several, or a mapping; the model is
            called with them.
        loss: cross-entropy (targets of −100 are ignored), bce (any number of labels), mse, mae or huber; or a
            function of outputs and targets that returns one number.
        metric: accuracy, token-accuracy, exact-match, f1 (mean over classes), f1-micro, mean-iou, mse, mae or loss; or
            a function of outputs and targets that returns one number per sample, or their mean; or two functions: one
            returns sums over a batch by name, the other the score of the sums over all batches.
        test: data for the final score, used once. Without it, the score is that of the held-out samples.
        higher_is_better, unit: for a metric that is a function.
        options: what a model needs to fit the data, such as num_classes, img_size, in_chans or vocab_size.
        classes: classes or labels that f1 and mean-iou count [default: num_classes of the options].
        tokens: length of a sequence [default: that of the first sample, if it is made of whole numbers].
        collate: a function that makes a batch of a list of samples [default: torch's `default_collate`].
        forward: a function of model and inputs that returns the outputs [default: the model's call, and its logits].
        probe: inputs on which κ is measured [default: those of the first held-out samples].
        source: in words, where the data came from.
        workers: processes that read samples.
        evaluated: held-out samples that pass through the model at once.
    """
    return OwnTask(
        train=train,
        held_out=held_out,
        test=test,
        loss=loss,
        metric=metric,
        higher_is_better=higher_is_better,
        unit=unit,
        options=dict(options or {}),
        classes=classes,
        tokens=tokens,
        collate=collate,
        forward=forward,
        probe=probe,
        source=source,
        workers=workers,
        evaluated=evaluated,
        homes=_calling_modules(),
    )


def as_task(given: Any, reference: str = "", *, from_record: bool = False) -> Task:
    """A task from what stands for one: a task, a function that returns one, or a reference to either.

    A recipe, and a function that returns one, stands for its task.

    Args:
        given: what the user gave, or what a reference led to.
        reference: by which other processes find it; by default that of the function.
        from_record: whether a file named it. Then a function is called only if the user named its module.
    """
    if isinstance(given, str):
        return as_task(TASKS.get(given), given)
    if isinstance(given, type) and issubclass(given, Task):
        return given()
    reference = absolute(reference)
    if isinstance(given, Task) or not callable(given):
        return _through(reference, _task_of(given, reference))
    if (known := _MADE.get(given, lambda: None)()) is not None:
        return known
    reference = reference or reference_to(given)
    return made_by(given, reference, _task_of(_called(given, reference, from_record), reference))


def made_by(function: Callable[..., Any], reference: str, task: Task) -> Task:
    """A task that a function made, alone or in a recipe: in other processes the function leads to it."""
    task = _through(reference, task)
    _MADE[function] = weakref.ref(task)
    trust(function)
    return task


def _through(reference: str, task: Task) -> Task:
    """A task that a reference leads to; it is needed where no module holds the task under a name."""
    leads = bool(reference) and not only_here(reference)
    return replace(task, made_by=reference) if leads and isinstance(task, OwnTask) and task.is_only_here() else task


def _task_of(given: Any, reference: str) -> Task:
    found = given if isinstance(given, Task) else getattr(given, "task", None)
    if not isinstance(found, Task):
        raise ValueError(_not_a_task(reference, given))
    return found


def with_settings(found: Task, settings: Mapping[str, Any]) -> Task:
    """A task with other settings. One of `lf.task` must have those that a record says, since its code decides them."""
    return found.unchanged(settings) if isinstance(found, OwnTask) else read({**found.to_dict(), **settings})


def _called(function: Callable[..., Any], reference: str, from_record: bool) -> Any:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        raise ValueError(_not_a_task(reference, function)) from None
    if from_record and not may_call(function):
        raise ValueError(
            f'a record names a function, "{reference}"; if you trust it, set {CODE_VARIABLE}='
            f"{reference.rpartition(':')[0]} and try again"
        )
    try:
        return function()
    except Exception as error:
        raise ValueError(f'"{reference}" fails: {in_one_line(error)}') from error


def _not_a_task(reference: str, given: Any) -> str:
    got = repr(given) if callable(given) else type(given).__name__
    return (
        f'"{reference}" is not a task: needed is a subclass of leanformer.tasks.Task, a task of lf.task, or a function '
        f"without arguments that returns one, got {got}"
    )


def _calling_modules() -> tuple[str, ...]:
    """The modules that lead to the call of `task`, the nearest first: one of them may hold the task under a name."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        found.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(dict.fromkeys(name for name in found if name and not name.startswith(("leanformer.", "importlib"))))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnTask(Task):
    """What `task` makes; its arguments are explained there."""

    train: Any
    held_out: Any
    test: Any = None
    loss: Loss
    metric: Measured
    higher_is_better: bool | None = None
    unit: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: int | None = None
    tokens: int | None = None
    collate: Callable[[list[Any]], Any] | None = None
    forward: Callable[[nn.Module, Any], Any] | None = None
    probe: Any = None
    source: str = ""
    workers: int = 0
    evaluated: int = 64
    homes: tuple[str, ...] = ()
    """Modules that may hold this task under a name."""
    made_by: str = ""
    """A reference to the function or recipe that makes it, if no module holds it."""

    def __post_init__(self) -> None:
        for name in ("train", "held_out", "test"):
            given = getattr(self, name)
            if given is not None and not _is_function(given):
                _checked(given, name)
        _check_function(self.loss, "loss", LOSSES)
        self._check_metric()
        for name in ("collate", "forward"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function, got {getattr(self, name)!r}")
        for name, least in (("workers", 0), ("evaluated", 1), ("classes", 1), ("tokens", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")

    def _check_metric(self) -> None:
        if isinstance(self.metric, str):
            if self.metric not in measures.SCORES:
                raise ValueError(
                    f"there is no metric {self.metric!r}: there are {', '.join(measures.SCORES)}; or give a function"
                )
            if self.higher_is_better is not None or self.unit:
                raise ValueError(f"the metric {self.metric} has its own direction and unit: leave them out")
            return
        functions = self.metric if isinstance(self.metric, tuple) else (self.metric,)
        if len(functions) not in (1, 2) or not all(map(callable, functions)):
            raise ValueError(f"metric must be a name, a function or two functions, got {self.metric!r}")
        if (name := self.metric_name) in ("step", "kappa"):
            raise ValueError(f'a metric cannot be called "{name}", which is a field of the records')
        if not isinstance(self.higher_is_better, bool):
            raise ValueError("a metric that is a function needs higher_is_better=True or False")

    # Being found again

    def to_dict(self) -> dict[str, Any]:
        """Where this task is found again, and what it says of itself, so that another one in its place is noticed."""
        return {"kind": self.reference(), "loss": self.loss_name, "metric": self.metric_name}

    def reference(self) -> str:
        """The module and name that hold this task, or the function that makes it; else a name in this process."""
        for home in self.homes:
            for name, value in vars(sys.modules.get(home, object)).items():
                if value is self:
                    return reference_to(self, home, name)
        return self.made_by or reference_to(self, path="task")

    def is_only_here(self) -> bool:
        """Whether other processes cannot find it."""
        return only_here(self.reference())

    def unchanged(self, recorded: Mapping[str, Any]) -> OwnTask:
        """This task, if it is what a record says of it."""
        mine = self.to_dict()
        for key, value in recorded.items():
            if key not in mine:
                raise ValueError(f"the task {mine['kind']} has no setting {key}; change it where it is defined")
            if mine[key] != value:
                raise ValueError(
                    f"the task {mine['kind']} has the {key} {mine[key]}, and {value} is asked for; "
                    "change it where it is defined"
                )
        return self

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, OwnTask) and self.to_dict() == other.to_dict())

    def __hash__(self) -> int:
        return hash((self.loss_name, self.metric_name))

    def __repr__(self) -> str:
        return f"<task {self.reference()}: {self.loss_name}, {self.metric_name}>"

    @property
    def loss_name(self) -> str:
        return _name(self.loss)

    @property
    def metric_name(self) -> str:
        return _name(self.metric)

    def with_data(self, path: str | Path) -> Task:
        raise ValueError(f"the task {self.reference()} brings its own data set; it cannot read {path}")

    def load(self) -> OwnData:
        splits = {name: _dataset(getattr(self, name), name) for name in ("train", "held_out", "test")}
        return OwnData(self, splits["train"], splits["held_out"], splits["test"])


def _name(given: Any) -> str:
    """What a loss or metric is called: its name, or that of its function."""
    if isinstance(given, str):
        return given
    named = given[1] if isinstance(given, tuple) else given
    name = getattr(named, "__name__", type(named).__name__)
    return "score" if name == "<lambda>" else str(name)


def _check_function(given: Any, word: str, known: Iterable[str]) -> None:
    if not callable(given) and (not isinstance(given, str) or given not in known):
        raise ValueError(f"there is no {word} {given!r}: there are {', '.join(known)}; or give a function")


# Data sets


def _is_function(given: Any) -> bool:
    return callable(given) and not hasattr(given, "__getitem__")


def _dataset(given: Any, name: str) -> Any:
    if not _is_function(given):
        return given
    try:
        made = given()
    except Exception as error:
        raise ValueError(f"{name} cannot be made: {in_one_line(error)}") from error
    return _checked(made, name)


def _checked(given: Any, name: str) -> Any:
    """A data set whose samples are numbered: without numbers, arms could not be given the same batches."""
    if isinstance(given, IterableDataset):
        raise ValueError(
            f"{name} is an IterableDataset, whose samples have no numbers: runs are paired by sample, so give a data "
            "set with len() and samples by number, such as list(data)"
        )
    if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        raise ValueError(f"{name} must be a data set with len() and samples by number, got {type(given).__name__}")
    if not len(given):
        raise ValueError(f"{name} is empty")
    return given
