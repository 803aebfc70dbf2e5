"""What is held equal between arms, and how many steps that gives each of them.

`steps`, `epochs` and `tokens` give every arm the same batches; `flops` and `time` give a leaner arm more of them. A
budget becomes steps once, before the first run, and is written down: a run's schedule must know its end.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.data.order import Order, Share
from leanformer.foundation.records.base import RecordPart
from leanformer.models.families import build
from leanformer.tasks.base import Data
from leanformer.training.optimizer import build_optimizer
from leanformer.training.randomness import process_state_kept, seed_everything
from leanformer.training.settings import Training
from leanformer.training.step import MIXED_PRECISION, Stepper, to_device

KINDS = ("steps", "epochs", "tokens", "flops", "time")
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
SECONDS = {"": 1.0, "S": 1.0, "M": 60.0, "MIN": 60.0, "H": 3600.0}
TIMED_STEPS, TIMED_BATCHES, FIRST_STEPS = 40, 4, 3
"""Steps of each design that a budget of time is measured by, the batches they take in turns, and the steps at the
beginning that do not count."""


class Budget(RecordPart):
    """What every arm gets alike; without an amount, what the original spends in the recipe's steps."""

    kind: str = "steps"
    amount: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`flops`, `tokens=50M`, `time=10m`, …"""
        kind, equals, amount = text.partition("=")
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*([a-zA-Z]*)", amount.strip())
        units = SECONDS if kind == "time" else UNITS
        if kind not in KINDS or (equals and (match is None or match[2].upper() not in units or float(match[1]) <= 0)):
            raise ValueError(
                f'a budget is one of {", ".join(KINDS)}, alone or with an amount as in "steps=2000", "epochs=5", '
                f'"tokens=50M", "flops=1e15" or "time=10m", got "{text}"'
            )
        return cls(kind=kind, amount=float(match[1]) * units[match[2].upper()] if match else None)

    def __str__(self) -> str:
        return self.kind if self.amount is None else f"{self.kind}={self.amount:g}"


def steps_of(
    budget: Budget, architectures: Mapping[str, Architecture], original: Architecture, data: Data, training: Training
) -> dict[str, int]:
    """Steps of each arm."""
    if budget.kind in ("flops", "time"):
        return _steps_of_unequal_cost(budget, architectures, original, data, training)
    if budget.amount is None:
        steps = training.steps
    elif budget.kind == "steps":
        steps = round(budget.amount)
    elif budget.kind == "epochs":
        if data.size is None:
            raise ValueError("a budget in epochs: these data are drawn afresh without end; give steps, flops or time")
        steps = round(budget.amount * data.size / training.batch)
    else:
        closed = formula(original, Setting(batch=training.batch, tokens=data.tokens))
        steps = round(budget.amount / (training.batch * closed.tokens[0]))
    return dict.fromkeys(architectures, _at_least_one(steps, budget))


def _steps_of_unequal_cost(
    budget: Budget, architectures: Mapping[str, Architecture], original: Architecture, data: Data, training: Training
) -> dict[str, int]:
    designs = {**{f"arm {name}": design for name, design in architectures.items()}, "the original": original}
    if budget.kind == "flops":
        setting = Setting(batch=training.batch, tokens=data.tokens)
        spent = {
            name: 6.0 * formula(design, setting).cost(design, setting).forward_macs for name, design in designs.items()
        }
    else:
        spent = step_seconds(designs, data, training)
    whole = budget.amount or training.steps * spent["the original"]
    return {arm: _at_least_one(round(whole / spent[f"arm {arm}"]), budget) for arm in architectures}


def _at_least_one(steps: int, budget: Budget) -> int:
    if steps < 1:
        raise ValueError(f"the budget {budget} is less than one step")
    return steps


@contextmanager
def timing(training: Training) -> Iterator[Accelerator]:
    """Where something is timed as a run would do it; afterwards the process is as it was before."""
    with process_state_kept():
        torch.set_num_threads(training.threads)
        AcceleratorState._reset_state()
        yield Accelerator(cpu=not torch.accelerator.is_available(), mixed_precision=MIXED_PRECISION[training.precision])


def step_seconds(
    designs: Mapping[str, Architecture], data: Data, training: Training, steps: int = TIMED_STEPS
) -> dict[str, float]:
    """Seconds per training step of each design, by the loop's own step, without the loading of data.

    Designs take turns, so that a busy machine slows them alike. The lower quartile of many steps counts, so that
    interruptions do not. At least two steps more than the first ones are needed.
    """
    with timing(training) as accelerator:
        order = Order(0, training.batch, data.size, training.accumulate)
        loaded = data.batches(order, range(TIMED_BATCHES), Share())
        batches = [to_device(batch, accelerator.device) for batch in loaded]
        seed_everything(0)
        steppers = {design: _stepper(design, data, training, accelerator) for design in dict.fromkeys(designs.values())}
        found: dict[Architecture, list[float]] = {design: [] for design in steppers}
        for number in range(steps):
            for design, stepper in steppers.items():
                began = time.perf_counter()
                with accelerator.autocast():
                    stepper.take(batches[number % len(batches)], 0, training.accumulate)
                if accelerator.device.type == "cuda":
                    torch.cuda.synchronize()
                found[design].append(time.perf_counter() - began)
    seconds = {design: statistics.quantiles(times[FIRST_STEPS:], n=4)[0] for design, times in found.items()}
    return {name: seconds[design] for name, design in designs.items()}


def _stepper(design: Architecture, data: Data, training: Training, accelerator: Accelerator) -> Stepper:
    model = build(design).to(accelerator.device).train()
    return Stepper(data, training, accelerator, model, build_optimizer(model, training))
