"""How the layers of a model are run: computed again in the backward pass, and compiled."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from typing import Any

import torch
from torch import nn

from leanformer.models import families
from leanformer.training.settings import Training


def set_layers(model: nn.Module, settings: Training) -> None:
    """Set up a model's layers as the settings say, in place; the names of its tensors stay."""
    if settings.checkpointing:
        _recompute(model)
    if settings.compile:
        _compile(model)


def _recompute(model: nn.Module) -> None:
    """Gradient checkpointing as the family has it, which is what `leanformer.costs` counts."""
    owner = families.of(model)
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        raise ValueError(
            f"checkpointing would run the batch norms of {families.describe(model).name} twice per step, which changes "
            "their statistics: set checkpointing=false"
        )
    config = getattr(model, "config", None)
    cached = getattr(config, "use_cache", None)
    owner.configure(model, "fused", checkpointing=True)
    if cached is None:
        return
    config.use_cache = cached  # type: ignore[union-attr]  # it is saved with the model, which generates with a cache
    if "use_cache" in inspect.signature(model.forward).parameters:
        model.register_forward_pre_hook(_without_cache, with_kwargs=True)


def _without_cache(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return (args, {"use_cache": False, **kwargs}) if model.training else None


def _compile(model: nn.Module) -> None:
    """Compile layer by layer: equal layers share their code, probes see inside, and layers may be divided."""
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as torch.compile chooses it
    if on_cpu and not shutil.which(compiler):
        raise ValueError(
            f"compile=true needs a C++ compiler on the CPU, and {compiler} is not on the PATH: install it, name "
            "another in the environment variable CXX, or set compile=false"
        )
    if torch.cuda.is_available() and not on_cpu and not _has_triton():
        raise ValueError("compile=true needs the package triton on a GPU: pip install triton, or set compile=false")
    for path in families.of(model).layer_paths(model):
        (model.get_submodule(path) if path else model).compile()


def _has_triton() -> bool:
    from torch.utils._triton import has_triton

    return bool(has_triton())
