"""The device that models are built on. On the meta device nothing is initialised: there is nothing to fill."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

INITIALISERS = frozenset(
    getattr(Tensor, name)
    for name in ("add_", "clamp_", "copy_", "div_", "erfinv_", "fill_", "mul_", "normal_", "sub_", "uniform_", "zero_")
)
"""Methods with which constructors fill tensors in place. They change nothing on meta, and some are slow there."""


class _Unfilled(TorchFunctionMode):
    """While entered, `INITIALISERS` and the functions of torch.nn.init give meta tensors back as they are."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in INITIALISERS or getattr(func, "__module__", "") == "torch.nn.init":
            tensor = args[0] if args else kwargs.get("tensor")
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


@contextlib.contextmanager
def built_on(device: torch.device | str | None) -> Iterator[None]:
    """While entered, new tensors are on this device; None leaves the device that is set."""
    device = torch.get_default_device() if device is None else torch.device(device)
    with device, _Unfilled() if device.type == "meta" else contextlib.nullcontext():
        yield
