"""How fast designs run on this device, beside what they are counted to cost.

All designs are built with fresh weights and timed in turns, on random inputs. A training step is forward, the family's
usual loss, backward and the optimizer's update; `inference` is a forward pass of the same batch, `latency` of one
sample, and `decoding` generates a text token by token with a cache of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median, quantiles
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.costs.cache import cached_values
from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Optimizer, Setting
from leanformer.costs.steps import peak_memory
from leanformer.costs.timing import Times, Way, in_turns, ratio_of
from leanformer.costs.tracing import Precision
from leanformer.foundation.formats import in_words, percent
from leanformer.foundation.records.base import PlainArchitecture, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models import families
from leanformer.models.base import Attention, Inputs
from leanformer.models.generation import sampled

Workload = Literal["training", "inference", "latency", "decoding"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)
ORIGINAL = "original"
MOST_DECODED = 64
"""Tokens of a text that is generated, if no other number is asked for."""


class TimeRatio(RecordPart):
    """Time over the original's time, round by round: below 1 is faster."""

    mean: float
    """Geometric."""
    low: float
    high: float
    """The 95 % interval over rounds."""

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out."""
        return not self.low <= 1 <= self.high

    @property
    def words(self) -> str:
        """With as many digits as show whether it differs from 1."""
        digits = 2 if (round(self.low, 2) > 1 or round(self.high, 2) < 1) is self.differs else 4
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Timed(RecordPart):
    """One design at one workload."""

    workload: Workload
    seconds: float
    """Of one call, the median over rounds: a step, a batch, a sample, or a whole generated text."""
    quartiles: tuple[float, float]
    percentile_95: float
    """Over rounds; a short call is repeated within a round."""
    rounds: int
    per_second: float
    """Samples, or generated tokens."""
    ratio: TimeRatio | None = None
    """None for the original."""

    @property
    def unit(self) -> str:
        """What is counted per second."""
        return "tokens" if self.workload == "decoding" else "samples"


class Speed(RecordPart):
    """One design: its counts, and its times."""

    name: str
    architecture: PlainArchitecture
    params: int
    macs: int
    """Multiply-accumulates of a forward pass per sample."""
    memory_bytes: int
    """The most that a training step holds: counted, or measured if training was timed with CUDA."""
    cache_bytes: int | None
    """Keys and values per decoded token, in float32; None for models that do not generate text."""
    timed: tuple[Timed, ...]

    def at(self, workload: str) -> Timed | None:
        return next((one for one in self.timed if one.workload == workload), None)


class Bench(DatedRecord):
    """Designs timed side by side, as `leanformer bench` writes them."""

    kind: ClassVar[str] = "bench"
    version: ClassVar[int] = 2  # files of version 1 have no checksum

    model: str
    device: str
    batch: int
    tokens: int | None
    decoded: int | None
    """Tokens of a generated text, if decoding was timed."""
    precision: Precision
    attention: Attention
    checkpointing: bool
    optimizer: Optimizer
    memory_is: Literal["measured", "counted"]
    designs: tuple[Speed, ...]
    """The original first."""

    def glance(self) -> str:
        return f"{self.model!r} on {self.device}: {'; '.join(self.sentences())}"

    def shares(self, design: Speed) -> dict[str, float]:
        """What a design takes of the original's counts."""
        first = self.designs[0]
        return {
            "parameters": design.params / first.params,
            "MACs": design.macs / first.macs,
            "training memory": design.memory_bytes / first.memory_bytes,
            **({"cache": design.cache_bytes / first.cache_bytes} if design.cache_bytes and first.cache_bytes else {}),
        }

    def sentences(self) -> list[str]:
        if len(self.designs) == 1:
            rates = (f"{one.workload} {one.per_second:,.4g} {one.unit} per second" for one in self.designs[0].timed)
            return [f"{self.designs[0].name}: {', '.join(rates)}"]
        return [self._compared(design) for design in self.designs[1:]]

    def _compared(self, design: Speed) -> str:
        counts = in_words(
            [f"{percent(share)} of the {name}" for name, share in self.shares(design).items() if name != "cache"]
        )
        times = ", ".join(
            f"{one.workload} {one.ratio.words}{'' if one.ratio.differs else ' (no difference measured)'}"
            for one in design.timed
            if one.ratio is not None
        )
        return f"{design.name} has {counts}; times divided by the original's: {times}"


