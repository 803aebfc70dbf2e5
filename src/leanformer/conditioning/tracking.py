"""κ along a training run: on a fixed batch, at chosen steps, without changing the training.

`track` sees the optimizer's steps by itself and, if no batch is given, keeps the first one that the model sees.
`callbacks.py` does the same for the Hugging Face Trainer and for Lightning.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from leanformer.conditioning.probing import Call, measure, sharded_parts, unwrap
from leanformer.conditioning.watching import NothingSeenError, Rule, check_rule
from leanformer.foundation.machine import is_first_process
from leanformer.foundation.records.files import append_line
from leanformer.foundation.records.quantiles import quantiles


class Tracker:
    """Records of κ by layer; see `track`.

    A record is a plain dictionary, as in the file of JSON lines: `step`, the labels given to `record`,
    `mean_over_layers` and `median_over_layers` of κ, and `layers`, a list of `LayerSummary` as dictionaries. If nothing
    could be measured it holds `step` and `error`.
    """

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
        check_rule(projections)
        self.model, self.batch, self.every = unwrap(model), batch, every
        self.step = 0
        self.records: list[dict[str, Any]] = []
        self._path = Path(path) if path is not None else None
        self._measure = functools.partial(measure, projections=projections)
        self._measuring = False

    def record(self, **labels: Any) -> dict[str, Any] | None:
        """Measure now; returns the record, or None on all processes but the first of a distributed run.

        If the model is divided among the processes (FSDP2), all of them must call this, since all are needed to run it.
        """
        parts = sharded_parts(self.model)
        if self._measuring or not (is_first_process() or parts):
            return None
        self._measuring = True
        try:
            layers = self._measure(self.model, self.batch).summaries()
        finally:
            self._measuring = False
            for part in parts:
                part.reshard()
        if not is_first_process():
            return None
        record = {
            "step": self.step,
            **labels,
            "mean_over_layers": fmean(layer.kappa.mean for layer in layers),  # the protocol of the paper's Fig. 2
            "median_over_layers": quantiles([layer.kappa.median for layer in layers], [0.5])[0],
            "layers": [layer.model_dump() for layer in layers],
        }
        return self._keep(record)

    def _keep(self, record: dict[str, Any]) -> dict[str, Any]:
        self.records.append(record)
        if self._path is not None:
            append_line(self._path, record)
        return record

    def keep_batch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Copy the first inputs that the model sees as the fixed batch, and record step 0."""
        if self.batch is None and not self._measuring:
            optional = _optional(self.model)
            wanted = {key: value for key, value in kwargs.items() if key not in LABELS or key not in optional}
            self.batch = Call(_copied(args), _copied(wanted))
            self.try_record()

    def count_step(self) -> None:
        self.step += 1
        if self.step % self.every == 0 and self.batch is not None:
            self.try_record()

    def try_record(self, **labels: Any) -> dict[str, Any] | None:
        """Measure without stopping the training: if it is not possible, the reason is recorded and warned of once.

        A model in which no attention is seen at all is an error of the call, and raises at the first step.
        """
        try:
            return self.record(**labels)
        except NothingSeenError:
            raise
        except ValueError as error:
            if not any("error" in record for record in self.records):
                warnings.warn(f"κ was not measured at step {self.step}: {error}", stacklevel=2)
            return self._keep({"step": self.step, **labels, "error": str(error)})


@contextmanager
def track(
    model: nn.Module,
    batch: Any = None,
    every: int = 100,
    path: str | Path | None = None,
    projections: Rule | None = None,
) -> Iterator[Tracker]:
    """Record κ by layer before training and every `every` optimizer steps.

    >>> with lf.track(model, every=100, path="kappa.jsonl") as tracker:
    ...     for inputs, labels in loader:
    ...         ...  # an ordinary training loop: the steps of the model's optimizer are counted
    >>> [(record["step"], record["mean_over_layers"]) for record in tracker.records]

    If no attention is found in the model, a `ValueError` is raised: at once if there is a batch, otherwise at the first
    forward pass. If κ cannot be measured later, for example because weights became NaN, a warning says so once, the
    record of the step holds the `error`, and the training continues.

    Random state, train and eval modes, buffers and gradients are as if nothing had been measured: the trained weights
    are bit-identical. Works with `torch.compile`, autocast, gradient checkpointing, DDP, where the first process
    measures, and FSDP2, where all processes measure together and the first one records.

    Args:
        model: the model being trained.
        batch: a fixed batch to measure on, in any form that `measure` takes; by default the first that the model sees.
        every: optimizer steps between measurements.
        path: a file to which each record is appended as a line of JSON.
        projections: as for `probe`.
    """
    tracker = Tracker(model, batch, every, path, projections)
    mine = {id(parameter) for parameter in tracker.model.parameters()}

    first: list[Optimizer] = []  # if several optimizers share the model, the steps of the first are counted

    def stepped(optimizer: Optimizer, *_: Any) -> None:
        if not first and any(id(p) in mine for group in optimizer.param_groups for p in group["params"]):
            first.append(optimizer)
        if first and optimizer is first[0]:
            tracker.count_step()

    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_post_hook(stepped).remove)
        if batch is None:
            hook = model.register_forward_pre_hook(
                lambda _, args, kwargs: tracker.keep_batch(args, kwargs), with_kwargs=True, prepend=True
            )
            stack.callback(hook.remove)
        else:
            tracker.record()
        yield tracker


LABELS = ("labels", "label", "targets")
"""Arguments that are left out if the model can run without them: the loss is not measured."""


def _optional(model: nn.Module) -> set[str]:
    parameters = inspect.signature(model.forward).parameters.values()
    return {parameter.name for parameter in parameters if parameter.default is not parameter.empty}


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_copied(item) for item in value)
    return value
