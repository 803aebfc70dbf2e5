"""One training run, from its settings to a saved model: the loop, read from top to bottom.

A run lives in a folder that describes itself (run.json), so that `train` can begin it, go on with it after any kind of
stop, and find it finished. Batches are a function of seed and step, and the generators' states are in the checkpoints:
a run that was killed and resumed ends with the same bits. Under torchrun or `accelerate launch` the same loop runs on
every process. May import runs, checkpoint, families, records, tasks, tracking and weights.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import gather_object
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from leanformer.conditioning.tracking import Tracker
from leanformer.data.order import Order, Share
from leanformer.models import registry as families
from leanformer.models.weights import load_encoder, save_pretrained
from leanformer.records.files import locked, plain, write_text
from leanformer.tasks.base import Batch, Data, Metric
from leanformer.training.checkpoints import Checkpoint, Checkpoints, random_state, set_random_state
from leanformer.training.run import PRECISIONS, Run, Training, read_back, read_run

TRACKERS = ("tensorboard", "trackio", "wandb")
Say = Callable[[str], None]
Progress = Callable[[int, float], None]
"""Hears how many steps are done, and the loss."""


class Diverged(ValueError):  # noqa: N818
    """The loss is no number any more."""


# The loop


def train(
    folder: str | Path,
    data: Data | None = None,
    *,
    say: Say = lambda message: None,
    progress: Progress = lambda step, loss: None,
    log_with: str = "",
) -> dict[str, Any]:
    """Begin, or go on with, the run that a folder describes; returns its result, which is also in result.json.

    Args:
        folder: a folder that `write_run` described. Checkpoints, records and the trained model are written to it.
        data: the run's data, if they are loaded already.
        say: hears what a person should know, such as where a run goes on.
        progress: hears every few steps how many are done, and the loss.
        log_with: tensorboard, trackio or wandb.
    """
    folder = Path(folder)
    run = read_run(folder)
    if (folder / "result.json").is_file():
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    torch.set_num_threads(run.training.threads)
    accelerator = _accelerator(run, folder, log_with)
    with locked(folder) if accelerator.is_main_process else contextlib.nullcontext():
        try:
            return _train(run, folder, data or run.task.load(), accelerator, say, progress)
        finally:
            for tracker in accelerator.trackers:  # not end_training, which would part the processes for good
                tracker.finish()


def _train(
    run: Run, folder: Path, data: Data, accelerator: Accelerator, say: Say, progress: Progress
) -> dict[str, Any]:
    settings, part = run.training, Share(accelerator.process_index, accelerator.num_processes)
    if settings.batch % (part.count * settings.accumulate):
        raise ValueError(
            f"a batch of {settings.batch} does not divide into {part.count} processes × {settings.accumulate} pieces"
        )
    state = _State.begin(run, folder, accelerator)
    state.restore(say)
    order = Order(run.seed, settings.batch, data.size, settings.accumulate, settings.ramp_steps)
    losses = _Losses(settings, accelerator, state, order)
    clock = _Clock(folder / "timing.jsonl", accelerator)
    judge = _Judge(data, part, accelerator, state)
    if not state.evaluations:
        judge.evaluate()
    state.wrapped.train()
    parameters = list(state.wrapped.parameters())
    for batch in data.batches(order, range(state.step, settings.steps), part):
        clock.start()
        for group in state.optimizer.param_groups:
            group["lr"] = settings.lr_at(state.step)
        pieces = order.pieces_at(state.step)
        for index, piece in enumerate(_pieces(_to(accelerator.device, batch), pieces)):
            with contextlib.nullcontext() if index == pieces - 1 else accelerator.no_sync(state.wrapped):
                loss = data.loss(state.wrapped, piece) / pieces
                accelerator.backward(loss)
            losses.add(loss)
        if settings.clip is not None:
            accelerator.clip_grad_norm_(parameters, settings.clip)
        state.optimizer.step()
        state.optimizer.zero_grad()
        if state.average is not None:
            state.average.update_parameters(state.model)
        state.step += 1
        clock.steps += 1
        if losses.full():
            mean = losses.log()  # waits for the device, so that the clock sees whole steps
            clock.pause()
            progress(state.step, mean)
        if settings.evaluated(state.step) or settings.saved(state.step):
            losses.check()
            losses.check_weights(parameters)
            clock.pause()
        if settings.evaluated(state.step):
            judge.evaluate()
        if settings.saved(state.step):
            state.save(data.metric, losses.pending())
    return state.finish(data, judge.final())


def check_tracker(log_with: str) -> None:
    if log_with and log_with not in TRACKERS:
        raise ValueError(f"--log-with takes {', '.join(TRACKERS)}, got {log_with!r}")
    if log_with and importlib.util.find_spec(log_with) is None:
        raise ValueError(f"--log-with {log_with} needs the package of that name: pip install {log_with}")


def _accelerator(run: Run, folder: Path, log_with: str) -> Accelerator:
    check_tracker(log_with)
    AcceleratorState._reset_state()  # the precision is a run's own; the processes' connections stay
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # said, or else processes without a GPU would not find each other
        mixed_precision=PRECISIONS[run.training.precision],
        log_with=log_with or None,
        project_dir=folder,
    )
    if log_with:
        flat = {f"{key}": value for key, value in asdict(run.training).items() if isinstance(value, (int, float, str))}
        name = f"{run.name}-seed-{run.seed}"
        accelerator.init_trackers(
            "leanformer",
            config={"run": run.name, "seed": run.seed, **flat},
            init_kwargs={"wandb": {"name": name}, "trackio": {"name": name}},
        )
    return accelerator


@dataclass
class _State:
    """What a run has come to: everything that a checkpoint holds."""

    run: Run
    folder: Path
    accelerator: Accelerator
    model: nn.Module
    wrapped: nn.Module
    """The model as the processes share it."""
    optimizer: Any
    average: AveragedModel | None
    step: int = 0
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    """Mean training loss up to a step: [step, loss]."""
    pending: list[float] = field(default_factory=list)
    """Losses of steps that no mean holds yet."""
    best: int | None = None

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.folder / "checkpoints", self.run.training.keep)

    @classmethod
    def begin(cls, run: Run, folder: Path, accelerator: Accelerator) -> _State:
        """A model as its seed draws it."""
        settings = run.training
        seed_everything(run.seed)
        model = families.build(run.architecture)
        if run.start:
            load_encoder(model, run.start)
        if accelerator.num_processes > 1 and accelerator.device.type == "cuda":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # statistics of the whole batch, where there are any
        average = None
        if settings.ema is not None:
            average = AveragedModel(model, accelerator.device, multi_avg_fn=get_ema_multi_avg_fn(settings.ema))
        groups = decay_groups(model, settings.weight_decay)
        optimizer = torch.optim.AdamW(groups, settings.lr, betas=settings.betas, eps=settings.eps, fused=True)
        wrapped, scaled = accelerator.prepare(model, optimizer)
        if accelerator.process_index:
            seed_everything(run.seed, accelerator.process_index)  # same weights, dropout of its own
        # The wrapper around the optimizer is for float16's scaler, and looks up packages on the disk at every step.
        stepping = scaled if accelerator.scaler is not None else optimizer
        return cls(run, folder, accelerator, model, wrapped, stepping, average)

    @property
    def judged(self) -> nn.Module:
        """The model that is evaluated and saved at the end."""
        return self.average.module if self.average is not None else self.model

    def save(self, metric: Metric, pending: list[float]) -> None:
        states = gather_object([random_state()])
        if self.evaluations and self.evaluations[-1]["step"] == self.step:
            best = max(self.evaluations, key=lambda record: (metric.sign * record[metric.name], -record["step"]))
            self.best = best["step"] if best["step"] == self.step else self.best
        if self.accelerator.is_main_process:
            tensors = {"model": self.model.state_dict(), "optimizer": _flat(self.optimizer.state_dict()["state"])}
            if self.average is not None:
                tensors["average"] = self.average.state_dict()
            scaler = self.accelerator.scaler
            written = {
                "step": self.step,
                "evaluations": self.evaluations,
                "losses": self.losses,
                "pending": pending,
                "best": self.best,
                "random": states,
                "scaler": scaler.state_dict() if scaler is not None else None,
            }
            self.checkpoints.save(self.step, tensors, plain(written), self.best)
            _write_lines(self.folder / "records.jsonl", self.evaluations)
        self.accelerator.wait_for_everyone()

    def restore(self, say: Say) -> None:
        """Go on from the newest good checkpoint, if there is one."""
        checkpoint = self.checkpoints.latest(say if self.accelerator.is_main_process else lambda message: None)
        if checkpoint is None:
            return
        self._load(checkpoint)
        if self.accelerator.is_main_process:
            say(f"{self.run.name}, seed {self.run.seed}: going on from step {self.step} of {self.run.training.steps}")

    def _load(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.tensors["model"])
        if self.average is not None:
            self.average.load_state_dict(checkpoint.tensors["average"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": _nested(checkpoint.tensors["optimizer"]), "param_groups": groups})
        state = checkpoint.state
        self.step, self.best = state["step"], state["best"]
        self.evaluations, self.losses, self.pending = state["evaluations"], state["losses"], state["pending"]
        if state["scaler"] is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        if self.accelerator.process_index < len(state["random"]):
            set_random_state(state["random"][self.accelerator.process_index])
        else:  # more processes than before: the new ones draw their own
            seed_everything(self.run.seed, self.accelerator.process_index, self.step)

    def finish(self, data: Data, final: Mapping[str, Any]) -> dict[str, Any]:
        """Write the model and, last, the result: a folder with a result is finished."""
        result = {
            "kind": "run",
            **self.run.to_dict(),
            "source": data.source,
            "metric": vars(data.metric),
            "baselines": dict(data.baselines),
            "params": sum(parameter.numel() for parameter in self.model.parameters()),
            "final": {key: value for key, value in final.items() if isinstance(value, (int, float))},
            "best_step": self.best,
            "evaluations": self.evaluations,
            "losses": self.losses,
        }
        if self.accelerator.is_main_process:
            _write_lines(self.folder / "records.jsonl", self.evaluations)
            save_pretrained(self.judged, self.folder / "model")
            data.accompany(self.folder / "model")
            write_text(self.folder / "result.json", json.dumps(plain(result), indent=1) + "\n")
        self.accelerator.wait_for_everyone()
        return read_back(plain(result))


class _Judge:
    """Evaluation on the held-out samples, and κ beside it."""

    def __init__(self, data: Data, part: Share, accelerator: Accelerator, state: _State) -> None:
        self.data, self.part, self.accelerator, self.state = data, part, accelerator, state
        self.tracker = None
        if count := state.run.training.probe:
            self.tracker = Tracker(state.judged, _to(accelerator.device, data.probe_batch(count)))

    def evaluate(self) -> None:
        state = self.state
        record: dict[str, Any] = {"step": state.step, **(self._scored(self.data.evaluate) or {})}
        if self.tracker is not None and (kappa := self.tracker.record()) is not None:
            record["kappa"] = _short(kappa)
        state.evaluations.append(record)
        logged = {key: value for key, value in record.items() if isinstance(value, float)}
        if "kappa" in record:
            logged["kappa"] = record["kappa"]["median_over_layers"]
        self.accelerator.log(logged, step=state.step)

    def final(self) -> dict[str, Any]:
        """The score that counts: of the test split, or the last evaluation where there is none."""
        tested = self._scored(self.data.evaluate_final)
        return {"step": self.state.step, **tested} if tested else self.state.evaluations[-1]

    def _scored(self, evaluate: Callable[..., dict[str, float] | None]) -> dict[str, float] | None:
        model = self.state.judged
        model.eval()
        with self.accelerator.autocast():
            sums = evaluate(model, self.part, self.accelerator.device)
        model.train()
        return None if sums is None else self.data.score(_summed(self.accelerator, sums))


class _Losses:
    """The training loss, looked at every few steps only, so that a GPU is not kept waiting."""

    def __init__(self, settings: Training, accelerator: Accelerator, state: _State, order: Order) -> None:
        self.settings, self.accelerator, self.state, self.order = settings, accelerator, state, order
        self.values = torch.zeros(settings.log_every, device=accelerator.device)
        self.count = len(state.pending)
        self.values[: self.count] = torch.tensor(state.pending)

    def add(self, loss: torch.Tensor) -> None:
        """A piece's share of the loss of the step that is being taken."""
        place = self.state.step % self.settings.log_every
        if place == self.count:
            self.values[place] = 0
            self.count = place + 1
        self.values[place] += loss.detach()

    def full(self) -> bool:
        return self.count == self.settings.log_every

    def check(self) -> list[float]:
        """The losses since the last mean, over all processes; or the step and the batch that broke the run."""
        values = cast(torch.Tensor, self.accelerator.reduce(self.values[: self.count], "mean")).tolist()
        for place, value in enumerate(values):
            if not math.isfinite(value):
                step = self.state.step - len(values) + place
                raise self._diverged(f"the loss became {value}", step)
        self.values[: self.count] = torch.tensor(values)
        return values

    def check_weights(self, parameters: Sequence[nn.Parameter]) -> None:
        """A step may spoil the weights with a loss that was still a number: such weights are not kept."""
        norms = torch.stack([norm.float() for norm in torch._foreach_norm([p.detach() for p in parameters])])
        if not norms.isfinite().all():
            raise self._diverged("weights became infinite or no numbers", self.state.step - 1)

    def _diverged(self, what: str, step: int) -> Diverged:
        samples = ", ".join(map(str, self.order.indices(step)[:8]))
        return Diverged(
            f"{self.state.run.name}, seed {self.state.run.seed}: {what} at step {step + 1} "
            f"(lr {self.settings.lr_at(step):.3g}, batch of samples {samples}, …); "
            f"nothing was saved after it. A lower lr, a longer warm-up or a clip may help"
        )

    def log(self) -> float:
        values = self.check()
        mean = sum(values) / len(values)
        self.state.losses.append([self.state.step, mean])
        self.accelerator.log({"train_loss": mean, "lr": self.settings.lr_at(self.state.step - 1)}, self.state.step)
        self.count = 0
        return mean

    def pending(self) -> list[float]:
        return self.values[: self.count].tolist()


