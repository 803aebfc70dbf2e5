"""See every attention block of any model while it runs: the concatenated heads before the output projection.

`probe` is a context manager: hooks live inside it only. Each block is reduced to its numbers as it passes, so nothing
larger than one layer's block is held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fnmatch import fnmatch
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from leanformer.conditioning.spectra import Conditioning, conditioning
from leanformer.conditioning.summaries import KappaSummary, LayerSummary
from leanformer.foundation.records.quantiles import quantiles
from leanformer.models import families
from leanformer.models.base import Kind

FORWARD_ROUNDING = 20.0
"""How many times as large as the rounding of the stored numbers the error of a computed block is.

It was found by computing the attention of 13 families in float32 and, from the same inputs, in float64: 2 to 15 times,
21 times in the Nyströmformer.
"""
NARROW_ROUNDING = 3.0
"""The same for 16-bit types, whose products are summed in float32: 0.7 to 3.1 times."""

Rule = str | Sequence[str] | Callable[[str, nn.Module], bool]
"""Which modules are output projections: name patterns such as "*.attention.out", or a function of name and module."""


@dataclass(frozen=True)
class Target:
    """One attention block that the probe knows before the model runs."""

    name: str
    kind: Kind
    heads: int | None = None
    head_dim: int | None = None


@dataclass
class Layer:
    """What was seen of one attention block, over all forward passes inside the probe."""

    target: Target
    tokens: int
    columns: int
    dtype: torch.dtype
    parts: list[Conditioning] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def values(self) -> Conditioning:
        """The numbers of every matrix seen: one per sample, or per window where attention is windowed."""
        return _concatenated(self.parts)

    def summary(self) -> LayerSummary:
        """Plain numbers over all matrices seen."""
        values = self.values
        kappa = values.kappa
        low, median, high = quantiles(kappa, [0.25, 0.5, 0.75])
        return LayerSummary(
            name=self.name,
            kind=self.target.kind,
            heads=self.target.heads,
            head_dim=self.target.head_dim,
            tokens=self.tokens,
            columns=self.columns,
            matrices=len(values),
            kappa=KappaSummary(
                median=median,
                lower_quartile=low,
                upper_quartile=high,
                mean=kappa.mean().item(),
                max=kappa.max().item(),
            ),
            rank_deficient=int(kappa.isinf().sum()),
            limited_by_dtype=int(values.limited_by_dtype.sum()),
            effective_rank=values.effective_rank.median().item(),
            stable_rank=values.stable_rank.median().item(),
        )


def _concatenated(parts: Sequence[Conditioning], order: Int64[Tensor, " matrices"] | None = None) -> Conditioning:
    joined = (torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Conditioning))
    return Conditioning(*(values if order is None else values[order] for values in joined))


class Probe:
    """What the probe has seen so far; see `probe`."""

    def __init__(self, mask: Shaped[Tensor, "batch tokens"] | None = None) -> None:
        self._mask = None if mask is None else mask.bool()
        self.mask_fits = mask is None
        self._layers: dict[str, Layer] = {}

    @property
    def layers(self) -> list[Layer]:
        """The attention blocks in the order in which they ran, class attention left out."""
        return list(self._layers.values())

    def summaries(self) -> list[LayerSummary]:
        return [layer.summary() for layer in self.layers]

    def see(self, target: Target, block: Float[Tensor, "*batch tokens columns"]) -> None:
        """Take in one block. Of an image (batch, rows, columns, channels), rows and columns are tokens."""
        if target.kind == "class":
            return
        block = block.detach()
        if block.ndim == 2:
            block = block[None]
        elif block.ndim == 4:  # an image
            block = block.flatten(1, 2)
        if block.shape[-2] == 1:  # one row, as in pooling or step-by-step generation: κ is 1 whatever it holds
            return
        layer = self._layers.get(target.name)
        if layer is None:
            layer = Layer(target, tokens=block.shape[-2], columns=block.shape[-1], dtype=block.dtype)
            self._layers[target.name] = layer
        layer.parts.append(self._without_padding(block, target.name))

    def _without_padding(self, block: Float[Tensor, "batch tokens columns"], name: str) -> Conditioning:
        """The block's numbers, sample by sample, rows of padding left out."""
        mask = self._mask
        if mask is None or mask.shape != block.shape[:2]:
            return conditioning(block, name, _rounding(block.dtype)).flatten()
        self.mask_fits = True
        mask = mask.to(block.device)
        lengths = mask.sum(dim=1)
        places, parts = [], []
        for length in [length for length in lengths.unique().tolist() if length > 1]:
            chosen = lengths == length
            places.append(chosen.nonzero().flatten())
            rows = block[chosen][mask[chosen]].reshape(-1, length, block.shape[-1])
            parts.append(conditioning(rows, name, _rounding(block.dtype)))
        if not parts:
            raise ValueError(f"{name}: the mask leaves no sample with more than one token")
        order = torch.cat(places).argsort().cpu()
        return _concatenated(parts, order)


