"""One run of the user's function: build the model, train it, check what came back, measure κ, write the result."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import inspect
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._pytree import tree_map

from leanformer.conditioning.probing import Call
from leanformer.conditioning.tracking import Tracker
from leanformer.conditioning.watching import Rule
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.result import OwnResult
from leanformer.experiments.own_loop.returned import BadScore, Returned
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.stopping import SIGNALS, Stopped
from leanformer.runners.base import FAILURE, Event, Failure
from leanformer.tasks.base import Metric
from leanformer.training.randomness import process_state_kept, seed_everything
from leanformer.training.result import RESULT, KappaOverLayers

Train = Callable[[Any, int, Path], Any]
"""Takes a fresh model, the seed and the run's folder; returns a score, or a mapping that holds it."""

TRACEBACK = "traceback.txt"
MOST_PROBED = 16
"""Samples of the first training batch on which κ is measured, if no example was given."""


@dataclass(frozen=True)
class FunctionRuns:
    """Everything that the runs of a function have in common."""

    train: Train
    arms: Mapping[str, OwnArm]
    metric: Metric
    example: Any = None
    projections: Rule | None = None
    code: str = ""
    """A checksum of the function's code."""

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.train).bind(None, 0, Path())
        except TypeError as error:
            raise ArgumentError(
                "{train} is called with a model, the seed and a folder, which {function} does not take: {error}",
                function=name_of(self.train),
                error=error,
            ) from error
        except ValueError:  # a function without a signature, such as a builtin
            return

    def run(self, arm: str, seed: int, place: Path | str) -> Event:
        """Train one run. Its result, or why there is none, is in its folder afterwards; returns the event."""
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        forget_failure(folder)
        try:
            with process_state_kept():
                result = self._trained(arm, seed, folder)
        except (Exception, SystemExit) as error:  # the user's own code, whatever it raises
            return failed(folder, arm, seed, _reason(error, folder))
        finally:
            gc.collect()
        result.write(folder / RESULT)
        return {"event": "done"}

    def _trained(self, arm: str, seed: int, folder: Path) -> OwnResult:
        model = self.arms[arm].build(seed)
        seed_everything(seed, 1)  # building draws more numbers in one arm than in another
        before, began = _sums(model), time.monotonic()
        with _watched(model, self.example, self.projections) as watch:
            returned = self.train(model, seed, folder)
        seconds, found = time.monotonic() - began, Returned.of(returned, self.metric.name)
        kappa = watch.after_training(changed=_sums(model) != before)
        return OwnResult(
            name=arm,
            seed=seed,
            metric=self.metric.name,
            final=found.final,
            evaluations=found.evaluations(self.metric.name, watch.steps, watch.first, kappa),
            losses=found.losses,
            steps=watch.steps or None,
            seconds=seconds,
            code=self.code,
            notes=[*found.notes, *watch.notes],
        )


def _sums(model: nn.Module) -> list[float]:
    """A number per parameter that training changes."""
    return [float(parameter.detach().double().sum()) for parameter in model.parameters()]


# Failures


def forget_failure(folder: Path) -> None:
    """A run is about to be tried again."""
    for former in (FAILURE, TRACEBACK):
        (folder / former).unlink(missing_ok=True)


def failed(folder: Path, arm: str, seed: int, reason: str) -> Event:
    """Write down why a run has no result; returns the event."""
    text = f"{arm}, seed {seed}: {reason}"
    Failure(text=text).write(folder / FAILURE)
    return {"event": "diverged", "text": text}


def _reason(error: BaseException, folder: Path) -> str:
    """The first line of an error; the whole of it is kept in the run's folder."""
    if isinstance(error, BadScore):
        return str(error)
    (folder / TRACEBACK).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"{what} ({folder.parent.name}/{folder.name}/{TRACEBACK} has the traceback)"


# What is seen of the training


