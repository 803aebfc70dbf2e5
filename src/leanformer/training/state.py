"""What a run has come to: model, optimizer, curves and generators, in memory and in checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from leanformer.data.order import Order
from leanformer.foundation.machine import from_first_process
from leanformer.foundation.records.base import Json, RecordPart
from leanformer.foundation.records.files import plain, write_lines
from leanformer.foundation.records.sums import seal
from leanformer.models.families import build
from leanformer.models.weights import load_start, save_pretrained
from leanformer.tasks.base import Data, Metric
from leanformer.training import sharded_state
from leanformer.training.checkpoints import Checkpoint, Checkpoints
from leanformer.training.monitoring import Losses
from leanformer.training.optimizer import build_optimizer
from leanformer.training.outcomes import write_outcomes
from leanformer.training.parametrization import scale_branches
from leanformer.training.randomness import random_state, seed_everything, set_random_state
from leanformer.training.result import RESULT, Evaluation, Result
from leanformer.training.run import Run, differences
from leanformer.training.sharding import divide, is_divided, whole_weights

Say = Callable[[str], None]


class CheckpointState(RecordPart):
    """What a checkpoint holds beside tensors."""

    run: Json | None = None
    """The run that it belongs to; 0.1 did not say it."""
    data: str = ""
    """`Data.identity`; 0.1 did not say it."""
    step: int
    evaluations: list[Evaluation]
    losses: list[tuple[int, float]]
    pending: list[float]
    best: int | None
    random: list[Json]
    """The states of the generators, by process."""
    scaler: Json | None


@dataclass
class State:
    """Everything that a checkpoint holds."""

    run: Run
    folder: Path
    accelerator: Accelerator
    model: nn.Module
    wrapped: nn.Module
    """The model as the processes share it."""
    optimizer: Any
    average: AveragedModel | None
    losses: Losses
    data: Data
    step: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    best: int | None = None

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.folder / "checkpoints", self.run.training.keep)

    @classmethod
    def begin(cls, run: Run, folder: Path, accelerator: Accelerator, order: Order, data: Data) -> State:
        """A model as its seed draws it."""
        settings = run.training
        seed_everything(run.seed)
        model = build(run.architecture)
        if start := run.start_in(folder):
            load_start(model, start, run.start_with)
        else:
            scale_branches(model, settings)
        if accelerator.num_processes > 1 and accelerator.device.type == "cuda":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # statistics of the whole batch, where there are any
        average = None
        if settings.ema is not None:
            average = AveragedModel(model, accelerator.device, multi_avg_fn=get_ema_multi_avg_fn(settings.ema))
        divided = is_divided(settings, accelerator)
        if divided:
            divide(model, settings, accelerator)
        optimizer = build_optimizer(model, settings)
        if divided:  # Accelerate's own way to FSDP2 is for GPUs only, and sets it for the rest of the process
            wrapped, scaled = accelerator.prepare_model(model, device_placement=False, evaluation_mode=True), None
        else:
            wrapped, scaled = accelerator.prepare(model, optimizer)
        if accelerator.process_index:
            seed_everything(run.seed, accelerator.process_index)  # same weights, dropout of its own
        # The wrapper around the optimizer is for float16's scaler, and looks up packages on the disk at every step.
        stepping = scaled if accelerator.scaler is not None else optimizer
        losses = Losses(run, accelerator, order)
        return cls(run, folder, accelerator, model, wrapped, stepping, average, losses, data)

    @property
    def divided(self) -> bool:
        """Whether each process holds a part of the model only."""
        return is_divided(self.run.training, self.accelerator)

    @property
    def judged(self) -> nn.Module:
        """The model that is evaluated, and saved at the end."""
        return self.average.module if self.average is not None else self.model

    # Checkpoints

    def save(self) -> None:
        states = gather_object([random_state()])
        self._note_best(self.data.metric)
        if self.divided:
            tensors, written = self._tensors(), self._written(states)
            sharded_state.save(self.checkpoints, self.step, tensors, written, self.best, self.accelerator)
        elif self.accelerator.is_main_process:
            self.checkpoints.save(self.step, self._tensors(), self._written(states), self.best)
        if self.accelerator.is_main_process:
            self._write_evaluations()
        self.accelerator.wait_for_everyone()

    def _tensors(self) -> dict[str, Mapping[str, torch.Tensor]]:
        tensors = self._weights(self.step)
        if self._continues(self.step):
            tensors["optimizer"] = _flat(self.optimizer.state_dict()["state"])
        return tensors

    def _written(self, states: list[Any]) -> Any:
        """What is saved beside tensors, as plain JSON."""
        scaler = self.accelerator.scaler
        return plain(
            {
                "run": self.run.to_dict(),
                "data": self.data.identity,
                "step": self.step,
                "evaluations": [evaluation.to_dict() for evaluation in self.evaluations],
                "losses": self.losses.curve,
                "pending": self.losses.pending,
                "best": self.best,
                "random": states,
                "scaler": scaler.state_dict() if scaler is not None else None,
            }
        )

    def _continues(self, step: int) -> bool:
        """Whether a checkpoint holds all that further steps need; the last one is for the result only."""
        return step < self.run.training.steps or self.run.training.keep_checkpoints

    def _weights(self, step: int) -> dict[str, Mapping[str, torch.Tensor]]:
        """The weights in a checkpoint; in the last one, those that are evaluated."""
        if self.average is None:  # with the parameters themselves, one that has two names can be recognised
            return {"model": self.model.state_dict(keep_vars=self.divided)}
        average: dict[str, Mapping[str, torch.Tensor]] = {"average": self.average.state_dict()}
        return {"model": self.model.state_dict(), **average} if self._continues(step) else average

    def _note_best(self, metric: Metric) -> None:
        if not self.evaluations or self.evaluations[-1].step != self.step:
            return
        best = max(self.evaluations, key=lambda found: (metric.sign * found.scores[metric.name], -found.step))
        if best.step == self.step:
            self.best = self.step

    def restore(self, say: Say) -> None:
        """Resume from the newest good checkpoint, if there is one."""
        say = say if self.accelerator.is_main_process else lambda message: None
        if self.accelerator.is_main_process:
            self.checkpoints.tidy()
        if self.divided:
            checkpoint = sharded_state.latest(self.checkpoints, say, self._check)
        else:
            checkpoint = self.checkpoints.latest(say, self._check)
        if checkpoint is not None:
            self._check_data(checkpoint)
            self._load(checkpoint)
            say(f"{self.run.name}, seed {self.run.seed}: resuming from step {self.step} of {self.run.training.steps}")

    def _check(self, checkpoint: Checkpoint) -> None:
        """Raise a `ValueError` if a checkpoint is of another run, or not complete."""
        state = CheckpointState.model_validate(dict(checkpoint.state))
        if state.run is not None and (there := Run.parse(state.run, "its run")) != self.run:
            raise ValueError(f"it is of another run: {differences(there.to_dict(), self.run.to_dict())}")
        if state.step != checkpoint.step or state.step > self.run.training.steps:
            raise ValueError(f"it says step {state.step}")
        for name, tensors in self._weights(state.step).items():
            if checkpoint.shapes.get(name, {}) != {key: tensor.shape for key, tensor in tensors.items()}:
                raise ValueError(f"its {name} has other tensors than the run's")
        if self._continues(state.step) and "optimizer" not in checkpoint.shapes:
            raise ValueError("it has no optimizer state")

    def _check_data(self, checkpoint: Checkpoint) -> None:
        """Not a matter of damage: to start again without a word would be wrong, and so would be to continue."""
        if (before := checkpoint.state.get("data")) and self.data.identity not in ("", before):
            raise ValueError(
                f"{self.folder} was begun on other data than {self.data.source} holds now: put the data back as they "
                f"were, or delete {self.checkpoints.folder} to start again with these"
            )

    def _load(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        if self.divided:
            places = sharded_state.optimizer_places(checkpoint, self.optimizer)
            tensors = {"model": self.model.state_dict(), **({"optimizer": places} if places else {})}
            sharded_state.load(checkpoint, tensors)
        else:
            for name, module in (("model", self.model), ("average", self.average)):
                if module is not None and name in tensors:
                    module.load_state_dict(tensors[name])
        if "optimizer" in tensors:
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": _nested(tensors["optimizer"]), "param_groups": groups})
        state = CheckpointState.model_validate(dict(checkpoint.state))
        self.step, self.best, self.evaluations = state.step, state.best, list(state.evaluations)
        self.losses.restore(state.losses, state.pending)
        if state.scaler is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state.scaler)
        if self.accelerator.process_index < len(state.random):
            set_random_state(state.random[self.accelerator.process_index])
        else:  # more processes than before: the new ones draw their own
            seed_everything(self.run.seed, self.accelerator.process_index, self.step)

    # The end

    def finish(self, final: Mapping[str, float], outcomes: torch.Tensor | None) -> Result:
        """Write the model and, last, the result: a folder with a result is finished."""
        weights = whole_weights(self.model) if self.divided else None
        data, sums = self.data, from_first_process(lambda: self._save_model(weights))
        result = Result(
            name=self.run.name,
            seed=self.run.seed,
            architecture=self.run.architecture,
            task=self.run.task.to_dict(),
            training=self.run.training,
            start=self.run.start,
            source=data.source,
            data=data.identity,
            metric=data.metric,
            baselines=dict(data.baselines),
            params=sum(parameter.numel() for parameter in self.model.parameters()),
            final={"step": self.step, **final},
            best_step=self.best,
            evaluations=self.evaluations,
            losses=self.losses.curve,
            model_sums=sums,
        )
        if self.accelerator.is_main_process:
            self._write_evaluations()
            if not self.run.training.keep_checkpoints:
                self.checkpoints.keep_only(self.step)
            if outcomes is not None:
                write_outcomes(self.folder, outcomes)
            result.write(self.folder / RESULT)
        self.accelerator.wait_for_everyone()
        return result

    def _save_model(self, weights: Mapping[str, torch.Tensor] | None = None) -> dict[str, str]:
        """Write the model with what is needed to use it; returns the checksums of its files.

        Of a divided model, all weights are given.
        """
        folder, model = self.folder / "model", self.judged
        if weights is not None:
            model = build(self.run.architecture)
            model.load_state_dict(weights)
        save_pretrained(model, folder, self.data.preprocessing())
        self.data.accompany(folder)
        return seal(folder)

    def _write_evaluations(self) -> None:
        write_lines(self.folder / "records.jsonl", [evaluation.to_dict() for evaluation in self.evaluations])


def _flat(state: Mapping[int, Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {f"{index}.{key}": value for index, group in state.items() for key, value in group.items()}


def _nested(tensors: Mapping[str, torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    nested: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        nested.setdefault(int(index), {})[key] = tensor
    return nested
