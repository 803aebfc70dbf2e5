"""The optimizer of a run: AdamW, and which parameters it decays."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from leanformer.training.parametrization import scaled_groups
from leanformer.training.settings import Decay, Training


def build_optimizer(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    groups = scaled_groups(model, decay_groups(model, settings.weight_decay, settings.decay), settings)
    return torch.optim.AdamW(groups, settings.lr, betas=settings.betas, eps=settings.eps, fused=True)


def decay_groups(model: nn.Module, weight_decay: float, decay: Decay = "matrices") -> list[dict[str, Any]]:
    """Parameters with and without weight decay: unless all are to decay, vectors and what the model names have none."""
    exempt = set(cast(Any, model).no_weight_decay()) if hasattr(model, "no_weight_decay") else set()
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            spared = decay != "all" and (parameter.ndim <= 1 or name in exempt)
            (others if spared else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
