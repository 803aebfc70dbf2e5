"""What is held equal between arms, and how many steps that gives each of them.

`steps`, `epochs` and `tokens` give every arm the same batches; `flops` and `time` give a leaner arm more of them.
Whatever is chosen is turned into steps once, before the first run, and written down: a run's schedule must know its
end. May import architecture, cost, families, tasks and training.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.data.order import Order, Share
from leanformer.models import registry as families
from leanformer.tasks.base import Data
from leanformer.training.loop import decay_groups, seed_everything
from leanformer.training.run import Training

KINDS = ("steps", "epochs", "tokens", "flops", "time")
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
TIMED_STEPS, TIMED_BATCHES = 40, 4
"""Steps of each design that a budget of time is reckoned from, and the batches they take in turns."""
SECONDS = {"": 1.0, "S": 1.0, "M": 60.0, "MIN": 60.0, "H": 3600.0}


@dataclass(frozen=True)
class Budget:
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
                f'--budget takes {", ".join(KINDS)}, alone or with an amount as in "steps=2000", "epochs=5", '
                f'"tokens=50M", "flops=1e15" or "time=10m", got "{text}"'
            )
        return cls(kind, float(match[1]) * units[match[2].upper()] if match else None)

    def __str__(self) -> str:
        return self.kind if self.amount is None else f"{self.kind}={self.amount:g}"


def steps_of(
    budget: Budget, architectures: Mapping[str, Architecture], original: Architecture, data: Data, training: Training
) -> dict[str, int]:
    """Steps of each arm."""
    if budget.kind == "steps":
        return dict.fromkeys(architectures, round(budget.amount or training.steps))
    if budget.kind == "epochs":
        if data.size is None:
            raise ValueError("--budget epochs: these data are drawn afresh and have no end; give steps, flops or time")
        steps = round(budget.amount * data.size / training.batch) if budget.amount else training.steps
        return dict.fromkeys(architectures, _at_least_one(steps, budget))
    setting = Setting(batch=training.batch, tokens=data.tokens)
    closed = formula(original, setting)
    if budget.kind == "tokens":
        per_step = training.batch * closed.tokens[0]
        steps = round(budget.amount / per_step) if budget.amount else training.steps
        return dict.fromkeys(architectures, _at_least_one(steps, budget))
    designs = {"": original, **architectures}
    if budget.kind == "flops":
        spent = {arm: 6.0 * closed.cost(design, setting).forward_macs for arm, design in designs.items()}
    else:
        spent = step_seconds(designs, data, training)
    whole = budget.amount or training.steps * spent[""]
    return {arm: _at_least_one(round(whole / spent[arm]), budget) for arm in architectures}


def _at_least_one(steps: int, budget: Budget) -> int:
    if steps < 1:
        raise ValueError(f"--budget {budget} is less than one step")
    return steps


def step_seconds(designs: Mapping[str, Architecture], data: Data, training: Training) -> dict[str, float]:
    """Seconds of a training step of each design: measured in turns, so that a busy machine slows them alike, and the
    lower quartile of many, so that its interruptions do not count. In float32, without the loading of data.
    """
    torch.set_num_threads(training.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loaded = data.batches(Order(0, training.batch, data.size), range(TIMED_BATCHES), Share())
    batches = [tuple(tensor.to(device) for tensor in batch) for batch in loaded]
    seed_everything(0)
    contestants = {}
    for design in dict.fromkeys(designs.values()):
        model = families.build(design).to(device)
        contestants[design] = (model, torch.optim.AdamW(decay_groups(model, training.weight_decay), fused=True))
    found: dict[Architecture, list[float]] = {design: [] for design in contestants}
    for number in range(TIMED_STEPS):
        for design, (model, optimizer) in contestants.items():
            began = time.perf_counter()
            data.loss(model, batches[number % len(batches)]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip or 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if device.type == "cuda":
                torch.cuda.synchronize()
            found[design].append(time.perf_counter() - began)
    seconds = {design: statistics.quantiles(times[3:], n=4)[0] for design, times in found.items()}
    return {arm: seconds[design] for arm, design in designs.items()}


def trained_for(training: Training, steps: int) -> Training:
    """The same training with another number of steps; a warm-up given in steps stays."""
    return replace(training, steps=steps)