def _rounding(dtype: torch.dtype) -> float:
    return FORWARD_ROUNDING if torch.finfo(dtype).bits >= 32 else NARROW_ROUNDING


@contextmanager
def probe(
    model: nn.Module, projections: Rule | None = None, mask: Shaped[Tensor, "batch tokens"] | None = None
) -> Iterator[Probe]:
    """Measure every attention block of the models that run inside.

    >>> with lf.probe(model) as p:
    ...     model(batch)
    >>> p.layers[0].values.kappa  # one κ per sample

    Finds the attention of leanformer's families, timm models, Hugging Face models, `nn.MultiheadAttention` and
    `nn.TransformerEncoder`. Fused attention stays on. PyTorch's encoder fast path is off inside, because it calls no
    module; without it, rows of padding are not set to zero. Compiled models run uncompiled. All hooks are removed
    afterwards, also after an exception.

    Args:
        model: any module, also wrapped by `torch.compile` or DDP.
        projections: for a model of your own, its output projections: name patterns, or a function of name and module.
            Their input is the block.
        mask: True or 1 on true tokens, (batch, tokens): rows of padding are left out.
    """
    check_rule(projections)
    model = unwrap(model)
    seen = Probe(mask)
    fastpath = torch.backends.mha.get_fastpath_enabled()
    with contextlib.ExitStack() as stack:
        watched = _watch(stack, model, projections, seen.see)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fastpath)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(torch.compiler.set_stance("force_eager"))  # compiled code would not see the hooks
        yield seen
        if not seen.mask_fits:
            shape = tuple(cast(Tensor, mask).shape)
            raise ValueError(f"the mask of shape {shape} fits no block: it must be (batch, tokens)")
        if not seen.layers:
            raise ValueError(_nothing_seen(model, watched, projections))


@torch.no_grad()
def measure(
    model: nn.Module,
    batch: Any,
    projections: Rule | None = None,
    mask: Shaped[Tensor, "batch tokens"] | None = None,
) -> Probe:
    """κ of every attention block of a model on one batch, in evaluation mode and without autocast.

    The model is left as it was: its modes, gradients and buffers, and the state of every random generator.

    Args:
        model: any module that `probe` understands.
        batch: what the model takes: a tensor, a tuple of arguments, a mapping of keyword arguments, or a `Call`.
        projections, mask: as for `probe`. A batch with an `attention_mask` or `lengths` needs no mask of its own.
    """
    model = unwrap(model)
    call = Call.of(batch)
    given = call.kwargs.get("attention_mask")
    if mask is None and isinstance(given, Tensor) and given.ndim == 2:
        mask = given
    lengths, ids = call.kwargs.get("lengths"), call.kwargs.get("input_ids")
    if mask is None and isinstance(lengths, Tensor) and isinstance(ids, Tensor):
        mask = (torch.arange(ids.shape[-1], device=ids.device) < lengths[..., None]).flatten(0, -2)
    with undisturbed(model), probe(model, projections, mask) as seen:
        model(*call.args, **call.kwargs)
    return seen


@dataclass(frozen=True)
class Call:
    """The arguments of one call of a model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Any) -> Call:
        if isinstance(batch, Call):
            return batch
        if isinstance(batch, Mapping):
            return cls(kwargs=batch)
        return cls(args=tuple(batch) if isinstance(batch, (tuple, list)) else (batch,))


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no autocast inside; every module's mode and random generator as before afterwards."""
    modes = {module: module.training for module in model.modules()}
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices), contextlib.ExitStack() as stack:
        for kind in {"cpu", *(parameter.device.type for parameter in model.parameters())} - {"meta"}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside `torch.compile`, DataParallel or DistributedDataParallel."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = cast(nn.Module, model._orig_mod)
        elif isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


See = Callable[[Target, Tensor], None]
PROJECTION_NAMES = ("o", "o_proj", "out_proj", "out_lin", "dense")
"""Names of the output projection inside Hugging Face's older attention modules."""


