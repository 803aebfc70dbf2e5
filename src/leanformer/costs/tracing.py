"""One training step without data, weights or a GPU: MACs, activations kept for backward, and peak memory.

The step runs on the meta device, where tensors have shapes and no contents. Autograd runs as usual, so it saves what a
real step saves; the tests compare with real steps. Attention is either the fused kernel, which keeps its inputs, its
output and one number per row, or explicit products, which keep the weights. CUDA's autocast is applied by its own
lists, since PyTorch has none for meta. A trace does not see what an operator allocates and frees inside itself.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

Precision = Literal["float32", "bfloat16"]
"""`bfloat16` is mixed precision by CUDA's autocast: float32 weights, bfloat16 products."""

aten = torch.ops.aten


@dataclass
class Trace:
    """What one step costs, apart from the optimizer's update."""

    forward_macs: int = 0
    """Multiply-accumulates of a training step's forward pass: matrix products and convolutions, attention included."""
    step_macs: int = 0
    """Those of forward and backward."""
    saved_bytes: int = 0
    """Alive at the end of forward: what backward needs, and the outputs. Parameters and the inputs do not count."""
    peak_bytes: int = 0
    """Most bytes alive at once beside parameters and inputs: activations, temporary tensors and gradients."""
    saved_by_part: dict[str, int] = field(default_factory=dict)
    forward_macs_by_part: dict[str, int] = field(default_factory=dict)


