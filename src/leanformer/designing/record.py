"""The record of a design, and the plan in plain words, composed from the record's facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import computed_field

from leanformer.architecture import Regime
from leanformer.costs.held import Held
from leanformer.costs.runs import RunCost, WholeRun
from leanformer.costs.setting import Setting
from leanformer.designing.guards import Guard
from leanformer.foundation.formats import billions, counted, gigabytes, joined, millions, percent
from leanformer.foundation.records.base import Json, Migration, PlainArchitecture, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord


class CandidateRecord(RecordPart):
    """One design in numbers."""

    architecture: PlainArchitecture
    regime: Regime
    params: int
    forward_macs: int
    """Multiply-accumulates of a forward pass of the whole batch."""
    memory_bytes: int
    """The peak on one device."""
    held: Held | None = None
    """What one device holds, part by part; None in older records."""
    gaussian_kappa: float
    guards: tuple[Guard, ...]
    run: RunCost | None = None
    """What a whole run of it costs, if that was asked for."""

    @property
    def warned(self) -> bool:
        return any(guard.level != "note" for guard in self.guards)


def _from_version_1(found: Json) -> Json:
    """Version 1 kept no facts about the run and the refused designs: their sentences are kept as they are."""
    unexplained = [line for line in found.get("words", ()) if line.startswith("A run of") or "are left out" in line]
    return {**found, "kept_words": unexplained}


class DesignRecord(DatedRecord):
    """What `leanformer design` writes."""

    kind: ClassVar[str] = "design"
    version: ClassVar[int] = 2
    migrations: ClassVar[Mapping[int, Migration]] = {1: _from_version_1}

    setting: Setting
    original: CandidateRecord
    recommended: CandidateRecord
    recommended_peak_bytes: int
    """Traced peak memory of the recommended design; where it is divided among devices, the estimate for one of them."""
    front: tuple[CandidateRecord, ...]
    """The designs that no other dominates."""
    considered: int
    """Designs within the limits."""
    refused: int = 0
    """Designs within the limits that a guard keeps out."""
    first_refusal: Guard | None = None
    """Why the first of them is kept out."""
    run: WholeRun | None = None
    """The whole run that `original.run` and `recommended.run` are for."""
    origin: str = ""
    """What the original's name means, where that is not the name of one published model."""
    devices: int | None = None
    """The most devices, up to 8, among which the recommended design's heads divide evenly; None in older records."""
    kept_words: tuple[str, ...] = ()
    """Sentences of an older record whose facts it does not hold."""
    points: tuple[tuple[int, int, bool], ...]
    """Parameters, memory, and whether there is a warning, for every design within the limits."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def words(self) -> list[str]:
        """The plan in plain words."""
        lines = [
            *([self.origin] if self.origin else []),
            _sizes(self),
            _costs(self),
            *_held(self),
            *_parallel(self),
            _prediction(self),
        ]
        lines += [f"{guard.level}: {guard}" for guard in self.recommended.guards]
        if self.first_refusal is not None:
            lines.append(
                f"{counted(self.refused, 'design')} left out because a guard refuses (force shows all designs). "
                f"The first: {self.first_refusal}"
            )
        return [*lines, *_runs(self), *self.kept_words]

    def glance(self) -> str:
        was, now = self.original, self.recommended
        counts = f"{self.considered} within the limits, {len(self.front)} on the front, {self.refused} refused"
        return (
            f"original: {was.architecture}, {was.params:,} parameters; "
            f"recommended: {now.architecture}, {now.params:,} parameters; {counts}"
        )


def _sizes(record: DesignRecord) -> str:
    was, now = record.original, record.recommended
    old, new = was.architecture, now.architecture
    fewer = 1 - now.params / was.params

    def change(word: str) -> str:
        before, after = (joined([getattr(stage, word) for stage in a.stages], "/") for a in (old, new))
        return after if before == after else f"{after} (was {before})"

    return (
        f"Train {counted(new.depth, 'layer')} (was {old.depth}) with {change('heads')} heads of {change('head_dim')} "
        f"and MLPs of {change('mlp_dim')}: {millions(now.params)} parameters, "
        f"{percent(abs(fewer))} {'fewer' if fewer >= 0 else 'more'}."
    )


def _costs(record: DesignRecord) -> str:
    was, now, batch = record.original, record.recommended, record.setting.batch
    memory = f"{gigabytes(was.memory_bytes)} to {gigabytes(now.memory_bytes)} GB"
    macs = f"{billions(was.forward_macs / batch)} to {billions(now.forward_macs / batch)} G"
    where, traced = "", f" (traced peak {gigabytes(record.recommended_peak_bytes)} GB)"
    if record.setting.parts > 1:
        where, traced = f" on each of {record.setting.devices} devices", ""
    return (
        f"Memory for a batch of {batch}{where} goes from {memory}{traced}. "
        f"Multiply-accumulates (MACs) per sample go from {macs}."
    )


def _held(record: DesignRecord) -> list[str]:
    """What one of the devices holds, if the model is divided among several."""
    held, devices = record.recommended.held, record.setting.parts
    if devices == 1 or held is None:
        return []
    state = f"parameters {gigabytes(held.parameters)}, gradients {gigabytes(held.gradients)}"
    return [
        f"Of the recommended design, each device holds 1/{devices}: {state} and optimizer state "
        f"{gigabytes(held.optimizer)} GB. It also holds the activations of its own batch, "
        f"{gigabytes(held.activations)} GB, and while they are used whole layers and embeddings, "
        f"{gigabytes(held.gathered)} GB."
    ]


def _parallel(record: DesignRecord) -> list[str]:
    if record.devices is None or record.devices == 1:
        return []
    *fewer, most = [str(number) for number in (2, 4, 8) if number <= record.devices]
    among = f"{', '.join(fewer)} or {most}" if fewer else most
    return [f"Its heads divide evenly among {among} devices, as tensor parallelism needs it."]


def _prediction(record: DesignRecord) -> str:
    was, now = record.original.gaussian_kappa, record.recommended.gaussian_kappa
    return (
        f"A Gaussian attention block would have κ = {now:.2f} (was {was:.2f}). Real attention is far above both: "
        "take this as a direction only, and train the shallow control beside the design."
    )


def _runs(record: DesignRecord) -> list[str]:
    run = record.run
    if run is None:
        return []
    where = f"{_short(run.samples)} samples on {run.devices} × {run.device} at {percent(run.utilisation)} of peak"
    return [
        f"A run of {where}, {name}: {cost.flops:.2g} FLOPs, {cost.device_hours:,.0f} device-hours "
        f"({cost.wall_hours:,.1f} h), {cost.energy_kwh:,.0f} kWh."
        for name, cost in (("original", record.original.run), ("recommended", record.recommended.run))
        if cost is not None
    ]


def _short(count: int) -> str:
    """A round count as people write it: 384 M."""
    for factor, unit in ((10**9, "G"), (10**6, "M")):
        if count >= factor and count % (factor // 10) == 0:
            return f"{count / factor:.10g} {unit}"
    return f"{count:,}"
