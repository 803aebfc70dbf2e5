"""What a training run is: its settings, and the folder that describes it.

May import architecture, checkpoint and tasks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.conditioning.inputs import Inputs
from leanformer.records.files import write_text
from leanformer.tasks.base import Task

Schedule = Literal["cosine", "one-cycle", "triangle", "constant"]
PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained."""

    steps: int
    """Optimizer steps."""
    batch: int = 64
    """Samples of one step, over all processes."""
    lr: float = 1e-3
    """Peak learning rate of AdamW."""
    schedule: Schedule = "cosine"
    """After a linear warm-up: cosine to min_lr; one-cycle and triangle fall linearly; constant stays."""
    warmup: float = 0.1
    """Steps of warm-up: a share of all steps if less than 1, else their number."""
    warmup_lr: float = 0.0
    """Where the warm-up starts."""
    min_lr: float = 0.0
    """Where cosine ends."""
    weight_decay: float = 0.05
    """Of matrices; biases, norms and what the model itself exempts have none."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = 1.0
    """Largest norm of the gradient."""
    accumulate: int = 1
    """Pieces that a process takes its share of a batch in."""
    ramp: float = 0.0
    """Share of the steps over which the batch grows from one such piece to all of them."""
    precision: str = "float32"
    """float32, bfloat16 or float16 (mixed)."""
    ema: float | None = None
    """Decay of a moving average of the weights, which is then what is evaluated and saved."""
    evaluations: int = 5
    """How often to evaluate, evenly spread; once more before the first step."""
    probe: int = 8
    """Held-out samples that κ is measured on at each evaluation; 0 for none."""
    save_every: int | None = None
    """Steps between checkpoints; at each evaluation by default."""
    keep: int = 2
    """Checkpoints kept, beside the best."""
    threads: int = 1
    """CPU threads of one run; part of the settings, because it decides the last bits of sums."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "evaluations", "keep", "threads"):
            if not _is_count(getattr(self, name)):
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)!r}")
        for name in ("lr", "warmup", "warmup_lr", "min_lr", "weight_decay", "probe", "eps"):
            if not _is_number(getattr(self, name)) or getattr(self, name) < 0:
                raise ValueError(f"{name} must be a number of at least 0, got {getattr(self, name)!r}")
        betas = self.betas if isinstance(self.betas, (list, tuple)) else ()
        object.__setattr__(self, "betas", tuple(betas) or self.betas)
        choices = ("cosine", "one-cycle", "triangle", "constant")
        for holds, rule, value in (
            (len(betas) == 2 and all(map(_is_share, betas)), "betas must be two numbers from 0 to below 1", self.betas),
            (
                self.clip is None or (_is_number(self.clip) and self.clip > 0),
                "clip must be a number above 0",
                self.clip,
            ),
            (self.ema is None or (_is_share(self.ema) and self.ema > 0), "ema must lie between 0 and 1", self.ema),
            (_is_share(self.ramp) or self.ramp == 1, "ramp must be a share from 0 to 1", self.ramp),
            (
                self.save_every is None or _is_count(self.save_every),
                "save_every must be at least 1 step",
                self.save_every,
            ),
            (self.schedule in choices, f"schedule must be {', '.join(choices[:-1])} or constant", self.schedule),
            (self.precision in PRECISIONS, f"precision must be one of {', '.join(PRECISIONS)}", self.precision),
        ):
            if not holds:
                raise ValueError(f"{rule}, got {value!r}")
        if self.warmup >= 1 and self.warmup_steps >= self.steps:
            raise ValueError(
                f"a warm-up of {self.warmup_steps} steps leaves none of {self.steps}: give a share, such as warmup=0.1"
            )

    @property
    def warmup_steps(self) -> int:
        return round(self.warmup * self.steps) if self.warmup < 1 else round(self.warmup)

    @property
    def ramp_steps(self) -> int:
        return round(self.ramp * self.steps)

    @property
    def log_every(self) -> int:
        """Steps that the training loss is averaged over; as often it is looked at, and progress told."""
        return min(50, max(1, self.steps // 100))

    def evaluated(self, step: int) -> bool:
        """Whether to evaluate after so many steps."""
        return step in {round(i * self.steps / self.evaluations) for i in range(self.evaluations + 1)}

    def saved(self, step: int) -> bool:
        return step == self.steps or (step % self.save_every == 0 if self.save_every else self.evaluated(step))

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warmup = self.warmup_steps
        if self.schedule == "one-cycle":  # as torch's OneCycleLR with linear annealing
            start, end, last = self.lr / 25, self.lr / 25e4, self.steps - 1
            rise = max(0.0, warmup - 1.0)
            if step < rise:
                return start + (self.lr - start) * step / rise
            return self.lr + (end - self.lr) * (step - rise) / max(1.0, last - rise)
        if step < warmup:
            return self.warmup_lr + (self.lr - self.warmup_lr) * (step + 1) / warmup
        done = (step - warmup) / max(1, self.steps - warmup)
        if self.schedule == "cosine":
            return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2
        return self.lr * (1 - done) if self.schedule == "triangle" else self.lr


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides a run's result."""

    name: str
    architecture: Architecture
    task: Task
    training: Training
    seed: int = 0
    start: str = ""
    """A run or saved model whose encoder this one begins with; drawn by the seed if empty."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seed": self.seed,
            "architecture": self.architecture.to_dict(),
            "task": self.task.to_dict(),
            "training": read_back(asdict(self.training)),
            "start": self.start,
        }

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Run:
        return cls(
            name=written["name"],
            seed=written["seed"],
            architecture=Architecture.from_dict(written["architecture"]),
            task=tasks.read(written["task"]),
            training=Training(**written["training"]),
            start=written.get("start", ""),
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def read_back(value: Any) -> Any:
    """As JSON gives it back: tuples are lists."""
    return json.loads(json.dumps(value))


def write_run(run: Run, folder: Path) -> None:
    """Describe a run in its folder; one that is described already must be the same."""
    path = folder / "run.json"
    if not path.is_file():
        write_text(path, json.dumps(run.to_dict(), indent=2) + "\n")
    elif (there := json.loads(path.read_text(encoding="utf-8"))) != run.to_dict():
        raise ValueError(f"{folder} holds another run: {differences(there, run.to_dict())}; choose another folder")


def differences(there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "") -> str:
    """In words, where two nested descriptions differ first."""
    for key in dict.fromkeys((*there, *here)):
        old, new = there.get(key), here.get(key)
        if old != new:
            if isinstance(old, Mapping) and isinstance(new, Mapping):
                return differences(old, new, f"{prefix}{key}.")
            return f"{prefix}{key} is {old!r} there and {new!r} here"
    return "nothing differs"


def read_run(folder: Path) -> Run:
    path = folder / "run.json"
    if not path.is_file():
        raise ValueError(f"{folder} is no run: it holds no run.json")
    return Run.from_dict(json.loads(path.read_text(encoding="utf-8")))


def is_run(folder: Path) -> bool:
    return (folder / "run.json").is_file()


def held_out_inputs(folder: Path, count: int) -> Inputs:
    """Held-out samples of a run's own task, to measure its model on."""
    data = read_run(folder).task.load()
    return Inputs(data.probe_batch(count), f"{count} held-out samples of {data.source}")
