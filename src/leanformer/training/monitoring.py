"""What is watched while a run trains: its loss, its weights and the time it takes."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from torch import nn

from leanformer.data.order import Order
from leanformer.foundation.records.files import append_line, read_lines
from leanformer.training.run import Run
from leanformer.training.sharding import local

TIMING = "timing.jsonl"


class Diverged(ValueError):  # noqa: N818
    """The loss or the weights are not finite any more."""


class Losses:
    """The training loss. It is looked at every few steps only, so that a GPU need not wait."""

    def __init__(self, run: Run, accelerator: Accelerator, order: Order) -> None:
        self.run, self.accelerator, self.order = run, accelerator, order
        self.curve: list[tuple[int, float]] = []
        """The mean loss up to a step."""
        self._recent = torch.zeros(run.training.log_every, device=accelerator.device)
        self._count = 0

    def add(self, loss: torch.Tensor) -> None:
        self._recent[self._count] = loss
        self._count += 1

    @property
    def pending(self) -> list[float]:
        """Losses of the steps that no mean holds yet."""
        return self._recent[: self._count].tolist()

    def restore(self, curve: Sequence[Sequence[float]], pending: Sequence[float]) -> None:
        self.curve = [(int(step), loss) for step, loss in curve]
        self._count = len(pending)
        self._recent[: self._count] = torch.tensor(pending)

    def is_full(self) -> bool:
        return self._count == len(self._recent)

    def check(self, step: int) -> list[float]:
        """The losses since the last mean, over all processes; or an error with the step and batch that diverged."""
        values = cast(torch.Tensor, self.accelerator.reduce(self._recent[: self._count], "mean")).tolist()
        for place, value in enumerate(values):
            if not math.isfinite(value):
                raise self._diverged(f"the loss became {value}", step - len(values) + place)
        self._recent[: self._count] = torch.tensor(values)
        return values

    def check_weights(self, parameters: Sequence[nn.Parameter], step: int) -> None:
        """A step may spoil the weights although its loss was still finite. Such weights are not kept."""
        norms = torch.stack([norm.float() for norm in torch._foreach_norm([local(p.detach()) for p in parameters])])
        spoiled = (~norms.isfinite().all()).float()  # where processes hold different parts, one of them may be spoiled
        if cast(torch.Tensor, self.accelerator.reduce(spoiled, "sum")):
            raise self._diverged("weights became infinite or NaN", step - 1)

    def log(self, step: int) -> float:
        """Close the mean of the recent steps."""
        values = self.check(step)
        mean = sum(values) / len(values)
        self.curve.append((step, mean))
        self.accelerator.log({"train_loss": mean, "lr": self.run.training.lr_at(step - 1)}, step)
        self._count = 0
        return mean

    def _diverged(self, what: str, step: int) -> Diverged:
        samples = ", ".join(map(str, self.order.indices(step)[:8]))
        return Diverged(
            f"{self.run.name}, seed {self.run.seed}: {what} at step {step + 1} "
            f"(lr {self.run.training.lr_at(step):.3g}, batch of samples {samples}, …); "
            f"nothing was saved after it. A lower lr, a longer warm-up or a clip may help"
        )


def step_seconds(folder: Path) -> list[float]:
    """Of each stretch of steps that a run's clock wrote down, the seconds per step. Damaged lines do not count."""
    return [line["seconds"] / line["steps"] for line in read_lines(folder / TIMING) if _is_timing(line)]


def steps_done(folder: Path) -> int:
    """The last step that a run's clock wrote down; 0 if there is none, and for runs of older versions."""
    steps = [line.get("step") for line in read_lines(folder / TIMING) if _is_timing(line)]
    return next((step for step in reversed(steps) if type(step) is int and step >= 0), 0)


def _is_timing(line: Any) -> bool:
    """Whether a line holds seconds and steps, unchanged; those of 0.1 have no checksum."""
    numbers: list[Any] = [line.get("seconds"), line.get("steps")] if isinstance(line, dict) else [None]
    whole = all(type(number) in (int, float) and 0 < number < 1e12 for number in numbers)
    return whole and line.get("check", _check(line)) == _check(line)


def _check(line: Mapping[str, Any]) -> int:
    """A checksum of the numbers of a line."""
    return zlib.crc32(f"{line['steps']} {line['seconds']!r}".encode())


class Clock:
    """Seconds spent in steps. They differ from run to run, so they have a file of their own."""

    def __init__(self, folder: Path, accelerator: Accelerator) -> None:
        self.path, self.accelerator, self.steps = folder / TIMING, accelerator, 0
        self._began: float | None = None

    def start(self) -> None:
        if self._began is None:
            self._began = time.perf_counter()

    def pause(self, step: int) -> None:
        """Write down what the steps since `start` took, of which `step` is the last."""
        if self._began is not None and self.steps and self.accelerator.is_main_process:
            record: dict[str, Any] = {"steps": self.steps, "seconds": time.perf_counter() - self._began, "step": step}
            record["check"] = _check(record)
            if torch.cuda.is_available():
                record["peak_bytes"] = torch.cuda.max_memory_allocated()
            append_line(self.path, record)
        self.steps, self._began = 0, None