class _Clock:
    """Seconds spent in steps, apart from the records: they differ from run to run."""

    def __init__(self, path: Path, accelerator: Accelerator) -> None:
        self.path, self.accelerator, self.steps, self._began = path, accelerator, 0, None

    _began: float | None

    def start(self) -> None:
        if self._began is None:
            self._began = time.perf_counter()

    def pause(self) -> None:
        """Write down what the steps since `start` took."""
        if self._began is not None and self.steps and self.accelerator.is_main_process:
            record: dict[str, Any] = {"steps": self.steps, "seconds": time.perf_counter() - self._began}
            if torch.cuda.is_available():
                record["peak_bytes"] = torch.cuda.max_memory_allocated()
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        self.steps, self._began = 0, None


# Small parts


def seed_everything(*key: int) -> None:
    """Set the generators of Python, NumPy and torch; one number seeds torch as `torch.manual_seed` does."""
    words = np.random.SeedSequence(key).generate_state(2)
    random.seed(words.tobytes())
    np.random.seed(words)
    torch.manual_seed(key[0] if len(key) == 1 else int(words[0]))


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters with and without weight decay: vectors and what the model names have none."""
    exempt = set(cast(Any, model).no_weight_decay()) if hasattr(model, "no_weight_decay") else set()
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (others if parameter.ndim <= 1 or name in exempt else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def _to(device: torch.device, batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: value.to(device, non_blocking=True) for key, value in batch.items()}
    return tuple(tensor.to(device, non_blocking=True) for tensor in batch)


def _pieces(batch: Batch, count: int) -> Iterator[Batch]:
    return iter([batch]) if count == 1 else zip(*(tensor.chunk(count) for tensor in batch), strict=True)


def _summed(accelerator: Accelerator, sums: Mapping[str, float]) -> dict[str, float]:
    if accelerator.num_processes == 1:
        return dict(sums)
    total = accelerator.reduce(torch.tensor(list(sums.values()), dtype=torch.float64, device=accelerator.device), "sum")
    return dict(zip(sums, cast(torch.Tensor, total).tolist(), strict=True))


def _short(kappa: Mapping[str, Any]) -> dict[str, Any]:
    """Of κ by layer, what curves need."""
    layers = [
        [layer["kappa"][key] for key in ("lower_quartile", "median", "upper_quartile")] for layer in kappa["layers"]
    ]
    return {
        "median_over_layers": kappa["median_over_layers"],
        "mean_over_layers": kappa["mean_over_layers"],
        "layers": layers,
    }


def _flat(state: Mapping[int, Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {f"{index}.{key}": value for index, group in state.items() for key, value in group.items()}


def _nested(tensors: Mapping[str, torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    nested: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        nested.setdefault(int(index), {})[key] = tensor
    return nested


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(plain(record)) + "\n" for record in records))
