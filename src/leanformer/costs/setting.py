"""How a model is trained, as far as its costs depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from leanformer.costs.tracing import Precision
from leanformer.models.base import Attention

Optimizer = Literal["adamw", "sgd", "none"]
Shard = Literal["none", "full"]
"""Whether every device holds all parameters, gradients and optimizer state, or a part of them (FSDP2)."""
STATE_BYTES: dict[Optimizer, int] = {"adamw": 8, "sgd": 4, "none": 0}
"""Bytes of optimizer state per parameter, in float32; `sgd` has momentum."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the model is trained, as far as memory depends on it."""

    __pydantic_config__ = {"extra": "forbid"}

    batch: int = 64
    """Samples per device."""
    tokens: int | None = None
    """Tokens per text: 128 by default, or fewer if the model takes fewer. The architecture fixes the size of images."""
    precision: Precision = "float32"
    attention: Attention = "fused"
    checkpointing: bool = False
    """Whether activations are recomputed in the backward pass (gradient checkpointing)."""
    optimizer: Optimizer = "adamw"
    shard: Shard = "none"
    """full divides parameters, gradients and optimizer state among `devices`, as `training.shard` does."""
    devices: int = 1
    """Devices that one model is divided among; it matters with shard="full" only."""

    def __post_init__(self) -> None:
        for name in ("batch", "devices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        chosen = (("precision", Precision), ("attention", Attention), ("optimizer", Optimizer), ("shard", Shard))
        for name, words in chosen:
            if (value := getattr(self, name)) not in get_args(words):
                raise ValueError(f"{name} must be one of {', '.join(get_args(words))}, got {value!r}")

    @property
    def parts(self) -> int:
        """In how many parts the parameters are divided."""
        return self.devices if self.shard == "full" else 1

    def state_bytes(self, params: int) -> int:
        """Bytes of float32 parameters and of the optimizer's state."""
        return params * (4 + STATE_BYTES[self.optimizer])