def _watch(stack: contextlib.ExitStack, model: nn.Module, projections: Rule | None, see: See) -> int:
    """Register the hooks; returns how many blocks are watched."""
    if projections is not None:
        chosen = [(name, module) for name, module in model.named_modules() if _chosen(projections, name, module)]
        for name, module in chosen:
            _watch_input(stack, module, Target(name, "self"), see, _check_block)
        return len(chosen)
    names = {module: name for name, module in model.named_modules()}
    known, count = set(), 0
    for module, name in names.items():  # models of known families, also inside a larger one
        if module not in known and (blocks := _family_blocks(module)):
            known.update(module.modules())
            count += len(blocks)
            for block in blocks:
                target = Target(f"{name}.{block.path}" if name else block.path, block.kind, block.heads, block.head_dim)
                _watch_input(stack, module.get_submodule(block.projection), target, see)
    return count + _watch_anything(stack, {module: name for module, name in names.items() if module not in known}, see)


def _family_blocks(module: nn.Module) -> list[families.AttentionBlock]:
    try:
        return families.attention_blocks(module) if next(module.children(), None) is not None else []
    except ValueError:
        return []


def _watch_anything(stack: contextlib.ExitStack, names: Mapping[nn.Module, str], see: See) -> int:
    """Modules of no known family: recognise attention by what it is made of."""
    count, through_interface = 0, set(names)
    for module, name in names.items():
        made_of = cast(Any, module)
        if isinstance(module, nn.MultiheadAttention):
            target = Target(name, "self", module.num_heads, module.head_dim)
            _watch_multihead(stack, module, target, see)
        elif isinstance(getattr(module, "proj", None), nn.Linear) and isinstance(
            getattr(module, "num_heads", None), int
        ):
            head_dim = made_of.proj.in_features // made_of.num_heads
            _watch_input(stack, made_of.proj, Target(name, _kind(module), made_of.num_heads, head_dim), see)
        elif isinstance(getattr(module, "all_head_size", None), int):  # Hugging Face before its attention interface
            target = Target(name, "self", made_of.num_attention_heads, made_of.attention_head_size)
            inside = next((child for key, child in module.named_children() if key in PROJECTION_NAMES), None)
            if inside is not None:
                _watch_input(stack, inside, target, see)
            else:
                _watch_output(stack, module, target, see)
        else:
            continue
        through_interface.discard(module)
        count += 1
    if any(isinstance(getattr(module, "config", None), families.hugging_face_config()) for module in names):
        watched = {module: names[module] for module in through_interface}
        stack.enter_context(families.attention_interface(lambda module, heads: _see_heads(see, watched, module, heads)))
    return count


def _see_heads(
    see: See,
    names: Mapping[nn.Module, str],
    module: nn.Module,
    heads: Float[Tensor, "batch tokens heads head_dim"],
) -> None:
    """Take in heads as Hugging Face's attention functions return them."""
    if module in names:
        see(Target(names[module], "self", heads.shape[-2], heads.shape[-1]), heads.flatten(-2))


def _kind(module: nn.Module) -> Kind:
    name = type(module).__name__.lower()
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


def _watch_multihead(stack: contextlib.ExitStack, module: nn.MultiheadAttention, target: Target, see: See) -> None:
    """`nn.MultiheadAttention` never calls its output projection as a module: it passes the weights to a function.

    So the projection is replaced by the identity while it runs, which is exact. Its output is then the block, and the
    projection is applied to it afterwards.
    """
    projection = module.out_proj
    weight, bias = projection.weight, projection.bias

    def restore() -> None:
        projection._parameters.update(cast(Any, {"weight": weight, "bias": bias}))

    def before(*_: Any) -> None:
        identity = torch.eye(weight.shape[0], device=weight.device, dtype=weight.dtype)
        projection._parameters.update(cast(Any, {"weight": identity, "bias": None}))

    def after(_: nn.Module, __: Any, output: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
        restore()
        heads, weights = output
        see(target, heads if module.batch_first or heads.ndim == 2 else heads.transpose(0, 1))
        return F.linear(heads, weight, bias), weights

    stack.callback(restore)
    stack.callback(module.register_forward_pre_hook(before).remove)
    stack.callback(module.register_forward_hook(after).remove)
    stack.callback(module.register_forward_hook(lambda *_: restore(), always_call=True).remove)


def _nothing_seen(model: nn.Module, watched: int, projections: Rule | None) -> str:
    kind = type(model).__name__
    if watched:
        return f"no attention ran inside the probe: call {kind} inside the `with` ({watched} blocks were waiting)"
    if projections is not None:
        return f"no attention was seen: no module of {kind} matches projections={projections!r}"
    return (
        f"no attention was seen in {kind}: looked for leanformer's families, timm modules with `num_heads` and `proj`, "
        "Hugging Face attention, and nn.MultiheadAttention; name your output projections, such as "
        'probe(model, projections="*.attention.out")'
    )
