"""Evaluation of a run on its held-out samples, with κ beside the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn

from leanformer.conditioning.probing import sharded_parts
from leanformer.conditioning.tracking import Tracker
from leanformer.data.order import Share
from leanformer.tasks.base import Data, HeldOutSums
from leanformer.training.outcomes import interleaved
from leanformer.training.result import Evaluation, KappaOverLayers
from leanformer.training.sharding import in_step
from leanformer.training.step import to_device


class Evaluator:
    """Scores one model, on this process's share of the held-out samples."""

    def __init__(self, model: nn.Module, data: Data, share: Share, accelerator: Accelerator, probe: int) -> None:
        self.model, self.data, self.share, self.accelerator = model, data, share, accelerator
        self.outcomes: torch.Tensor | None = None
        """Of every held-out sample, by the last evaluation, where the data keep them."""
        self.tracker = Tracker(model, to_device(data.probe_batch(probe), accelerator.device)) if probe else None
        self._spare = to_device(data.probe_batch(1), accelerator.device) if sharded_parts(model) else ()

    def evaluate(self, step: int) -> Evaluation:
        scores = self._scored(self.data.evaluate) or {}
        tracked = self.tracker.record() if self.tracker is not None else None
        kappa = KappaOverLayers.of(tracked) if tracked is not None else None
        logged = {name: value for name, value in scores.items() if isinstance(value, float)}
        self.accelerator.log(logged | ({"kappa": kappa.median_over_layers} if kappa else {}), step=step)
        return Evaluation.model_validate({"step": step, "kappa": kappa, **scores})

    def final_scores(self, last: Mapping[str, float]) -> dict[str, float]:
        """Scores on the test split or, where there is none, those of the last evaluation. `outcomes` belong to them."""
        final = self._scored(self.data.evaluate_final)
        if final is None and self.outcomes is None:  # the run was resumed behind its last step
            self._scored(self.data.evaluate)
        return dict(last) if final is None else final

    def _scored(self, evaluate: Callable[..., dict[str, float] | None]) -> dict[str, float] | None:
        self.model.eval()
        with self.accelerator.autocast(), in_step(self.model, self._spare, self.accelerator):
            sums = evaluate(self.model, self.share, self.accelerator.device)
        self.model.train()
        if sums is not None:
            self.outcomes = self._gathered(sums)
        return None if sums is None else self.data.score(_over_processes(self.accelerator, sums))

    def _gathered(self, sums: Mapping[str, float]) -> torch.Tensor | None:
        parts = sums.parts if isinstance(sums, HeldOutSums) else []
        mine = torch.cat(parts) if parts else torch.empty(0)
        return interleaved(gather_object([mine]))


def _over_processes(accelerator: Accelerator, sums: Mapping[str, float]) -> dict[str, float]:
    if accelerator.num_processes == 1:
        return dict(sums)
    total = accelerator.reduce(torch.tensor(list(sums.values()), dtype=torch.float64, device=accelerator.device), "sum")
    return dict(zip(sums, cast(torch.Tensor, total).tolist(), strict=True))
