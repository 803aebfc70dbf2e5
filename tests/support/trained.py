"""Models whose weights are not those of a fresh one: biases, norms and tables differ from zero and one."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from leanformer.architecture import Architecture
from leanformer.models import families


@torch.no_grad()
def shaken(architecture: Architecture, seed: int = 0) -> nn.Module:
    """A model with noise on every parameter, in evaluation mode."""
    torch.manual_seed(seed)
    model = families.build(architecture)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@torch.no_grad()
def answer(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """What a model gives: its logits, or its first output."""
    output = model.eval()(**inputs)
    output = getattr(output, "logits", output)
    return next(leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point())
