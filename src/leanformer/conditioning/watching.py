"""Where the probe looks for attention, and the hooks by which it does.

In this order: the blocks of leanformer's families; attention modules by what they are made of (`nn.MultiheadAttention`,
timm's, Hugging Face's); and for everything else the functions that compute attention (`attention_calls.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from leanformer.conditioning.attention_calls import AttentionCalls
from leanformer.conditioning.attention_calls import Call as AttentionCall
from leanformer.conditioning.layouts import Block
from leanformer.models import families
from leanformer.models.base import Kind

Rule = str | Sequence[str] | Callable[[str, nn.Module], bool]
"""Which modules are output projections: name patterns such as "*.attention.out", or a function of name and module."""


@dataclass(frozen=True)
class Target:
    """One attention block: what it is called, what attends to what, and its heads."""

    name: str
    kind: Kind
    heads: int | None = None
    head_dim: int | None = None


See = Callable[[Target, Tensor], None]
PROJECTION_NAMES = ("o", "o_proj", "out_proj", "out_lin", "dense")
"""Names of the output projection inside Hugging Face's older attention modules."""


class NothingSeenError(ValueError):
    """No attention block was seen."""


@dataclass
class Watch:
    """What is watched in a model."""

    model: nn.Module
    projections: Rule | None
    blocks: int = 0
    """Blocks that are known before the model runs."""
    calls: AttentionCalls | None = None
    """Where anything else is looked for."""

    def nothing_seen(self) -> NothingSeenError:
        """Why nothing was seen, and what to do."""
        kind = type(self.model).__name__
        if self.projections is not None and not self.blocks:
            return NothingSeenError(
                f"no attention was seen: no module of {kind} matches projections={self.projections!r}"
            )
        if self.calls is None or not self.calls.ran:
            waiting = f" ({self.blocks} blocks were waiting)" if self.blocks else ""
            return NothingSeenError(
                f"no attention over several tokens ran inside the probe: call {kind} inside the `with`{waiting}"
            )
        return NothingSeenError(
            f"no attention was seen in {kind}: it has no attention module that leanformer knows, and computes neither "
            "scaled_dot_product_attention nor softmax(q kᵀ) v over several tokens; name its output projections: "
            'projections="*.attention.out"'
        )


def watch(stack: contextlib.ExitStack, model: nn.Module, projections: Rule | None, see: See) -> Watch:
    """Register the hooks, which `stack` removes."""
    watched = Watch(model, projections)
    if projections is not None:
        for name, module in model.named_modules():
            if _chosen(projections, name, module):
                _watch_input(stack, module, Target(name, "self"), see, _check_block)
                watched.blocks += 1
        return watched
    names = {module: name for name, module in model.named_modules()}
    known: set[nn.Module] = set()
    for module, name in names.items():  # models of known families, also inside a larger one
        if module not in known and (blocks := _family_blocks(module)):
            known.update(_without_cross_attention(module))
            watched.blocks += len(blocks)
            for block in blocks:
                target = Target(f"{name}.{block.path}" if name else block.path, block.kind, block.heads, block.head_dim)
                _watch_input(stack, module.get_submodule(block.projection), target, see)
    if known != names.keys():
        _watch_anything(stack, watched, names, known, see)
    return watched


def _family_blocks(module: nn.Module) -> list[families.AttentionBlock]:
    try:
        return families.attention_blocks(module) if next(module.children(), None) is not None else []
    except ValueError:
        return []


def _without_cross_attention(model: nn.Module) -> set[nn.Module]:
    """A family describes self-attention; upstream's models may have cross-attention beside it."""
    cross = {module for module in model.modules() if getattr(module, "is_cross_attention", False)}
    return set(model.modules()) - {inside for module in cross for inside in module.modules()}


def _watch_anything(
    stack: contextlib.ExitStack, watched: Watch, names: Mapping[nn.Module, str], known: Set[nn.Module], see: See
) -> None:
    """Modules of no known family: recognise attention by what it is made of, or by what it calls."""
    covered = set(known)

    def see_call(name: str, call: AttentionCall, block: Block) -> None:
        kind: Kind = "channel" if block.channels else "cross" if call.cross else _kind(call.module)
        see(Target(name, kind, block.heads, block.head_dim), block.matrices)

    titles = {module: name or type(module).__name__ for module, name in names.items()}
    calls = AttentionCalls(titles, covered, see_call)

    def see_module(module: nn.Module) -> See:
        """Label what a module's hook shows."""
        return lambda target, block: see(replace(target, kind="cross") if calls.cross(module) else target, block)

    for module, name in names.items():
        if module not in known and _watch_module(stack, module, name, see_module(module), calls):
            covered.update(module.modules())
            watched.blocks += 1
    if any(isinstance(getattr(module, "config", None), families.hugging_face_config()) for module in names):

        def see_heads(module: nn.Module, heads: Float[Tensor, "batch tokens heads head_dim"]) -> None:
            if module in names and module not in covered:
                target = Target(names[module], _kind(module), heads.shape[-2], heads.shape[-1])
                see_module(module)(target, heads.flatten(-2))

        stack.enter_context(families.attention_interface(see_heads))
    watched.calls = stack.enter_context(calls)


