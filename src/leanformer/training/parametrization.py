"""CompleteP: a parametrization under which one learning rate serves models of all depths.

Dey and others (2505.01618) multiply every residual branch by L₀/L, where L is the model's depth and L₀ the depth at
which the learning rate was chosen, and AdamW's ε by the same factor in the layers. The best learning rate then no
longer depends on the depth.

Here the factor c = L₀/L is not put into the model. For AdamW, a branch c·(Wx) with W is the same as W′x with W′ = c·W,
if W′ starts c times as large, its learning rate is c times as large and its weight decay is 1/c of W's. So a trained
model is a plain model of its family. (Clipping sees the gradient of W′, which is 1/c of W's.)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leanformer.models.families import FAMILIES, describe, family
from leanformer.training.settings import Training


def branch_outputs(model: nn.Module) -> list[nn.Linear]:
    """The layers whose output is added to the residual stream: of each attention, and of each MLP."""
    owner = family(describe(model).family)
    if not owner.residual_branches:
        able = ", ".join(name for name in FAMILIES.names() if family(name).residual_branches)
        raise ValueError(
            f"parametrization=completep is for {able}, whose branches are added unchanged; not {owner.key}"
        )
    found: list[nn.Linear] = []
    for part in owner.parts(model):
        last = [
            module for piece in owner.mlp_modules(part) for module in piece.modules() if isinstance(module, nn.Linear)
        ]
        for layer in (model.get_submodule(owner.projection(part)), last[-1]):
            assert isinstance(layer, nn.Linear)
            found.append(layer)
    return found


def factor(model: nn.Module, settings: Training) -> float:
    """What residual branches are multiplied by; 1 for the standard parametrization."""
    if settings.parametrization == "standard":
        return 1.0
    depth = describe(model).depth
    return (settings.base_depth or depth) / depth


@torch.no_grad()
def scale_branches(model: nn.Module, settings: Training) -> None:
    """Multiply the initial weights of the branches' last layers. It is done once, before the first step."""
    if settings.parametrization == "standard":
        return
    c = factor(model, settings)
    for layer in branch_outputs(model):
        for parameter in layer.parameters():
            parameter.mul_(c)


def scaled_groups(model: nn.Module, groups: list[dict[str, Any]], settings: Training) -> list[dict[str, Any]]:
    """AdamW's groups, each divided into last layers of branches, other parameters of layers, and the rest."""
    if settings.parametrization == "standard":
        return groups
    c = factor(model, settings)
    outputs = {id(parameter) for layer in branch_outputs(model) for parameter in layer.parameters()}
    layers = _layers(model)
    divided = []
    for group in groups:
        kinds: dict[str, list[nn.Parameter]] = {"outputs": [], "layers": [], "rest": []}
        for parameter in group["params"]:
            kind = "outputs" if id(parameter) in outputs else "layers" if id(parameter) in layers else "rest"
            kinds[kind].append(parameter)
        decay = group["weight_decay"]
        divided += [
            {"params": kinds["outputs"], "weight_decay": decay / c, "lr_scale": c, "eps": settings.eps},
            {"params": kinds["layers"], "weight_decay": decay, "lr_scale": 1.0, "eps": settings.eps * c},
            {"params": kinds["rest"], "weight_decay": decay, "lr_scale": 1.0, "eps": settings.eps},
        ]
    return [group for group in divided if group["params"]]


def _layers(model: nn.Module) -> set[int]:
    """All parameters of the modules that hold an attention and its MLP."""
    layers = family(describe(model).family).layer_paths(model)
    return {id(parameter) for layer in layers for parameter in model.get_submodule(layer).parameters()}
