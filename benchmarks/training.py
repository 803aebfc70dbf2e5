"""Steps per second of leanformer's training loop, a bare PyTorch loop, the Hugging Face Trainer and timm's loader.

All run the first steps of a recipe on one CPU thread, from the same seed. They take turns step by step, so that a busy
machine slows all of them alike. The time of a step is the time from the end of the previous step to its own end. It
includes making the batch, the step itself, logging and progress. What happens once per run is left out for all of them:
building the model, reading data, evaluating, saving, starting workers, and the first steps, in which the optimizer
creates its state. Steps are added up over the periods in which the recipe logs once, and ratios are medians over
periods. Ratios are given by the clock and in processor time of the training thread. The two agree on a quiet machine;
on a busy one, processor time varies far less.

The others get favourable conditions. The bare loop knows its rows in advance and never reads the loss. The Trainer gets
normalised samples in the right order, and trains one epoch without evaluating or saving. timm runs with 0 and with 2
workers, and the faster of the two counts. The workers load while the others take their turns, and their processor time
is not counted. timm's loader shuffles by itself; the other three must log the same losses.
"""

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from rich.table import Table
from timm.data import create_loader
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, dispatch_clip_grad
from torch import nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from leanformer.data.image_sets import DEBIAN
from leanformer.data.order import Order, Share
from leanformer.experiments.recipes import recipe
from leanformer.foundation.records.quantiles import quantiles
from leanformer.models import families
from leanformer.tasks.base import Batch
from leanformer.tasks.image_classes import ImageClassesData
from leanformer.training.loop import train
from leanformer.training.optimizer import decay_groups
from leanformer.training.randomness import seed_everything
from leanformer.training.run import Run, write_run

WARMUP = 4
"""Steps that are not timed."""
CLOCKS = {"clock": time.perf_counter, "processor": time.thread_time}
TARGETS = {"bare loop": 0.97, "Hugging Face Trainer": 1.0, "timm": 1.0}
"""The least speed of leanformer that is wanted, as a multiple of the other's."""

Tick = Callable[[], None]
"""Is called at the end of each step."""


@dataclass(frozen=True)
class Case:
    """The original model of a recipe, and the first steps of its training."""

    run: Run
    data: ImageClassesData
    periods: int
    """How many times the loss is logged during the timed steps."""

    @property
    def steps(self) -> int:
        return WARMUP + self.periods * self.run.training.log_every

    @property
    def rows(self) -> torch.Tensor:
        """The samples of each step's batch."""
        order = Order(self.run.seed, self.run.training.batch, self.data.size)
        return torch.stack([torch.from_numpy(order.indices(step)) for step in range(self.steps)])

    def model(self) -> nn.Module:
        seed_everything(self.run.seed)
        return families.build(self.run.architecture).train()

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        settings = self.run.training
        groups = decay_groups(model, settings.weight_decay)
        return torch.optim.AdamW(groups, settings.lr, betas=settings.betas, eps=settings.eps, fused=True)

    def logged(self, losses: list[float]) -> list[float]:
        """The logged losses: means over the steps of each period."""
        every = self.run.training.log_every
        return [sum(losses[end - every : end]) / every for end in range(every, len(losses) + 1, every)]


def case(name: str, periods: int) -> Case:
    chosen = recipe(name)
    task, training = chosen.task, replace(chosen.training, evaluations=1, probe=0, threads=1)
    if name == "fashion-mnist" and not (DEBIAN / name).is_dir():
        task = replace(task, dataset="digits", img_size=28)  # the same amount of work, and nothing to download
    data = task.load()
    return Case(Run(name=name, architecture=chosen.original, task=task, training=training), data, periods)


# The loops: each trains and returns the losses that it logged


def leanformer(case: Case, tick: Tick) -> list[float]:
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        write_run(case.run, Path(folder))
        train(folder, Watched(case, tick), progress=lambda step, loss: losses.append(loss))
    return losses