def _watch_module(stack: contextlib.ExitStack, module: nn.Module, name: str, see: See, calls: AttentionCalls) -> bool:
    """Watch a module that is attention by what it is made of; says whether it is."""
    made_of = cast(Any, module)
    if isinstance(module, nn.MultiheadAttention):
        _watch_multihead(stack, module, Target(name, "self", module.num_heads, module.head_dim), see, calls)
    elif isinstance(getattr(module, "proj", None), nn.Linear) and isinstance(getattr(module, "num_heads", None), int):
        head_dim = made_of.proj.in_features // made_of.num_heads
        _watch_input(stack, made_of.proj, Target(name, _kind(module), made_of.num_heads, head_dim), see)
    elif isinstance(getattr(module, "all_head_size", None), int) and not hasattr(module, "matmul_qkv"):
        # Hugging Face before its attention interface; SqueezeBERT, which has its channels first, is seen by its calls
        target = Target(name, "self", made_of.num_attention_heads, made_of.attention_head_size)
        inside = next((child for key, child in module.named_children() if key in PROJECTION_NAMES), None)
        if inside is not None:
            _watch_input(stack, inside, target, see)
        else:
            _watch_output(stack, module, target, see)
    elif hasattr(module, "one_sided_attn_window_size"):  # Longformer, whose attention is a band
        _watch_output(stack, module, Target(name, "self", made_of.num_heads, made_of.head_dim), see)
    else:
        return False
    return True


def _kind(module: nn.Module) -> Kind:
    """What attends to what, by the name of the class."""
    name = type(module).__name__.lower()
    if ("cross" in name and "covariance" not in name) or getattr(module, "is_cross_attention", False):
        return "cross"
    return "class" if "class" in name else "window" if "window" in name else "channel" if "channel" in name else "self"


def check_rule(rule: Rule | None) -> None:
    """Raise a `ValueError` if a rule for output projections names nothing."""
    if rule is None or callable(rule):
        return
    patterns = [rule] if isinstance(rule, str) else list(rule)
    if not patterns or not all(isinstance(pattern, str) and pattern.strip() for pattern in patterns):
        raise ValueError(
            f'projections={rule!r} names no module: give patterns of module names, such as "*.attention.out"'
        )


def _chosen(rule: Rule, name: str, module: nn.Module) -> bool:
    """Patterns never choose the whole model, whose name is empty: its input is not a block."""
    if callable(rule):
        return rule(name, module)
    return bool(name) and any(fnmatch(name, pattern) for pattern in ([rule] if isinstance(rule, str) else rule))


def _check_block(module: nn.Module, name: str, block: Any) -> None:
    """Raise a `ValueError` that names the module if its input cannot be a block of concatenated heads."""
    if isinstance(block, Tensor) and isinstance(module, nn.modules.conv._ConvNd) and block.ndim == 4:
        found = f"images of shape {tuple(block.shape)} with the channels first"
    elif not isinstance(block, Tensor):
        found = f"a {type(block).__name__}"
    elif not block.is_floating_point() or block.ndim not in (2, 3, 4):
        found = f"{block.dtype} of shape {tuple(block.shape)}"
    else:
        return
    raise ValueError(
        f"{name or type(module).__name__} is not an output projection: its input must be floating-point heads "
        f"(batch, tokens, columns), got {found}; choose other projections"
    )


# Hooks


def _watch_input(
    stack: contextlib.ExitStack,
    module: nn.Module,
    target: Target,
    see: See,
    check: Callable[[nn.Module, str, Any], None] | None = None,
) -> None:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        block = next(iter((*args, *kwargs.values())), None)
        if check is not None:
            check(module, target.name, block)
        see(target, cast(Tensor, block))

    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)


def _watch_output(stack: contextlib.ExitStack, module: nn.Module, target: Target, see: See) -> None:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        see(target, output[0] if isinstance(output, tuple) else output)

    stack.callback(module.register_forward_hook(hook).remove)


def _watch_multihead(
    stack: contextlib.ExitStack, module: nn.MultiheadAttention, target: Target, see: See, calls: AttentionCalls
) -> None:
    """`nn.MultiheadAttention` never calls its output projection as a module: it passes the weights to a function.

    So the projection is replaced by the identity while it runs, which is exact. Its output is then the block, and the
    projection is applied to it afterwards.
    """
    projection = module.out_proj
    weight, bias = projection.weight, projection.bias

    def restore() -> None:
        projection._parameters.update(cast(Any, {"weight": weight, "bias": bias}))

    kinds: list[Kind] = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        query, key = (*args, *(kwargs[word] for word in ("query", "key", "value") if word in kwargs))[:2]
        kinds.append("cross" if calls.differ(query, key) else "self")
        identity = torch.eye(weight.shape[0], device=weight.device, dtype=weight.dtype)
        projection._parameters.update(cast(Any, {"weight": identity, "bias": None}))

    def after(_: nn.Module, __: Any, output: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
        restore()
        heads, weights = output
        see(
            replace(target, kind=kinds.pop()), heads if module.batch_first or heads.ndim == 2 else heads.transpose(0, 1)
        )
        return F.linear(heads, weight, bias), weights

    stack.callback(restore)
    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
    stack.callback(module.register_forward_hook(after).remove)
    stack.callback(module.register_forward_hook(lambda *_: restore(), always_call=True).remove)
