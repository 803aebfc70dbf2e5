"""κ along a training run: on a fixed batch, at chosen steps, without a trace in the training itself.

`track` finds out by itself when the optimizer steps and, if no batch is given, keeps the first one that the model sees.
`TrainerCallback` and `LightningCallback` do the same for the Hugging Face Trainer and for Lightning. May import probe.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from leanformer.probe import Rule, measure, unwrap
from leanformer.records import plain


class Tracker:
    """Records of κ by layer; see `track`."""

    def __init__(
        self,
        model: nn.Module,
        batch: Any = None,
        every: int = 100,
        path: str | Path | None = None,
        projections: Rule | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1 step, got {every}")
        self.model, self.batch, self.every = unwrap(model), batch, every
        self.step = 0
        self.records: list[dict[str, Any]] = []
        self._path = Path(path) if path is not None else None
        self._measure = functools.partial(measure, projections=projections)
        self._measuring = False

    def record(self, **labels: Any) -> dict[str, Any] | None:
        """Measure now; returns the record, or None on all processes but the first of a distributed run."""
        if self._measuring or not _first_process():
            return None
        self._measuring = True
        try:
            layers = self._measure(self.model, self.batch).summaries()
        finally:
            self._measuring = False
        means = torch.tensor([layer["kappa"]["mean"] for layer in layers], dtype=torch.float64)
        medians = torch.tensor([layer["kappa"]["median"] for layer in layers], dtype=torch.float64)
        record = {
            "step": self.step,
            **labels,
            "mean_over_layers": means.mean().item(),  # the protocol of the paper's Fig. 2
            "median_over_layers": medians.quantile(0.5).item(),
            "layers": layers,
        }
        self.records.append(record)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain(record)) + "\n")
        return record

    def keep_batch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take a copy of the first inputs that the model sees as the fixed batch, and record step 0."""
        if self.batch is None and not self._measuring:
            if args and kwargs:
                raise ValueError(
                    "the model is called with positional and keyword arguments: give track a batch of its own"
                )
            self.batch = _copied(dict(kwargs)) if kwargs else _copied(tuple(args))
            self.record()

    def count_step(self) -> None:
        self.step += 1
        if self.step % self.every == 0 and self.batch is not None:
            self.record()


@contextmanager
def track(
    model: nn.Module,
    batch: Any = None,
    every: int = 100,
    path: str | Path | None = None,
    projections: Rule | None = None,
) -> Iterator[Tracker]:
    """Record κ by layer before training and every so many optimizer steps.

    >>> with lf.track(model, every=100, path="kappa.jsonl") as tracker:
    ...     for inputs, labels in loader:
    ...         ...  # an ordinary training loop: steps of the model's optimizer are seen by themselves
    >>> [(record["step"], record["mean_over_layers"]) for record in tracker.records]

    Random state, train and eval modes, buffers and gradients are as if nothing had been measured: the trained weights
    are the same to the last bit. Works beside `torch.compile`, autocast, gradient checkpointing and DDP, where the
    first process measures.

    Args:
        model: the model being trained.
        batch: a fixed batch to measure on, in any form that `measure` takes; by default the first that the model sees.
        every: optimizer steps between measurements.
        path: a file to which each record is added as a line of JSON as it comes.
        projections: as for `probe`.
    """
    tracker = Tracker(model, batch, every, path, projections)
    mine = {id(parameter) for parameter in tracker.model.parameters()}

    def stepped(optimizer: Optimizer, *_: Any) -> None:
        if any(id(parameter) in mine for group in optimizer.param_groups for parameter in group["params"]):
            tracker.count_step()

    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_post_hook(stepped).remove)
        if batch is None:
            hook = model.register_forward_pre_hook(
                lambda _, args, kwargs: tracker.keep_batch(args, kwargs), with_kwargs=True
            )
            stack.callback(hook.remove)
        else:
            tracker.record()
        yield tracker


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        labels = ("labels", "label", "targets")  # the loss is not measured
        return {key: _copied(item) for key, item in value.items() if key not in labels}
    if isinstance(value, (tuple, list)):
        return tuple(_copied(item) for item in value)
    return value


def _first_process() -> bool:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0
