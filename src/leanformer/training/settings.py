"""How a model is trained: one set of plain, checked settings, and what follows from them step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from leanformer.costs.setting import Setting
    from leanformer.data.order import Order

Schedule = Literal["cosine", "one-cycle", "triangle", "constant"]
Precision = Literal["float32", "bfloat16", "float16"]
Parametrization = Literal["standard", "completep"]
Shard = Literal["none", "full"]
ScheduleOver = Literal["steps", "samples"]
Decay = Literal["matrices", "all"]
MOMENTUM = (0.95, 0.85)
"""β₁ at the ends and at the peak of one cycle, as in torch's OneCycleLR."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained."""

    steps: int
    """Optimizer steps."""
    batch: int = 64
    """Samples per step, over all processes."""
    lr: float = 1e-3
    """Peak learning rate of AdamW."""
    schedule: Schedule = "cosine"
    """After a linear warm-up: cosine falls to min_lr, one-cycle and triangle fall linearly, constant stays."""
    warmup: float = 0.1
    """Steps of warm-up: a share of all steps if less than 1, else their number."""
    warmup_lr: float = 0.0
    """Learning rate at which the warm-up starts."""
    min_lr: float = 0.0
    """Learning rate at which cosine ends."""
    schedule_over: ScheduleOver = "steps"
    """What warm-up, schedule and ramp run over: steps, or samples, which steps take unequally many of in a ramp."""
    cycle_momentum: bool = False
    """With one-cycle: β₁ falls from 0.95 to 0.85 while lr rises, and rises again, as in torch's OneCycleLR."""
    weight_decay: float = 0.05
    """Of matrices. Biases, norms and what the model itself exempts have none."""
    decay: Decay = "matrices"
    """Which parameters weight_decay is for: matrices, or all, as AdamW does by itself."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of AdamW's averages of the gradient and of its square."""
    eps: float = 1e-8
    """What AdamW adds to the root of the averaged square."""
    clip: float | None = 1.0
    """Largest norm of the gradient; None for no clipping."""
    accumulate: int = 1
    """Pieces in which a process takes its share of a batch."""
    ramp: float = 0.0
    """Share of the steps (or samples) over which the batch grows from one such piece to all of them."""
    precision: Precision = "float32"
    """float32, or mixed precision with bfloat16 or float16."""
    shard: Shard = "none"
    """full divides parameters, gradients and optimizer state among the processes (FSDP2); none gives each all."""
    checkpointing: bool = False
    """Whether layers are computed again in the backward pass, so that their activations need not be kept."""
    compile: bool = False
    """Whether layers are compiled by torch.compile, which needs a compiler on the machine."""
    parametrization: Parametrization = "standard"
    """completep scales residual branches by base_depth/depth, so that one learning rate serves all depths."""
    base_depth: int | None = None
    """Layers of the model for which lr was chosen; a comparison takes the original's. For completep only."""
    teacher: str = ""
    """A saved model to learn from as well; empty for none. It must answer as the trained model does."""
    teacher_share: float = 0.5
    """Of the loss, the share of the teacher; the rest is that of the task. For a teacher only, as the next two."""
    teacher_temperature: float = 2.0
    """What logits are divided by before they are compared with the teacher's."""
    teacher_hidden: float = 0.0
    """Weight of the distance between hidden states, layer by layer; 0 to compare answers alone."""
    ema: float | None = None
    """Decay of a moving average of the weights. If given, the average is evaluated and saved."""
    evaluations: int = 5
    """How often to evaluate, evenly spread; once more before the first step."""
    probe: int = 8
    """Held-out samples on which κ is measured at each evaluation; 0 for none."""
    save_every: int | None = None
    """Steps between checkpoints; by default there is one at each evaluation."""
    keep: int = 2
    """Checkpoints that are kept while a run trains, beside the best."""
    keep_checkpoints: bool = False
    """Keep them, with the optimizer's state, when it is finished; else the last one, with the weights only."""
    threads: int = 1
    """CPU threads of one run. It is a setting because it decides the last bits of sums."""

    def __post_init__(self) -> None:
        if isinstance(self.betas, list):  # as JSON gives it back
            object.__setattr__(self, "betas", tuple(self.betas))
        for item in fields(self):  # NumPy's numbers do not go into JSON
            value = getattr(self, item.name)
            if isinstance(value, Real) and not isinstance(value, (int, float)):
                object.__setattr__(self, item.name, int(value) if isinstance(value, Integral) else float(value))
        for name, rule, holds in self._rules():
            if not holds:
                raise ValueError(f"{name} must be {rule}, got {getattr(self, name)!r}")
        if self.warmup >= 1 and self.warmup_steps >= self.steps:
            raise ValueError(
                f"a warm-up of {self.warmup_steps} steps leaves none of {self.steps}: give a share, such as warmup=0.1"
            )
        if self.shard == "full" and self.ema is not None:
            raise ValueError("shard=full keeps no moving average of the weights: set ema=None, or shard=none")
        if self.shard == "full" and self.precision == "float16":
            raise ValueError("shard=full has no scaler of losses for float16: set precision=bfloat16, or shard=none")

    def _rules(self) -> list[tuple[str, str, bool]]:
        """For each setting: what it must be, and whether it is."""
        counts = ("steps", "batch", "accumulate", "evaluations", "keep", "threads")
        numbers = ("lr", "warmup", "warmup_lr", "min_lr", "weight_decay", "eps")
        betas = self.betas if isinstance(self.betas, tuple) else ()
        return [
            *((name, "a whole number of at least 1", _is_count(getattr(self, name))) for name in counts),
            *((name, "a number of at least 0", _is_number(getattr(self, name), least=0)) for name in numbers),
            ("probe", "a whole number of at least 0", _is_count(self.probe, least=0)),
            ("betas", "two numbers from 0 to below 1", len(betas) == 2 and all(map(_is_share, betas))),
            ("clip", "a number above 0, or None", self.clip is None or (_is_number(self.clip) and self.clip > 0)),
            ("ema", "a number between 0 and 1, or None", self.ema is None or (_is_share(self.ema) and self.ema > 0)),
            ("ramp", "a share from 0 to 1", _is_share(self.ramp) or self.ramp == 1),
            ("teacher", "a folder, or empty", isinstance(self.teacher, str)),
            ("teacher_share", "a share from 0 to 1", _is_share(self.teacher_share) or self.teacher_share == 1),
            (
                "teacher_temperature",
                "a number above 0",
                _is_number(self.teacher_temperature) and self.teacher_temperature > 0,
            ),
            ("teacher_hidden", "a number of at least 0", _is_number(self.teacher_hidden, least=0)),
            *(
                (name, "true or false", isinstance(getattr(self, name), bool))
                for name in ("keep_checkpoints", "checkpointing", "compile")
            ),
            ("save_every", "a whole number of at least 1", self.save_every is None or _is_count(self.save_every)),
            (
                "base_depth",
                "a whole number of at least 1, and only with parametrization=completep",
                self.base_depth is None or (_is_count(self.base_depth) and self.parametrization == "completep"),
            ),
            (
                "parametrization",
                f"one of {', '.join(get_args(Parametrization))}",
                self.parametrization in get_args(Parametrization),
            ),
            ("schedule_over", "steps or samples", self.schedule_over in get_args(ScheduleOver)),
            ("decay", "matrices or all", self.decay in get_args(Decay)),
            (
                "cycle_momentum",
                "true or false, and true only with schedule=one-cycle",
                isinstance(self.cycle_momentum, bool) and (not self.cycle_momentum or self.schedule == "one-cycle"),
            ),
            *(
                (name, f"one of {', '.join(get_args(words))}", getattr(self, name) in get_args(words))
                for name, words in (("schedule", Schedule), ("precision", Precision), ("shard", Shard))
            ),
        ]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Training:
        """The settings of `to_dict`; unknown ones are refused."""
        if not isinstance(plain, Mapping):
            raise ValueError(f"training must be settings by name, got {plain!r}")
        known = [item.name for item in fields(cls)]
        if unknown := sorted(plain.keys() - set(known)):
            raise ValueError(f"training has no setting {', '.join(unknown)}; it has {', '.join(known)}")
        if "steps" not in plain:
            raise ValueError("training lacks the setting steps")
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "betas": list(self.betas)}

    @property
    def warmup_steps(self) -> int:
        return round(self.warmup * self.steps) if self.warmup < 1 else round(self.warmup)

    def with_warmup_for(self, share: float) -> Training:
        """For so much of the steps: a warm-up that is a number of steps shrinks with them, a share stays."""
        return replace(self, warmup=max(1, round(share * self.warmup))) if self.warmup >= 1 else self

    def cost_setting(self, tokens: int | None) -> Setting:
        """These settings as the cost model takes them, for data of so many tokens: `Data.tokens`."""
        from leanformer.costs.setting import Setting  # with PyTorch, which lists of recipes do without

        return Setting(
            batch=max(1, self.batch // self.accumulate),
            tokens=tokens,
            precision="float32" if self.precision == "float32" else "bfloat16",
            checkpointing=self.checkpointing,
        )

    def order(self, seed: int, size: int | None) -> Order:
        """Which samples each step takes, of an epoch of that size."""
        from leanformer.data.order import Order  # with NumPy, which lists of recipes do without

        if self.schedule_over == "samples":
            return Order(seed, self.batch, size, self.accumulate, ramp_share=self.ramp, steps=self.steps)
        return Order(seed, self.batch, size, self.accumulate, round(self.ramp * self.steps))

    def _place(self, step: int) -> float:
        """Where a step stands in the schedule, in steps."""
        if self.schedule_over == "steps" or not self.ramp:
            return step
        order = self.order(0, None)
        return self.steps * order.first(step) / order.first(self.steps)

    @property
    def log_every(self) -> int:
        """Steps over which the training loss is averaged; progress is reported as often."""
        return min(50, max(1, self.steps // 100))

    def is_evaluated(self, step: int) -> bool:
        """Whether to evaluate after so many steps."""
        return step in {round(i * self.steps / self.evaluations) for i in range(self.evaluations + 1)}

    def is_saved(self, step: int) -> bool:
        """Whether to write a checkpoint after so many steps."""
        return step == self.steps or (step % self.save_every == 0 if self.save_every else self.is_evaluated(step))

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warmup, place = self.warmup_steps, self._place(step)
        if self.schedule == "one-cycle":  # as torch's OneCycleLR with linear annealing
            return self._cycled(place, self.lr / 25, self.lr, self.lr / 25e4)
        if place < warmup:
            return self.warmup_lr + (self.lr - self.warmup_lr) * min(place + 1, warmup) / warmup
        done = (place - warmup) / max(1, self.steps - warmup)
        if self.schedule == "cosine":
            return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2
        return self.lr * (1 - done) if self.schedule == "triangle" else self.lr

    def betas_at(self, step: int) -> tuple[float, float]:
        """AdamW's betas of a step, counted from 0."""
        ends, peak = MOMENTUM
        return (self._cycled(self._place(step), ends, peak, ends), self.betas[1]) if self.cycle_momentum else self.betas

    def _cycled(self, place: float, start: float, peak: float, end: float) -> float:
        """Linearly from the start to the peak, which the warm-up ends with, and on to the end."""
        rise, last = max(0.0, self.warmup_steps - 1.0), self.steps - 1
        if place < rise:
            return start + (peak - start) * place / rise
        return peak + (end - peak) * (place - rise) / max(1.0, last - rise)


def _is_number(value: Any, least: float = -math.inf) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= least


def _is_share(value: Any) -> bool:
    return _is_number(value, least=0) and value < 1


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
