"""Fit saved weights to other images: sizes, patches and channels, by timm's own rules for its pretrained models.

timm takes the grid of saved positions for a square one, and resamples only if the number of positions differs. What
would be resampled wrongly is refused here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

from timm.models import adapt_input_conv
from torch import Tensor, nn


def adapted(model: nn.Module, before: nn.Module, tensors: Mapping[str, Tensor], patches: str) -> dict[str, Tensor]:
    """Tensors of a saved model, those of other shapes than the model's made to fit where timm has a rule for it.

    Args:
        model: the model that the tensors are for.
        before: the model that was saved; the meta device is enough.
        tensors: its tensors.
        patches: the module on whose grid the positions lie, where timm resamples them.
    """
    if patches:
        _check_grids(_grid(before, patches), _grid(model, patches))
    wanted = model.state_dict()
    found = {**tensors, **_resampled(model, tensors)}
    found |= _other_channels(model, found)
    return {
        name: found[name] if name in wanted and found[name].shape == wanted[name].shape else tensor
        for name, tensor in tensors.items()
    }


def _grid(model: nn.Module, patches: str) -> tuple[int, int]:
    return cast(Any, model.get_submodule(patches)).grid_size


def _check_grids(saved: tuple[int, int], wanted: tuple[int, int]) -> None:
    if saved == wanted:
        return
    words, other = (" × ".join(map(str, grid)) for grid in (saved, wanted))
    if saved[0] != saved[1]:
        raise ValueError(f"the saved positions lie on a grid of {words}, and timm resamples square ones only")
    if saved[0] * saved[1] == wanted[0] * wanted[1]:
        raise ValueError(f"the saved positions lie on a grid of {words}, and timm does not resample them to {other}")


def _resampled(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    rule = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    return dict(rule(dict(tensors), model)) if rule else {}


def _other_channels(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The first convolution, for images of another number of channels."""
    stated = cast(Any, model).pretrained_cfg.get("first_conv") or ()
    names = [f"{name}.weight" for name in ([stated] if isinstance(stated, str) else stated)]
    channels = cast(Any, model).in_chans
    found = {name: tensors[name] for name in names if name in tensors and tensors[name].ndim == 4}
    return {
        name: adapt_input_conv(channels, weight)
        for name, weight in found.items()
        if weight.shape[1] == 3 != channels  # timm's rules begin with images in colour
    }
