"""What a whole training run costs on a given device: FLOPs, hours and energy."""

from __future__ import annotations

from dataclasses import dataclass

from leanformer.costs.closed_forms import Cost
from leanformer.costs.setting import Setting


@dataclass(frozen=True)
class Device:
    """A device's dense peak and board power, from its maker's data sheet."""

    tflops_bf16: float
    tflops_fp32: float
    """With TF32 tensor cores where it has them."""
    watts: float
    memory_gb: int


DEVICES = {
    "a100": Device(312, 156, 400, 80),
    "h100": Device(989, 495, 700, 80),
    "v100": Device(125, 15.7, 300, 32),
    "a6000": Device(155, 77, 300, 48),
    "rtx4090": Device(165, 83, 450, 24),
    "l4": Device(121, 60, 72, 24),
    "t4": Device(65, 8.1, 70, 16),
}


@dataclass(frozen=True, kw_only=True)
class WholeRun:
    """How long a run is, and what it runs on."""

    __pydantic_config__ = {"extra": "forbid"}

    samples: int
    """Over all epochs."""
    device: str = "a100"
    devices: int = 1
    utilisation: float = 0.35
    """Share of the devices' peak that training reaches."""

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device!r}")
        for name in ("samples", "devices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.utilisation <= 1:
            raise ValueError(f"utilisation must be above 0 and at most 1, got {self.utilisation}")


@dataclass(frozen=True)
class RunCost:
    """What a whole run takes."""

    __pydantic_config__ = {"extra": "forbid"}

    flops: float
    device_hours: float
    wall_hours: float
    energy_kwh: float


def run_cost(cost: Cost, setting: Setting, run: WholeRun) -> RunCost:
    """A whole training run. Backward counts as two forwards (three with checkpointing); boards draw full power."""
    board = DEVICES[run.device]
    passes = 4 if setting.checkpointing else 3
    flops = 2 * passes * cost.forward_macs / setting.batch * run.samples
    peak = 1e12 * (board.tflops_bf16 if setting.precision == "bfloat16" else board.tflops_fp32)
    hours = flops / (peak * run.utilisation) / 3600
    return RunCost(
        flops=flops, device_hours=hours, wall_hours=hours / run.devices, energy_kwh=hours * board.watts / 1000
    )