class Watched(ImageClassesData):
    """The data of a case, which end after its steps. A step ends when the loop asks for the next batch."""

    def __init__(self, case: Case, tick: Tick) -> None:
        found, few = case.data.found, slice(64)
        held_out = replace(found.held_out, images=found.held_out.images[few], labels=found.held_out.labels[few])
        super().__init__(case.run.task, replace(found, held_out=held_out))  # evaluating is not timed
        self.steps, self.tick = case.steps, tick

    def batches(self, order: Order, steps: range, share: Share) -> Iterator[Batch]:
        for batch in super().batches(order, steps[: self.steps], share):
            yield batch
            self.tick()


def bare(case: Case, tick: Tick) -> list[float]:
    settings, data = case.run.training, case.data
    model = case.model()
    optimizer = case.optimizer(model)
    images, labels, mean, spread = data.images, data.found.train.labels, data.mean, data.spread
    losses = []
    for step, rows in enumerate(case.rows):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr_at(step)
        loss = F.cross_entropy(model((images[rows].float() - mean) / spread), labels[rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        tick()
    return case.logged(torch.stack(losses).tolist())


def trainer(case: Case, tick: Tick) -> list[float]:
    settings, model = case.run.training, WithLoss(case.model())
    optimizer = case.optimizer(model.model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: settings.lr_at(step) / settings.lr)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=case.steps,
            per_device_train_batch_size=settings.batch,
            train_sampling_strategy="sequential",
            max_grad_norm=settings.clip,
            logging_steps=settings.log_every,
            seed=case.run.seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            use_cpu=True,
        )
        running = Trainer(
            model,
            arguments,
            train_dataset=Normalised(case),
            optimizers=(optimizer, scheduler),
            callbacks=[Ticking(tick)],
        )
        running.remove_callback(PrinterCallback)
        running.train()
    return [float(record["loss"]) for record in running.state.log_history if "loss" in record]


class WithLoss(nn.Module):
    """An image model that returns its loss, as the Trainer requires."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.model(images)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Normalised(Dataset):
    """Samples in the order in which they are needed."""

    def __init__(self, case: Case) -> None:
        rows = case.rows.flatten()
        self.images, self.labels = case.data.normalised(case.data.images[rows]), case.data.found.train.labels[rows]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"images": self.images[row], "labels": self.labels[row]}


class Ticking(TrainerCallback):
    def __init__(self, tick: Tick) -> None:
        self.tick = tick

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.tick()


def timm_style(case: Case, tick: Tick, workers: int) -> list[float]:
    """A loop like that of timm's train.py, which reads the loss at every step."""
    settings, data = case.run.training, case.data
    model = case.model()
    optimizer = create_optimizer_v2(
        model, "adamw", settings.lr, settings.weight_decay, betas=settings.betas, eps=settings.eps, fused=True
    )
    scheduler = CosineLRScheduler(optimizer, settings.steps, warmup_t=settings.warmup_steps, t_in_epochs=False)
    loader = create_loader(
        Opened(data),
        tuple(data.images.shape[1:]),
        settings.batch,
        is_training=True,
        no_aug=True,
        mean=tuple((data.mean / 255).flatten().tolist()),
        std=tuple((data.spread / 255).flatten().tolist()),
        num_workers=workers,
        device=torch.device("cpu"),
    )
    losses, measure, updates = [], nn.CrossEntropyLoss(), 0
    while updates < case.steps:
        mean = AverageMeter()
        for images, labels in loader:
            loss = measure(model(images), labels)
            loss.backward()
            dispatch_clip_grad(model.parameters(), settings.clip)
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
            mean.update(loss.item(), len(images))
            losses.append(mean.val)
            scheduler.step_update(updates, metric=mean.avg)
            tick()
            if updates == case.steps:
                break
    return case.logged(losses)


class Opened(Dataset):
    """Single PIL images, made as in torchvision's Fashion-MNIST, for a loader to transform."""

    transform: Callable[[Image.Image], torch.Tensor]
    """Set by timm's `create_loader`."""

    def __init__(self, data: ImageClassesData) -> None:
        self.images, self.labels = data.images[:, 0], data.found.train.labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.images[row].numpy())), self.labels[row]


Way = Callable[[Case, Tick], list[float]]
WAYS: Mapping[str, Way] = {
    "leanformer": leanformer,
    "bare loop": bare,
    "Hugging Face Trainer": trainer,
    "timm, 0 workers": partial(timm_style, workers=0),
    "timm, 2 workers": partial(timm_style, workers=2),
}


# The measurement