def trace(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    loss: Callable[[nn.Module, dict[str, torch.Tensor]], torch.Tensor],
    *,
    precision: Precision = "float32",
    parts: Mapping[str, nn.Module] | None = None,
    backward: bool = True,
) -> Trace:
    """Run one step of a model on the meta device, or on any other, and count.

    Args:
        model: in training mode, on the same device as the inputs; its kind of attention and checkpointing are as set.
        inputs: by name of the model's arguments.
        loss: runs the model and gives the loss. In language models it holds a large part of the memory.
        precision: see its type.
        parts: modules to which saved bytes and MACs are also booked, by name.
        backward: whether to run backward, for the peak and the MACs of the whole step.
    """
    result, parts = Trace(), parts or {}
    with _kernels(model, precision), _Owner(parts) as owner, Alive(lambda: owner.current) as alive:
        found = loss(model, inputs)
        result.saved_bytes, result.saved_by_part = alive.now, alive.by_owner()
        result.forward_macs = alive.flops // 2
        result.forward_macs_by_part = {name: alive.flops_by_owner.get(name, 0) // 2 for name in parts}
        if backward:
            found.backward()
        del found
    result.peak_bytes, result.step_macs = alive.peak, alive.flops // 2
    model.zero_grad(set_to_none=True)
    return result


def id_of(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage. Views share it; on meta there is no address to compare."""
    return tensor.untyped_storage()._cdata


class Alive(TorchDispatchMode):
    """Follow every storage that an operator makes until it is freed, and count the operators' FLOPs.

    PyTorch's own counter would keep tensors alive that checkpointing frees, so its formulas are used without it.
    """

    def __init__(self, owner: Callable[[], str | None] = lambda: None) -> None:
        super().__init__()
        self.now = self.peak = self.flops = 0
        self.flops_by_owner: dict[str, int] = {}
        self._owner = owner
        self._seen: dict[int, tuple[int, str | None]] = {}

    def by_owner(self) -> dict[str, int]:
        """Bytes alive now, by the part that was running when they were made."""
        found: dict[str, int] = {}
        for size, owner in self._seen.values():
            if owner is not None:
                found[owner] = found.get(owner, 0) + size
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {id_of(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        if (count := FLOPS.get(func._overloadpacket)) is not None:
            self._book(count(*args, **(kwargs or {}), out_val=out))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and (key := id_of(leaf)) not in before and key not in self._seen:
                storage = leaf.untyped_storage()
                self._seen[key] = (storage.nbytes(), self._owner())
                self.now += storage.nbytes()
                weakref.finalize(storage, self._freed, key).atexit = False
        self.peak = max(self.peak, self.now)
        return out

    def _book(self, flops: int) -> None:
        self.flops += flops
        if (owner := self._owner()) is not None:
            self.flops_by_owner[owner] = self.flops_by_owner.get(owner, 0) + flops

    def _freed(self, key: int) -> None:
        self.now -= self._seen.pop(key)[0]


class _Owner(contextlib.AbstractContextManager["_Owner"]):
    """Which of the named parts is running: the innermost one."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        self._parts = parts
        self._running: list[str] = []
        self._handles: list[Any] = []

    @property
    def current(self) -> str | None:
        return self._running[-1] if self._running else None

    def __enter__(self) -> _Owner:
        for name, module in self._parts.items():
            self._handles.append(module.register_forward_pre_hook(lambda *_, name=name: self._running.append(name)))
            self._handles.append(module.register_forward_hook(lambda *_: self._leave()))
        return self

    def _leave(self) -> None:
        self._running.pop()

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()


# Fused attention


class _FusedOnMeta:
    """While entered, `F.scaled_dot_product_attention` on meta tensors is the fused kernel that it is elsewhere.

    Recomputation under gradient checkpointing runs outside any function mode, so the function itself is replaced. It
    may be entered several times, nested or by several threads: the first entry replaces it, the last exit restores it.
    If other code has replaced the function meanwhile, that replacement stays.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._original: Callable[..., torch.Tensor] = F.scaled_dot_product_attention
        # Each access to a bound method gives a new object: keep one, to recognise it on exit.
        self._replacement = self._attention

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._original = F.scaled_dot_product_attention
                F.scaled_dot_product_attention = self._replacement

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and F.scaled_dot_product_attention is self._replacement:
                F.scaled_dot_product_attention = self._original

    def _attention(self, query: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        fused = self._entered > 0 and query.device.type == "meta"
        return (_fused_attention if fused else self._original)(query, *args, **kwargs)


_fused_on_meta = _FusedOnMeta()


@contextlib.contextmanager
def _kernels(model: nn.Module, precision: Precision) -> Iterator[None]:
    """Fused attention on meta and, for bfloat16, casts as CUDA's autocast makes them.

    Modules that checkpointing recomputes in backward are outside the autocast mode by then, so they open it again.
    """
    autocast = CudaAutocast()
    lists = [m for m in model.modules() if isinstance(m, (nn.ModuleList, nn.Sequential)) and precision == "bfloat16"]
    wrapped: list[nn.Module] = []
    with _fused_on_meta:
        try:
            for child in (child for block in lists for child in block.children()):
                if "forward" not in vars(child):
                    child.forward = autocast.around(child.forward)
                    wrapped.append(child)
            with autocast if precision == "bfloat16" else contextlib.nullcontext():
                yield
        finally:
            for module in wrapped:
                del module.forward


def _fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,  # the kernel takes fewer heads of keys and values as they are
) -> torch.Tensor:
    mask = None if attn_mask is None else attn_mask.to(query.dtype)
    kernel = aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)[0]


def _fused_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, _as_many_heads(query, key), _as_many_heads(query, value))


def _fused_backward_flops(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_backward_flop_count(grad, query, _as_many_heads(query, key), _as_many_heads(query, value))


def _as_many_heads(query: Any, other: Any) -> tuple[int, ...]:
    return (*query[:2], *other[2:])


FLOPS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    aten._scaled_dot_product_flash_attention_for_cpu: shape_wrapper(_fused_flops),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: shape_wrapper(_fused_backward_flops),
}
"""FLOPs by operator: PyTorch's formulas, and those of the fused kernel."""


# CUDA's autocast


LOWER = {
    *(F.linear, F.conv1d, F.conv2d, F.conv3d, F.scaled_dot_product_attention, F.bilinear),
    *(torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.addbmm, torch.baddbmm, torch.mv, torch.einsum),
    *(torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.mm, torch.Tensor.bmm, torch.Tensor.__rmatmul__),
}
"""Functions that CUDA's autocast runs in bfloat16 (PyTorch's "Automatic Mixed Precision" notes)."""
UPPER = {
    *(F.softmax, F.log_softmax, F.layer_norm, F.group_norm, F.cross_entropy, F.mse_loss, F.nll_loss, F.normalize),
    *(torch.softmax, torch.log_softmax, torch.exp, torch.log, torch.pow, torch.sum, torch.cumsum, torch.norm),
    *(torch.prod, torch.rsqrt, torch.reciprocal, torch.Tensor.softmax, torch.Tensor.log_softmax, torch.Tensor.exp),
    *(torch.Tensor.log,),
    *(torch.Tensor.pow, torch.Tensor.sum, torch.Tensor.norm, torch.Tensor.rsqrt, torch.Tensor.reciprocal),
}
"""Functions that it runs in float32."""


class CudaAutocast(TorchFunctionMode):
    """Cast as CUDA's autocast to bfloat16 does, keeping each parameter's cast for the whole forward pass as it does."""

    def __init__(self) -> None:
        super().__init__()
        self._casts: dict[int, torch.Tensor] = {}

    @staticmethod
    def around(forward: Callable[..., Any]) -> Callable[..., Any]:
        """A forward that runs in this mode also in backward, where checkpointing calls it outside the mode."""

        def inside(*args: Any, **kwargs: Any) -> Any:
            active = any(isinstance(mode, CudaAutocast) for mode in _get_current_function_mode_stack())
            with contextlib.nullcontext() if active else CudaAutocast():
                return forward(*args, **kwargs)

        return inside

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in LOWER:
            args, kwargs = tree_map(self._lower, (args, kwargs))
        elif func in UPPER:
            args, kwargs = tree_map(self._upper, (args, kwargs))
        return func(*args, **kwargs)

    def _lower(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        if not (value.is_leaf and value.requires_grad):
            return value.to(torch.bfloat16)
        if id(value) not in self._casts:
            self._casts[id(value)] = value.to(torch.bfloat16)
        return self._casts[id(value)]

    @staticmethod
    def _upper(value: Any) -> Any:
        low = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
        return value.float() if low else value
