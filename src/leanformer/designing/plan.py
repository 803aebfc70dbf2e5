"""Leaner designs for a model within limits, and which of them to try first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from torch import nn

from leanformer.architecture import REGIMES, Architecture, Keep, Regime
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost
from leanformer.costs.setting import Optimizer, Shard
from leanformer.costs.steps import peak_memory
from leanformer.costs.tracing import Precision
from leanformer.designing.candidates import Candidate, candidates, divisor, evaluate, front
from leanformer.designing.emit import Form, emit
from leanformer.designing.record import CandidateRecord, DesignRecord
from leanformer.foundation.arguments import ArgumentError, check_types, numbers, size, writable
from leanformer.foundation.progress import RunsProgress, working
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import publish
from leanformer.foundation.records.views import Shown
from leanformer.models import families
from leanformer.models.base import Attention
from leanformer.models.names import architecture_of

RECORD = "design.json"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a design may cost; None sets no limit."""

    params: int | None = None
    memory_bytes: int | None = None
    macs: int | None = None
    """Multiply-accumulates of a forward pass of one sample."""
    depth: tuple[int, int] | None = None
    """The fewest and the most layers."""

    def allow(self, candidate: Candidate, batch: int) -> bool:
        cost, depth = candidate.cost, candidate.architecture.depth
        return (
            (self.params is None or cost.params.total <= self.params)
            and (self.memory_bytes is None or cost.memory_bytes <= self.memory_bytes)
            and (self.macs is None or cost.forward_macs <= self.macs * batch)
            and (self.depth is None or self.depth[0] <= depth <= self.depth[1])
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class DesignPlan(Shown):
    """The original, the candidates within the limits, and the one to try first."""

    original: Candidate
    found: tuple[Candidate, ...]
    """Every design within the limits that no guard refuses."""
    front: tuple[Candidate, ...]
    """Those that no other dominates, largest first."""
    recommended: Candidate
    setting: Setting
    peak_bytes: int
    """Traced peak memory of the recommended design."""
    refused: tuple[Candidate, ...] = ()
    """Designs within the limits that a guard keeps out."""
    run: WholeRun | None = None
    """A whole run whose cost is counted too."""

    def __repr__(self) -> str:
        was, now = self.original, self.recommended
        return (
            f"DesignPlan(original: {was.architecture}, {was.cost.params.total:,} parameters; "
            f"recommended: {now.architecture}, {now.cost.params.total:,} parameters; "
            f"{len(self.found)} found, {len(self.front)} on the front, {len(self.refused)} refused)"
        )

    def record(self, run: WholeRun | None = None) -> DesignRecord:
        """The plan as a record, with sentences; `run` adds what a whole run of both designs costs."""
        run = run or self.run
        return DesignRecord(
            origin=families.family(self.original.architecture.family).origin(self.original.architecture),
            devices=divisor(self.recommended.architecture),
            setting=self.setting,
            original=self._recorded(self.original, run),
            recommended=self._recorded(self.recommended, run),
            recommended_peak_bytes=self.peak_bytes,
            front=tuple(self._recorded(candidate) for candidate in self.front),
            considered=len(self.found),
            refused=len(self.refused),
            first_refusal=self.refused[0].refusal if self.refused else None,
            run=run,
            points=tuple((c.cost.params.total, c.cost.memory_bytes, c.warned) for c in self.found),
            **fields_of(circumstances()),
        )

    def as_record(self) -> DesignRecord:
        return self.record()

    def words(self) -> list[str]:
        """The plan in plain words."""
        return self.record().words

    def emit(self, form: Form) -> str:
        """The recommended design to paste: a call ("timm", "leanformer"), a configuration ("hf"), numbers ("yaml")."""
        return emit(self.recommended.architecture, form)

    def _recorded(self, candidate: Candidate, run: WholeRun | None = None) -> CandidateRecord:
        return CandidateRecord(
            architecture=candidate.architecture,
            regime=candidate.regime,
            params=candidate.cost.params.total,
            forward_macs=candidate.cost.forward_macs,
            memory_bytes=candidate.cost.memory_bytes,
            held=candidate.cost.held,
            gaussian_kappa=candidate.gaussian,
            guards=candidate.guards,
            run=None if run is None else run_cost(candidate.cost, self.setting, run),
        )


def design(
    model: str | Path | Architecture | nn.Module,
    *,
    params: str | int | None = None,
    fit: str | int | None = None,
    macs: str | int | None = None,
    depth: str | int | Sequence[int] | None = None,
    head_dims: str | int | Sequence[int] | None = None,
    heads_multiple: int | None = None,
    regimes: Regime | Literal["both"] | Sequence[Regime | Keep] = "both",
    batch: int | None = None,
    tokens: int | None = None,
    precision: Precision | None = None,
    attention: Attention | None = None,
    checkpointing: bool | None = None,
    optimizer: Optimizer | None = None,
    shard: Shard | None = None,
    samples: str | int | None = None,
    device: str = "a100",
    devices: int = 8,
    utilisation: float = 0.35,
    force: bool = False,
    limits: Limits | None = None,
    setting: Setting | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> DesignPlan:
    """Leaner candidates for a model within limits, their Pareto front, and a recommendation.

    >>> plan = lf.design("vit_base_patch16_224", params="50%")
    >>> model = lf.build(plan.recommended.architecture)

    The recommendation is the deepest design without a warning that has at least a third more heads and at least half
    the MLP, in the regime `fixed` if possible; among equals the largest.

    Args:
        model: a model as for `lf.create`, a saved model's folder, an architecture, or a module of a known family.
        params, fit, macs: limits of parameters, training memory and MACs per sample: a number, or a text
            such as "50%", "40M", "24GB". Without any limit, half the parameters that the original has in its layers.
        depth: only these depths: 7, (6, 8) or "6-8".
        head_dims: other head sizes to try in the regime "fixed", such as [32, 96] or "32,96".
        heads_multiple: heads, and the key heads that they share, are multiples of this, so that tensor parallelism can
            divide them; by default of the largest of 1, 2, 4 and 8 that divides the original's.
        regimes: "fixed" (keep head_dim), "split" (keep the width), or "both".
        batch, tokens, precision, attention, checkpointing, optimizer: what memory is counted for; see `lf.Setting`.
        shard: "full" shards the model over `devices` (FSDP2): memory is then what one device holds.
        samples: cost a whole run over this many samples, such as "384M", on `devices` of `device`, which reach
            `utilisation` of their peak.
        force: whether to show designs that a guard refuses: heads of a size at which accuracy was measured to fall.
        limits, setting: the same as one object each, in place of the single arguments.
        out: a folder to write design.json and its figure to; by default nothing is written.
        progress: whether to show what is being done; by default where a person is watching.
    """
    check_types(
        locals(),
        model=(
            lambda value: isinstance(value, (str, Path, Architecture, nn.Module)),
            "a name, a folder, an architecture or a module",
        ),
    )
    wanted, other_heads = _checked_regimes(regimes), _other_heads(head_dims)
    multiple = None if heads_multiple is None else numbers("heads_multiple", heads_multiple)[0]
    whole_run = None if samples is None else _whole_run(samples, device, devices, utilisation)
    folder = None if out is None else writable(Path(out))
    chosen = _setting(
        setting,
        batch=batch,
        tokens=tokens,
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
        optimizer=optimizer,
        shard=shard,
        devices=devices if shard == "full" else None,
    )
    with working(f"designing {_name(model)}", progress):
        base = _architecture(model)
        original = evaluate(base, base, "fixed", formula(base, chosen), chosen)
        within = _limits(limits, original, chosen, params=params, fit=fit, macs=macs, depth=depth)
        plan = _planned(original, within, wanted, other_heads, multiple, chosen, force, whole_run)
    if folder is not None:
        publish(plan.record(), folder / RECORD, say=RunsProgress(progress).say)
    return plan


def _planned(
    original: Candidate,
    limits: Limits,
    regimes: Sequence[Regime],
    head_dims: Sequence[int],
    heads_multiple: int | None,
    setting: Setting,
    force: bool,
    run: WholeRun | None,
) -> DesignPlan:
    base = original.architecture
    closed = formula(base, setting)
    tried = candidates(base, regimes, head_dims, heads_multiple)
    found = [evaluate(base, made, regime, closed, setting) for made, regime in tried]
    if not found:
        multiples = "" if heads_multiple is None else f" with heads in multiples of {heads_multiple}"
        raise ValueError(
            f"{base.name} has no leaner design in the regime {' or '.join(regimes)}{multiples}: "
            "allow the other regime too, or other multiples, or start from more heads or layers"
        )
    within = [candidate for candidate in found if limits.allow(candidate, setting.batch)]
    if not within:
        raise ValueError(_nothing_within(found, setting))
    refused = tuple(candidate for candidate in within if candidate.refusal is not None and not force)
    allowed = [candidate for candidate in within if force or candidate.refusal is None]
    if not allowed:
        raise ArgumentError(
            "every design within these limits is refused: {why}; {force} shows them", why=refused[0].refusal
        )
    chosen = max(allowed, key=lambda candidate: preference(base, candidate))
    return DesignPlan(
        original=original,
        found=tuple(allowed),
        front=tuple(front(allowed)),
        recommended=chosen,
        setting=setting,
        peak_bytes=peak_memory(chosen.architecture, setting),
        refused=refused,
        run=run,
    )


def preference(base: Architecture, candidate: Candidate) -> tuple[float, ...]:
    """What makes a candidate the one to try first, most important first; larger is better."""
    new = candidate.architecture
    heads = fmean(s.heads for s in new.layers) / fmean(s.heads for s in base.layers)
    mlp = min(s.mlp_dim for s in new.stages) / min(s.mlp_dim for s in base.stages)
    return (
        not candidate.warned,
        len(new.stages) == len(base.stages),
        heads >= 4 / 3 - 1e-9,
        mlp >= 0.5 - 1e-9,
        candidate.regime == "fixed",
        new.depth,
        -abs(heads - (4 / 3 if len(base.stages) == 1 else 2)),
        candidate.cost.params.total,
    )


# Arguments


def _name(model: str | Path | Architecture | nn.Module) -> str:
    if isinstance(model, nn.Module):
        return type(model).__name__
    return model.name if isinstance(model, Architecture) else str(model)


def _architecture(model: str | Path | Architecture | nn.Module) -> Architecture:
    if isinstance(model, nn.Module):
        return families.describe(model)
    return model if isinstance(model, Architecture) else architecture_of(str(model))


def _other_heads(given: str | int | Sequence[int] | None) -> list[int]:
    if given is None or (isinstance(given, Sequence) and not isinstance(given, str) and not given):
        return []
    return numbers("head_dims", given)


def _setting(whole: Setting | None, **parts: Any) -> Setting:
    """How the model is trained: one object, or its parts, of which None are left as they are."""
    given = {name: value for name, value in parts.items() if value is not None}
    if whole is not None and given:
        raise ArgumentError(f"{{setting}} and {', '.join(f'{{{name}}}' for name in given)} exclude each other")
    return whole or Setting(**given)


def _limits(whole: Limits | None, original: Candidate, setting: Setting, **parts: Any) -> Limits:
    """What a design may cost: one object, its parts, or by default half of what the layers have."""
    given = {name: value for name, value in parts.items() if value is not None}
    if whole is not None and given:
        raise ArgumentError(f"{{limits}} and {', '.join(f'{{{name}}}' for name in given)} exclude each other")
    if not given:
        return whole or _half_the_layers(original)
    cost = original.cost
    depths = numbers("depth", given["depth"]) if "depth" in given else []
    return Limits(
        params=size("params", given["params"], cost.params.total) if "params" in given else None,
        memory_bytes=size("fit", given["fit"], cost.memory_bytes, "B") if "fit" in given else None,
        macs=size("macs", given["macs"], cost.forward_macs / setting.batch) if "macs" in given else None,
        depth=(min(depths), max(depths)) if depths else None,
    )


def _whole_run(samples: str | int, device: str, devices: int, utilisation: float) -> WholeRun:
    return WholeRun(samples=size("samples", samples), device=device, devices=devices, utilisation=utilisation)


def _checked_regimes(regimes: str | Sequence[str]) -> list[Regime]:
    """Regimes by their own words or by what they keep, as 0.1 named them."""
    words = list(REGIMES.values()) if regimes == "both" else [regimes] if isinstance(regimes, str) else list(regimes)
    by_word: dict[str, Regime] = {word: regime for keep, regime in REGIMES.items() for word in (keep, regime)}
    if not words or any(word not in by_word for word in words):
        raise ValueError(f'regimes must be "fixed" (keep head_dim), "split" (keep the width) or both, got {regimes!r}')
    return list(dict.fromkeys(by_word[word] for word in words))


def _half_the_layers(original: Candidate) -> Limits:
    """Half of the parameters in the layers; embedding and head stay."""
    params = original.cost.params
    return Limits(params=(params.total + params.embedding + params.head) // 2)


def _nothing_within(found: Sequence[Candidate], setting: Setting) -> str:
    least = min(found, key=lambda candidate: candidate.cost.params.total)
    size, memory = f"{least.cost.params.total / 1e6:.1f} M parameters", f"{least.cost.memory_bytes / 1e9:.1f} GB"
    macs = f"{least.cost.forward_macs / setting.batch / 1e9:.2f} G MACs per sample"
    depth = least.architecture.depth
    return (
        f"no design within these limits: the smallest considered has {size}, {memory}, {macs} and "
        f"{depth} layer{'' if depth == 1 else 's'}; raise the limit on parameters, memory or MACs, or allow more depths"
    )
