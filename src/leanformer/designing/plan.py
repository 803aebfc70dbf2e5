"""Leaner candidates for a model: what each costs, which are worth a look, which to avoid, and a plan in plain words.

May import architecture, cost, guards, theory, zoo and records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import yaml

from leanformer.architecture import REGIMES, Architecture, Keep
from leanformer.conditioning import gaussian as theory
from leanformer.costs.closed_forms import Cost, Formula, Setting, formula, peak_memory
from leanformer.designing.guards import Guard, guards
from leanformer.models import names as zoo
from leanformer.models import registry as families
from leanformer.records.circumstances import circumstances


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a design may cost; None leaves it open."""

    params: int | None = None
    memory_bytes: int | None = None
    macs: int | None = None
    """Multiplications of a forward pass of one sample."""
    depth: tuple[int, int] | None = None

    def allow(self, candidate: Candidate, batch: int) -> bool:
        cost, depth = candidate.cost, candidate.architecture.depth
        return (
            (self.params is None or cost.params.total <= self.params)
            and (self.memory_bytes is None or cost.memory_bytes <= self.memory_bytes)
            and (self.macs is None or cost.forward_macs <= self.macs * batch)
            and (self.depth is None or self.depth[0] <= depth <= self.depth[1])
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One design with everything that can be said of it before training."""

    architecture: Architecture
    keep: Keep
    cost: Cost
    gaussian: float
    """κ that a Gaussian block of its worst stage would have."""
    guards: tuple[Guard, ...]

    @property
    def warned(self) -> bool:
        return any(guard.level != "note" for guard in self.guards)

    @property
    def refused(self) -> bool:
        return any(guard.level == "refuse" for guard in self.guards)

    def dominates(self, other: Candidate) -> bool:
        """No worse in parameters, memory, predicted κ and depth, and better in one."""
        mine, theirs = self._aims(), other._aims()
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))

    def _aims(self) -> tuple[float, ...]:
        cost = self.cost
        return cost.params.total, cost.memory_bytes, round(self.gaussian, 3), -self.architecture.depth

    def to_dict(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture.to_dict(),
            "regime": REGIMES[self.keep],
            "params": self.cost.params.total,
            "forward_macs": self.cost.forward_macs,
            "memory_bytes": self.cost.memory_bytes,
            "gaussian_kappa": self.gaussian,
            "guards": [{"name": g.name, "level": g.level, "figure": g.figure, "remedy": g.remedy} for g in self.guards],
        }


def candidates(
    base: Architecture, regimes: Sequence[Keep], head_dims: Sequence[int] = ()
) -> Iterator[tuple[Architecture, Keep]]:
    """Designs with at least as many heads, at most as many layers and as wide an MLP; never the original.

    In the regime that keeps head_dim, `head_dims` may name others to try, and models of one stage also get schedules:
    as many heads as before in one half of the layers and twice as many in the other.
    """
    for keep in regimes:
        for sized in [base, *(base.with_head_dim(d) for d in head_dims if keep == "head_dim")]:
            for heads in _head_choices(sized, keep):
                for depth in _depth_choices(base):
                    yield from _with_mlps(base, sized.with_heads(heads, keep).with_depth(depth), keep)
            if keep == "head_dim" and len(base.stages) == 1:
                for schedule in _schedules(sized):
                    yield from _with_mlps(base, schedule, keep)


def _with_mlps(base: Architecture, design: Architecture, keep: Keep) -> Iterator[tuple[Architecture, Keep]]:
    for quarters in (4, 3, 2, 1):
        sizes = [max(2, stage.mlp_dim * quarters // 8 * 2) for stage in base.stages]
        changed = design.with_mlp(sizes if len(sizes) > 1 else sizes[0])
        if changed != base:
            yield changed, keep


def _schedules(base: Architecture) -> Iterator[Architecture]:
    heads = base.stages[0].heads
    for (depth,) in _depth_choices(base):
        first, second = depth // 2, depth - depth // 2
        for schedule in ([heads] * second + [2 * heads] * first, [2 * heads] * first + [heads] * second):
            design = base.with_head_schedule(schedule)
            if len(design.stages) == 2 and _buildable(design):
                yield design


def _head_choices(base: Architecture, keep: Keep) -> list[list[int]]:
    """For one stage, many counts up to three times the original's; for several, all or the deepest stage doubled.

    Splitting the width between as many heads as before is the original again, and left out.
    """
    return [heads for heads in _wanted_heads(base, keep) if _possible(base, heads, keep)]


def _possible(base: Architecture, heads: list[int], keep: Keep) -> bool:
    if keep == "width" and heads == [stage.heads for stage in base.stages]:
        return False
    try:
        return _buildable(base.with_heads(heads, keep))
    except ValueError:
        return False


def _buildable(design: Architecture) -> bool:
    try:
        families.family(design.family).canonical(design)
    except ValueError:
        return False
    return True


def _wanted_heads(base: Architecture, keep: Keep) -> list[list[int]]:
    if len(base.stages) == 1:
        stage = base.stages[0]
        step = max(1, stage.heads // 6)
        most = (3 if keep == "head_dim" else 4) * stage.heads
        wanted = range(stage.heads, most + 1, step if keep == "head_dim" else 1)
        return [[heads] for heads in wanted]
    now = [stage.heads for stage in base.stages]
    deepest = max(range(len(now)), key=lambda index: base.stages[index].depth)
    return [now, [2 * h for h in now], [2 * h if index == deepest else h for index, h in enumerate(now)]]


def _depth_choices(base: Architecture) -> list[list[int]]:
    if len(base.stages) == 1:
        return [[depth] for depth in range(base.depth, math.ceil(base.depth / 4) - 1, -1)]
    return [[max(1, math.ceil(stage.depth * share / 8)) for stage in base.stages] for share in (8, 7, 6, 5, 4, 3, 2)]


def evaluate(base: Architecture, design: Architecture, keep: Keep, closed: Formula, setting: Setting) -> Candidate:
    tokens = closed.tokens if len(closed.tokens) > 1 else closed.tokens * len(design.stages)
    concerns: dict[str, Guard] = {}
    for index, (stage, rows) in enumerate(zip(design.stages, tokens, strict=True)):
        for guard in guards(base.stages[min(index, len(base.stages) - 1)], stage, rows, keep):
            concerns.setdefault(guard.name, guard)
    worst = max(
        theory.expected_log_kappa(rows, stage.inner_width) for stage, rows in zip(design.stages, tokens, strict=True)
    )
    cost = closed.cost(design, setting)
    return Candidate(
        architecture=design, keep=keep, cost=cost, gaussian=math.exp(worst), guards=tuple(concerns.values())
    )


def front(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that no other dominates, largest first."""
    best: list[Candidate] = []
    for candidate in sorted(found, key=lambda c: c._aims()):
        if not any(other.dominates(candidate) for other in best):
            best.append(candidate)
    return sorted(best, key=lambda c: -c.cost.params.total)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The original, the candidates within the limits, and the one to try first."""

    original: Candidate
    found: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    recommended: Candidate
    setting: Setting
    peak_bytes: int
    """Traced peak memory of the recommended design."""
    refused: tuple[Candidate, ...] = ()
    """Designs within the limits that a guard keeps out."""

    def words(self) -> list[str]:
        """The plan in plain words."""
        was, now, batch = self.original, self.recommended, self.setting.batch
        old, new = was.architecture, now.architecture
        saved = 100 * (1 - now.cost.params.total / was.cost.params.total)

        def change(word: str) -> str:
            before, after = (_list([getattr(stage, word) for stage in a.stages]) for a in (old, new))
            return after if before == after else f"{after} (was {before})"

        memory = f"{was.cost.memory_bytes / 1e9:.1f} to {now.cost.memory_bytes / 1e9:.1f} GB"
        macs = f"{was.cost.forward_macs / batch / 1e9:.2f} to {now.cost.forward_macs / batch / 1e9:.2f} G"
        lines = [
            f"Train {new.depth} layers (was {old.depth}) with {change('heads')} heads of {change('head_dim')} "
            f"and MLPs of {change('mlp_dim')}: {now.cost.params.total / 1e6:.1f} M parameters, {saved:.0f} % fewer.",
            f"Memory for a batch of {batch} goes from {memory} (traced peak {self.peak_bytes / 1e9:.1f} GB), "
            f"multiplications a sample from {macs}.",
            f"A Gaussian attention block would have κ = {now.gaussian:.2f} (was {was.gaussian:.2f}); real attention is "
            "far above both, so take it as a direction, and train the shallow control beside it.",
        ]
        lines += [f"{guard.level}: {guard}" for guard in now.guards]
        if self.refused:
            shown = next(guard for guard in self.refused[0].guards if guard.level == "refuse")
            lines.append(f"{len(self.refused)} designs are left out, --force shows them. The first: {shown}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "design",
            "setting": vars(self.setting),
            "original": self.original.to_dict(),
            "recommended": self.recommended.to_dict(),
            "recommended_peak_bytes": self.peak_bytes,
            "front": [candidate.to_dict() for candidate in self.front],
            "considered": len(self.found),
            "refused": len(self.refused),
            "words": self.words(),
            "points": [[c.cost.params.total, c.cost.memory_bytes, c.warned] for c in self.found],
            **circumstances().model_dump(),
        }


def _list(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else "/".join(map(str, numbers))


def design(
    name: str | Architecture,
    *,
    limits: Limits | None = None,
    regimes: Sequence[Keep] = ("head_dim", "width"),
    head_dims: Sequence[int] = (),
    setting: Setting | None = None,
    force: bool = False,
) -> Plan:
    """Leaner candidates for a model within limits, the front of those that none dominates, and a recommendation.

    The recommendation is the deepest design without a warning that has at least a third more heads and at least half
    the MLP, in the regime that keeps head_dim where there is one; among equals the largest.

    Args:
        name: a model as for `lf.create`, or an architecture.
        limits: what a design may cost; by default half the parameters that the original has in its layers.
        regimes: "head_dim" (fixed), "width" (split), or both.
        head_dims: other sizes of head to try in the first of them.
        setting: batch, precision, kind of attention, checkpointing and optimizer that memory is counted for.
        force: whether to show designs that a guard refuses: heads of a size at which accuracy was measured to fall.
    """
    base = name if isinstance(name, Architecture) else zoo.architecture_of(name)
    setting = setting or Setting()
    closed = formula(base, setting)
    original = evaluate(base, base, "head_dim", closed, setting)
    if limits is None:  # half of what the layers hold; embedding and head stay
        fixed = original.cost.params.embedding + original.cost.params.head
        limits = Limits(params=(original.cost.params.total + fixed) // 2)
    found = [evaluate(base, design, keep, closed, setting) for design, keep in candidates(base, regimes, head_dims)]
    allowed = [candidate for candidate in found if limits.allow(candidate, setting.batch)]
    if not allowed:
        least = min(found, key=lambda c: c.cost.params.total)
        size, memory = f"{least.cost.params.total / 1e6:.1f} M parameters", f"{least.cost.memory_bytes / 1e9:.1f} GB"
        macs = f"{least.cost.forward_macs / setting.batch / 1e9:.2f} G multiplications a sample"
        raise ValueError(
            f"no design within these limits: the smallest considered has {size}, {memory}, {macs} and "
            f"{least.architecture.depth} layers; raise --params, --fit or --macs, or widen --depth"
        )
    refused = tuple(candidate for candidate in allowed if candidate.refused and not force)
    allowed = [candidate for candidate in allowed if force or not candidate.refused]
    if not allowed:
        shown = next(guard for guard in refused[0].guards if guard.level == "refuse")
        raise ValueError(f"every design within these limits is refused: {shown}; --force shows them all the same")
    chosen = max(allowed, key=lambda candidate: _preference(base, candidate))
    return Plan(
        original=original,
        found=tuple(allowed),
        front=tuple(front(allowed)),
        recommended=chosen,
        setting=setting,
        peak_bytes=peak_memory(chosen.architecture, setting),
        refused=refused,
    )


def _preference(base: Architecture, candidate: Candidate) -> tuple[float, ...]:
    new = candidate.architecture
    heads = fmean(s.heads for s in new.layers) / fmean(s.heads for s in base.layers)
    mlp = min(s.mlp_dim for s in new.stages) / min(s.mlp_dim for s in base.stages)
    return (
        not candidate.warned,
        len(new.stages) == len(base.stages),
        heads >= 4 / 3 - 1e-9,
        mlp >= 0.5 - 1e-9,
        candidate.keep == "head_dim",
        new.depth,
        -abs(heads - (4 / 3 if len(base.stages) == 1 else 2)),
        candidate.cost.params.total,
    )


# What to paste into one's own training


def emit(candidate: Candidate, form: str) -> str:
    """The design as code or configuration: `timm`, `hf` or `yaml`."""
    architecture = candidate.architecture
    if form == "yaml":
        return yaml.safe_dump(architecture.to_dict(), sort_keys=False)
    family = families.family(architecture.family)
    if form == "hf":
        if not hasattr(family, "config"):
            raise ValueError(
                f"--emit hf is for language models; {architecture.name} is an image model: use timm or yaml"
            )
        return str(family.config(architecture).to_json_string())
    if form == "timm":
        if not hasattr(family, "timm_options"):
            raise ValueError(
                f"--emit timm is for image models; {architecture.name} is a language model: use hf or yaml"
            )
        return _call(architecture)
    raise ValueError(f"--emit takes timm, hf or yaml, got {form!r}")


def _call(architecture: Architecture) -> str:
    """A call of timm's own where its constructor can say the design, else of `lf.create`."""
    stages, options = architecture.stages, "".join(f", {k}={v!r}" for k, v in architecture.options.items())
    first = stages[0]
    if len(stages) == 1 and first.inner_width == first.width and first.mlp_dim % first.width == 0:
        heads = "num_heads_outer" if architecture.family == "tnt" else "num_heads"
        sizes = f"depth={first.depth}, {heads}={first.heads}, mlp_ratio={first.mlp_dim // first.width}"
        return f"import timm\n\nmodel = timm.create_model({architecture.name!r}, {sizes}{options})\n"

    structural = families.family(architecture.family).stage_count is not None

    def each(word: str) -> str:
        values = [getattr(stage, word) for stage in stages]
        return f"{word}={values[0] if len(set(values)) == 1 and not (structural and word == 'depth') else values}"

    if len(stages) > 1 and not structural:  # a schedule: one number of heads per layer
        sizes = f"heads={[layer.heads for layer in architecture.layers]}, {each('head_dim')}, {each('mlp_dim')}"
    else:
        sizes = ", ".join(each(word) for word in ("depth", "heads", "head_dim", "mlp_dim"))
    return f"import leanformer as lf\n\nmodel = lf.create({architecture.name!r}, {sizes}{options})\n"


# A whole run


@dataclass(frozen=True)
class Accelerator:
    """A device's dense peak and board power, from its maker's data sheet."""

    tflops_bf16: float
    tflops_fp32: float
    """With TF32 tensor cores where it has them."""
    watts: float
    memory_gb: int


ACCELERATORS = {
    "a100": Accelerator(312, 156, 400, 80),
    "h100": Accelerator(989, 495, 700, 80),
    "v100": Accelerator(125, 15.7, 300, 32),
    "a6000": Accelerator(155, 77, 300, 48),
    "rtx4090": Accelerator(165, 83, 450, 24),
    "l4": Accelerator(121, 60, 72, 24),
    "t4": Accelerator(65, 8.1, 70, 16),
}


@dataclass(frozen=True)
class RunCost:
    flops: float
    device_hours: float
    wall_hours: float
    energy_kwh: float


def run_cost(
    cost: Cost, setting: Setting, samples: float, device: str = "a100", devices: int = 1, utilisation: float = 0.35
) -> RunCost:
    """A whole training run: backward counted as two forwards (three with checkpointing), boards at full power."""
    if device not in ACCELERATORS:
        raise ValueError(f"device must be one of {', '.join(ACCELERATORS)}, got {device!r}")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation must be between 0 and 1, got {utilisation}")
    board = ACCELERATORS[device]
    passes = 4 if setting.checkpointing else 3
    flops = 2 * passes * cost.forward_macs / setting.batch * samples
    peak = 1e12 * (board.tflops_bf16 if setting.precision == "bfloat16" else board.tflops_fp32)
    hours = flops / (peak * utilisation) / 3600
    return RunCost(flops=flops, device_hours=hours, wall_hours=hours / devices, energy_kwh=hours * board.watts / 1000)


def scaled(limit: str, whole: float, word: str) -> int:
    """A limit such as "50%", "40M", "24GB" or a plain number, against the original's."""
    text = limit.strip().upper().removesuffix("B") if word == "--fit" else limit.strip().upper()
    units = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    try:
        if text.endswith("%"):
            value = float(text[:-1]) / 100 * whole
        else:
            value = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        value = -1.0
    if value <= 0:
        raise ValueError(f'{word} takes a share or a size, such as "50%", "40M" or "24GB", got "{limit}"')
    return int(value)