def bench_designs(
    designs: Mapping[str, Architecture],
    setting: Setting,
    *,
    model: str,
    workloads: Sequence[Workload] | None = None,
    decoded: int | None = None,
    device: torch.device,
    seconds: float,
    progress: Callable[[str], None] = lambda step: None,
) -> Bench:
    """Build the designs and time them in turns; the first is what the others are compared with.

    Args:
        designs: by name.
        setting: batch, tokens, precision, kind of attention, checkpointing and optimizer.
        model: what the original is called.
        workloads: which of them [default: all that the designs can do].
        decoded: tokens of a generated text [default: 64, or what fits]. It begins with one token.
        device: where to run.
        seconds: about how long each workload may take, all designs together.
        progress: is called with what is being timed.
    """
    subjects = {name: _Subject(design, device) for name, design in designs.items()}
    setting = _with_common_inputs(subjects, setting)
    chosen = _chosen(subjects, workloads, model)
    length = _decoded(subjects, chosen, decoded)
    is_measured = device.type == "cuda" and "training" in chosen
    with ExitStack() as settings:
        for subject in subjects.values():
            settings.enter_context(subject.family.configure(subject.model, setting.attention, setting.checkpointing))
        times = {}
        for workload in chosen:
            progress(workload)
            times[workload] = in_turns(_ways(subjects, workload, setting, length or 0), seconds, waiting(device))
        progress("memory")
        memory = {name: subject.memory(setting, is_measured) for name, subject in subjects.items()}
    amounts = {"training": setting.batch, "inference": setting.batch, "latency": 1, "decoding": length or 0}
    return Bench(
        model=model,
        device=_named(device),
        batch=setting.batch,
        tokens=setting.tokens,
        decoded=length,
        precision=setting.precision,
        attention=setting.attention,
        checkpointing=setting.checkpointing,
        optimizer=setting.optimizer,
        memory_is="measured" if is_measured else "counted",
        designs=tuple(
            Speed(
                name=name,
                architecture=design,
                params=formula(design, setting).parameters(design).total,
                macs=formula(design, setting).cost(design, setting).forward_macs // setting.batch,
                memory_bytes=memory[name],
                cache_bytes=4 * cached_values(design) or None,
                timed=tuple(_timed(workload, name, times[workload], amounts[workload]) for workload in chosen),
            )
            for name, design in designs.items()
        ),
        **fields_of(circumstances()),
    )


def _chosen(subjects: Mapping[str, _Subject], asked: Sequence[Workload] | None, model: str) -> tuple[Workload, ...]:
    """What is timed: what was asked for, or all that the designs can do."""
    can_decode = all(subject.decodes for subject in subjects.values())
    if asked is None:
        return WORKLOADS if can_decode else tuple(one for one in WORKLOADS if one != "decoding")
    if "decoding" in asked and not can_decode:
        raise ValueError(f"decoding needs a model that predicts the next token, such as gpt2; {model} does not")
    return tuple(asked)


def _ways(subjects: Mapping[str, _Subject], workload: Workload, setting: Setting, decoded: int) -> Mapping[str, Way]:
    return {name: subject.way(workload, setting, decoded) for name, subject in subjects.items()}


def waiting(device: torch.device) -> Way:
    """What waits until a device has finished what it was given."""
    return (lambda: None) if device.type == "cpu" else (lambda: torch.accelerator.synchronize(device))


def _with_common_inputs(subjects: Mapping[str, _Subject], setting: Setting) -> Setting:
    """The setting with as many tokens as every design takes. Designs of other inputs cannot be compared."""
    shapes = {name: subject.shapes(setting) for name, subject in subjects.items()}
    if all("input_ids" in own for own in shapes.values()):
        setting = replace(setting, tokens=min(own["input_ids"][1] for own in shapes.values()))
        shapes = {name: subject.shapes(setting) for name, subject in subjects.items()}
    first = next(iter(shapes))
    if other := next((name for name in shapes if shapes[name] != shapes[first]), None):
        raise ValueError(
            f"{other} takes other inputs than the original: {_shown(shapes[other])}, not {_shown(shapes[first])}"
        )
    return setting


