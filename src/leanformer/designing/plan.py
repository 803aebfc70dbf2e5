"""Leaner designs for a model within limits, and which of them to try first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from leanformer.architecture import REGIMES, Architecture, Keep, Regime
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost
from leanformer.costs.steps import peak_memory
from leanformer.designing.candidates import Candidate, candidates, evaluate, front
from leanformer.designing.record import CandidateRecord, DesignRecord
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.models.names import architecture_of


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
class DesignPlan:
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

    def __repr__(self) -> str:
        was, now = self.original, self.recommended
        return (
            f"DesignPlan(original: {was.architecture}, {was.cost.params.total:,} parameters; "
            f"recommended: {now.architecture}, {now.cost.params.total:,} parameters; "
            f"{len(self.found)} found, {len(self.front)} on the front, {len(self.refused)} refused)"
        )

    def record(self, run: WholeRun | None = None) -> DesignRecord:
        """The plan as a record, with sentences; `run` adds what a whole run of both designs costs."""
        return DesignRecord(
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

    def words(self) -> list[str]:
        """The plan in plain words."""
        return self.record().words

    def _recorded(self, candidate: Candidate, run: WholeRun | None = None) -> CandidateRecord:
        return CandidateRecord(
            architecture=candidate.architecture,
            regime=candidate.regime,
            params=candidate.cost.params.total,
            forward_macs=candidate.cost.forward_macs,
            memory_bytes=candidate.cost.memory_bytes,
            gaussian_kappa=candidate.gaussian,
            guards=candidate.guards,
            run=None if run is None else run_cost(candidate.cost, self.setting, run),
        )


def design(
    name: str | Architecture,
    *,
    limits: Limits | None = None,
    regimes: Regime | Sequence[Regime | Keep] = ("fixed", "split"),
    head_dims: Sequence[int] = (),
    setting: Setting | None = None,
    force: bool = False,
) -> DesignPlan:
    """Leaner candidates for a model within limits, the front of those that none dominates, and a recommendation.

    The recommendation is the deepest design without a warning that has at least a third more heads and at least half
    the MLP, in the regime `fixed` if possible; among equals the largest.

    Args:
        name: a model as for `lf.create`, or an architecture.
        limits: what a design may cost; by default half the parameters that the original has in its layers.
        regimes: "fixed" (keep head_dim), "split" (keep the width), or both.
        head_dims: other sizes of head to try in the regime "fixed".
        setting: batch, precision, kind of attention, checkpointing and optimizer that memory is counted for.
        force: whether to show designs that a guard refuses: heads of a size at which accuracy was measured to fall.
    """
    wanted = _checked_regimes(regimes)
    base = name if isinstance(name, Architecture) else architecture_of(name)
    setting = setting or Setting()
    closed = formula(base, setting)
    original = evaluate(base, base, "fixed", closed, setting)
    found = [evaluate(base, made, regime, closed, setting) for made, regime in candidates(base, wanted, head_dims)]
    if not found:
        raise ValueError(
            f"{base.name} has no leaner design in the regime {' or '.join(wanted)}: "
            "allow the other regime too, or start from more heads or layers"
        )
    limits = limits or _half_the_layers(original)
    within = [candidate for candidate in found if limits.allow(candidate, setting.batch)]
    if not within:
        raise ValueError(_nothing_within(found, setting))
    refused = tuple(candidate for candidate in within if candidate.refusal is not None and not force)
    allowed = [candidate for candidate in within if force or candidate.refusal is None]
    if not allowed:
        raise ValueError(f"every design within these limits is refused: {refused[0].refusal}; force=True shows them")
    chosen = max(allowed, key=lambda candidate: preference(base, candidate))
    return DesignPlan(
        original=original,
        found=tuple(allowed),
        front=tuple(front(allowed)),
        recommended=chosen,
        setting=setting,
        peak_bytes=peak_memory(chosen.architecture, setting),
        refused=refused,
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


def _checked_regimes(regimes: str | Sequence[str]) -> list[Regime]:
    """Regimes by their own words or by what they keep, as 0.1 named them."""
    words = [regimes] if isinstance(regimes, str) else list(regimes)
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
