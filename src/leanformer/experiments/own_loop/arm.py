"""An arm of one's own: a name, and how its model is made. A run's process needs no more of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from leanformer.architecture import Architecture
from leanformer.experiments.arms import checked_name
from leanformer.training.randomness import seed_everything

Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class OwnArm:
    """An arm, and how its model is made."""

    name: str
    make: Callable[[], nn.Module] | None = None
    """None where only a command knows the model."""
    architecture: Architecture | None = None
    sizes: Sizes = field(default_factory=dict)
    """What the user's function or command was given."""

    def __post_init__(self) -> None:
        checked_name(self.name)

    def build(self, seed: int) -> nn.Module:
        """A fresh model on the CPU. The random generators start from the seed, in every arm alike."""
        assert self.make is not None
        seed_everything(seed)
        with torch.device("cpu"):
            model = self.make()
        if not isinstance(model, nn.Module):
            raise ValueError(f"{self.name}: the function must return an nn.Module, got {type(model).__name__}")
        return model