class _Watch:
    """Optimizer steps, and κ before and after training."""

    def __init__(self, model: nn.Module, example: Any, projections: Rule | None) -> None:
        self.tracker = Tracker(model, example, projections=projections)
        self.steps = 0
        self.first: KappaOverLayers | None = None
        self.notes: list[str] = []

    def measure(self) -> KappaOverLayers | None:
        """κ now; None if it cannot be measured, which does not stop the training."""
        from leanformer.training.step import to_device

        try:
            batch, device = Call.of(self.tracker.batch), next(self.tracker.model.parameters()).device
            self.tracker.batch = Call(to_device(batch.args, device), to_device(dict(batch.kwargs), device))
            record = self.tracker.record()
        except Exception as error:  # the user's own model
            self._say(error)
            return None
        return None if record is None else KappaOverLayers.of(record)

    def keep(self, args: Any, kwargs: Any) -> None:
        """Take the first batch that the model sees, and measure κ on it."""
        try:
            self.tracker.keep_batch(_few(args), _few(kwargs))
            if "layers" in (record := self.tracker.records[0]):
                self.first = KappaOverLayers.of(record)
        except Exception as error:  # the user's own model
            self._say(error)

    def _say(self, error: Exception) -> None:
        self.notes = [f"κ is not measured: {' '.join(str(error).split()) or type(error).__name__}"]

    def after_training(self, changed: bool) -> KappaOverLayers | None:
        if not changed and not self.steps:
            self.notes = ["train left the weights of the model that it was given unchanged, so its κ is not measured"]
            return None
        if self.tracker.batch is None:
            self.notes = ["κ is not measured: no batch was seen; an example of what the models take would do"]
            return None
        return None if self.notes else self.measure()


@contextmanager
def _watched(model: nn.Module, example: Any, projections: Rule | None) -> Iterator[_Watch]:
    """Count the optimizer's steps; measure κ first on the example, or on the first batch that the model sees."""
    watch, mine = _Watch(model, example, projections), {id(parameter) for parameter in model.parameters()}

    counted: list[Optimizer] = []  # if several optimizers share the model, the steps of the first are counted

    def stepped(optimizer: Optimizer, *_: Any) -> None:
        if not counted and any(id(p) in mine for group in optimizer.param_groups for p in group["params"]):
            counted.append(optimizer)
        watch.steps += optimizer in counted

    def seen(_: nn.Module, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            hook.remove()  # it is needed once, and a user may save or copy the model
            watch.keep(args, kwargs)

    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_post_hook(stepped).remove)
        if example is None:
            hook = model.register_forward_pre_hook(seen, with_kwargs=True)
            stack.callback(hook.remove)
        else:
            watch.first = watch.measure()
        yield watch


def _few(batch: Any) -> Any:
    """The first samples of a batch, if its tensors agree on what a sample is."""
    sizes = set[int]()
    tree_map(lambda leaf: sizes.add(leaf.shape[0]) if isinstance(leaf, Tensor) and leaf.ndim else None, batch)
    if len(sizes) != 1:
        return batch
    return tree_map(lambda leaf: leaf[:MOST_PROBED] if isinstance(leaf, Tensor) and leaf.ndim else leaf, batch)


# The function itself


def code_of(train: Any) -> str:
    """A checksum of a function's code, by which results of another version of it are known."""
    try:
        source = inspect.getsource(train).encode()
    except (OSError, TypeError):
        source = getattr(getattr(train, "__code__", None), "co_code", b"")
    return hashlib.sha256(source).hexdigest() if source else ""


def name_of(train: Any) -> str:
    named = getattr(train, "__name__", "") or type(train).__name__
    return "train" if named == "<lambda>" else named


def described(train: Any) -> str:
    """The function in words."""
    try:
        file = Path(inspect.getfile(train)).name
    except (OSError, TypeError):
        file = ""
    typed = not file.endswith(".py")  # into a prompt or a notebook
    return f"the function {name_of(train)}" + ("" if typed else f" in {file}")


class _Interrupted(BaseException):
    """A signal that reached the user's code. Code that catches every Exception does not catch it."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, a signal that asks to stop interrupts the user's code and becomes `Stopped`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    owner = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            raise _Interrupted(signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # a process that the user's code forked, such as a loader of data
        os.kill(os.getpid(), number)

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    except _Interrupted as error:
        raise Stopped(f"stopped by {error}; finished runs are kept, and repeating the command resumes") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