def _shown(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return in_words([f"{name} of {' × '.join(map(str, shape))}" for name, shape in shapes.items()])


def _decoded(subjects: Mapping[str, _Subject], chosen: Sequence[Workload], asked: int | None) -> int | None:
    """How many tokens are generated, if text is."""
    if "decoding" not in chosen:
        if asked is not None:
            raise ValueError(f"no text is decoded here, so decode has no meaning: timed are {', '.join(chosen)}")
        return None
    name, longest = min(((name, subject.longest) for name, subject in subjects.items()), key=lambda pair: pair[1])
    if asked is not None and asked > longest:
        raise ValueError(f"{name} takes at most {longest} tokens, so no text of {asked} can be decoded")
    return min(asked or MOST_DECODED, longest)


def _timed(workload: Workload, name: str, times: Times, amount: int) -> Timed:
    own, first = times[name], next(iter(times.values()))
    quarters, twentieths = quantiles(own, n=4, method="inclusive"), quantiles(own, n=20, method="inclusive")
    return Timed(
        workload=workload,
        seconds=median(own),
        quartiles=(quarters[0], quarters[2]),
        percentile_95=twentieths[-1],
        rounds=len(own),
        per_second=amount / median(own),
        ratio=None if own is first else TimeRatio(**ratio_of(own, first)._asdict()),
    )


def _named(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


class _Subject:
    """A built design and what can be timed of it."""

    def __init__(self, architecture: Architecture, device: torch.device) -> None:
        self.architecture, self.device = architecture, device
        self.family = families.family(architecture.family)
        self.model = self.family.build(architecture, device=device)

    @property
    def decodes(self) -> bool:
        return bool(cached_values(self.architecture)) and hasattr(self.model, "generate")

    @property
    def longest(self) -> int:
        """Of the texts that a language model takes."""
        return families.longest_text(self.model.config)

    def inputs(self, setting: Setting) -> Inputs:
        found = self.family.example_inputs(self.architecture, setting.batch, setting.tokens)
        return {name: tensor.to(self.device) for name, tensor in found.items()}

    def shapes(self, setting: Setting) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.inputs(setting).items()}

    def way(self, workload: Workload, setting: Setting, decoded: int) -> Way:
        """What is called to be timed; the model is left in the mode that it needs."""
        self.model.train(workload == "training")
        self.model.zero_grad(set_to_none=True)
        if workload == "training":
            return self._training(setting)
        if workload == "decoding":
            return lambda: self._under_precision(setting, self._decode, decoded)
        inputs = self.inputs(setting if workload == "inference" else replace(setting, batch=1))
        return lambda: self._under_precision(setting, self._forward, inputs)

    def _under_precision(self, setting: Setting, call: Callable[..., object], *arguments: Any) -> object:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=setting.precision == "bfloat16"):
            return call(*arguments)

    @torch.inference_mode()
    def _forward(self, inputs: Inputs) -> object:
        return self.model(**inputs)

    @torch.inference_mode()
    def _decode(self, tokens: int) -> object:
        return list(sampled(self.model, [0], tokens, temperature=0, top_k=None, seed=0))

    def _training(self, setting: Setting) -> Way:
        inputs, update = self.inputs(setting), _optimizer(self.model, setting.optimizer)

        def step() -> None:
            loss = self._under_precision(setting, self.family.loss, self.model, inputs)
            assert isinstance(loss, torch.Tensor)
            loss.backward()
            if update is not None:
                update.step()
            self.model.zero_grad(set_to_none=True)

        return step

    def memory(self, setting: Setting, is_measured: bool) -> int:
        """Bytes that one training step holds at most, with parameters and the optimizer's state; measured on a GPU."""
        if not is_measured:
            return peak_memory(self.architecture, setting)
        own = sum(tensor.numel() * tensor.element_size() for tensor in self.model.parameters())
        before = torch.cuda.memory_allocated(self.device)
        step = self.way("training", setting, 0)
        step()  # makes the optimizer's state
        torch.cuda.reset_peak_memory_stats(self.device)
        step()
        return torch.cuda.max_memory_allocated(self.device) - before + own


RATE = 1e-5
"""Learning rate of the timed steps, which change nothing that is reported."""


def _optimizer(model: nn.Module, kind: Optimizer) -> torch.optim.Optimizer | None:
    if kind == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9) if kind == "sgd" else None
