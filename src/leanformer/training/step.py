"""One optimizer step: forward and backward of every piece of a batch, the clip, the update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import nn

from leanformer.conditioning.probing import unwrap
from leanformer.tasks.base import Batch, Data
from leanformer.training.distillation import Teacher
from leanformer.training.layers import set_layers
from leanformer.training.settings import Training

MIXED_PRECISION = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}
"""Accelerate's words for our precisions."""


@dataclass
class Stepper:
    """Takes the steps of one run, or those that a budget of time is measured by."""

    data: Data
    settings: Training
    accelerator: Accelerator
    model: nn.Module
    """The model as the processes share it."""
    optimizer: Any
    start: Path | None = None
    """What the model began with, where it was not drawn."""

    def __post_init__(self) -> None:
        self.parameters = list(self.model.parameters())
        set_layers(unwrap(self.model), self.settings)
        self.teacher: Teacher | None = None
        if self.settings.teacher:
            accelerator = self.accelerator
            self.teacher = Teacher(self.settings, self.model, accelerator.device, self.start, accelerator.autocast)

    def _loss(self, piece: Batch) -> torch.Tensor:
        try:
            if self.teacher is None:
                return self.data.loss(self.model, piece)
            return self.teacher.loss(self.data, self.model, piece)
        except RuntimeError as error:
            if "mixed torch.Tensor and DTensor" not in str(error):
                raise
            raise ValueError(
                "with shard=full, a task must call its model as model(...), since that puts the weights together; this "
                "one calls a part of it: change the task, or set shard=none"
            ) from error

    def take(self, batch: Batch, step: int, pieces: int) -> torch.Tensor:
        """Take a step, counted from 0, on this process's share of a batch; returns its mean loss, detached."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.lr_at(step) * group.get("lr_scale", 1.0)
            group["betas"] = self.settings.betas_at(step)
        total = torch.zeros((), device=self.accelerator.device)
        for index, piece in enumerate(_pieces(to_device(batch, self.accelerator.device), pieces)):
            with contextlib.nullcontext() if index == pieces - 1 else self.accelerator.no_sync(self.model):
                loss = self._loss(piece) / pieces
                self.accelerator.backward(loss)
            total += loss.detach()
        if self.settings.clip is not None:
            self.accelerator.clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def to_device(batch: Any, device: torch.device) -> Any:
    """Tensors on a device, in whatever tuples, lists and mappings they come."""
    return send_to_device(batch, device, non_blocking=True)


def _pieces(batch: Batch, count: int) -> Iterator[Batch]:
    return iter([batch]) if count == 1 else zip(*(tensor.chunk(count) for tensor in batch), strict=True)