def speed() -> dict[str, Any]:
    threads = torch.get_num_threads()
    try:
        return {"threads": 1, "rows": [race(case("digits", periods=30)), race(case("fashion-mnist", periods=8))]}
    finally:
        torch.set_num_threads(threads)


def race(case: Case) -> dict[str, Any]:
    every = case.run.training.log_every
    runners = in_turns(case)
    losses = {name: runner.losses.result() for name, runner in runners.items()}
    for name in ("bare loop", "Hugging Face Trainer"):
        torch.testing.assert_close(losses[name], losses["leanformer"], rtol=0, atol=1e-4)
    times = {name: runner.periods(every) for name, runner in runners.items()}
    rates = {name: every / median(periods["clock"]) for name, periods in times.items()}
    workers = max((0, 2), key=lambda count: rates[f"timm, {count} workers"])
    times["timm"] = times[f"timm, {workers} workers"]
    return {
        "recipe": case.run.name,
        "arm": "original",
        "data": case.data.source,
        "batch": case.run.training.batch,
        "periods": case.periods,
        "steps_per_period": every,
        "steps_per_second": rates,
        "timm_workers": workers,
        "ratio": {name: _ratio(times[name], times["leanformer"]) for name in TARGETS},
        "last_loss": {name: values[-1] for name, values in losses.items()},
    }


def in_turns(case: Case) -> dict[str, "Runner"]:
    """Run every loop, in turns; returns their runners."""
    runners = {name: Runner(way, case) for name, way in WAYS.items()}
    generator = random.Random(0)
    while waiting := [runner for runner in runners.values() if not runner.losses.done()]:
        generator.shuffle(waiting)  # so that no loop always follows the one whose workers have just been called
        for runner in waiting:
            runner.turn()
    return runners


class Runner:
    """A loop in its own thread, which waits between its turns."""

    def __init__(self, way: Way, case: Case) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in CLOCKS}
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.losses: Future[list[float]] = Future()
        threading.Thread(target=self._run, args=(way, case), daemon=True).start()

    def turn(self) -> None:
        """Let it take one step."""
        self._go.release()
        self._stopped.acquire()

    def periods(self, steps: int) -> dict[str, list[float]]:
        """Seconds of each period of so many timed steps, by each clock."""
        return {
            name: [sum(seconds[start : start + steps]) for start in range(WARMUP, len(seconds), steps)]
            for name, seconds in self.seconds.items()
        }

    def _run(self, way: Way, case: Case) -> None:
        self._wait()
        torch.set_num_threads(1)
        try:
            self.losses.set_result(way(case, self._tick))
        except BaseException as error:
            self.losses.set_exception(error)
        self._stopped.release()

    def _tick(self) -> None:
        for name, clock in CLOCKS.items():
            self.seconds[name].append(clock() - self._began[name])
        self._stopped.release()
        self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        self._began = {name: clock() for name, clock in CLOCKS.items()}


def _ratio(other: dict[str, list[float]], ours: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Quartiles of how many times longer the other loop takes, by each clock."""
    found = {}
    for clock in CLOCKS:
        ratios = [theirs / our for theirs, our in zip(other[clock], ours[clock], strict=True)]
        quartiles = quantiles(ratios, (0.25, 0.5, 0.75))
        found[clock] = dict(zip(("lower_quartile", "median", "upper_quartile"), quartiles, strict=True))
    return found


def table(record: dict[str, Any]) -> Table:
    shown = Table("original of", "way", "steps per second", "by the clock", "in processor time", "target")
    shown.title = "Training on 1 thread: leanformer's speed as a multiple of the others' (quartiles)"
    for row in record["rows"]:
        for name, rate in row["steps_per_second"].items():
            key = "timm" if name == f"timm, {row['timm_workers']} workers" else name
            model = row["recipe"] if name == "leanformer" else ""
            ratios = [_shown(row["ratio"][key][clock]) for clock in CLOCKS] if key in TARGETS else ["", ""]
            shown.add_row(model, name, f"{rate:.1f}", *ratios, f"≥ {TARGETS[key]}" if key in TARGETS else "")
        shown.add_section()
    return shown


def _shown(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.3f} ({ratio['lower_quartile']:.2f} – {ratio['upper_quartile']:.2f})"
