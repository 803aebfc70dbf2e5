"""See attention in models that nobody described: by the functions that compute it.

`AttentionCalls` follows every call of PyTorch while a model runs. Attention is `scaled_dot_product_attention`, or a
softmax of a product of two activations that is applied to a third. The heads that come out are followed, through
transpositions, norms and gates, to the linear map that takes them: its input is the block. `layouts.py` says which of
its rows belong to one sample. Heads that reach no linear map are concatenated by the shape of the call.

Where an activation comes from is followed too, from the model's inputs and embeddings on: attention is `cross` if
queries and keys come from different ones.
Attention inside other people's kernels (flash-attn, xFormers) and other formulas than these are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from leanformer.conditioning.layouts import Block, by_shape, equation, numbered, of_projection, order_of_heads

REARRANGING = frozenset(
    {
        *("transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "flip", "roll"),
        *("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "view_as", "reshape_as"),
        *("narrow", "select", "chunk", "split", "tensor_split", "unbind", "pad", "as_strided"),
        *("__getitem__", "__get__"),
    }
)
"""Functions that move numbers and change none; `__get__` stands for attributes such as `mT`."""
ATTENTION = "scaled_dot_product_attention"
JOINING = frozenset({"cat", "concat", "concatenate"})
PRODUCTS = frozenset({"matmul", "__matmul__", "bmm", "mm", "einsum", "baddbmm", "addmm"})
SUMS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "__sub__"})
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})


@dataclass(eq=False)
class Call:
    """One computation of attention."""

    module: nn.Module
    """The innermost module that made it."""
    seen: list[int]
    """How many blocks were seen since the module was entered."""
    cross: bool
    output: Float[Tensor, "*batch tokens size"] | None
    """None if the block is seen in another way."""
    inside: Set[nn.Module] = frozenset()
    """All modules that were running."""
    covered: bool = False
    """Whether the block is seen in another way."""
    emitted: set[tuple[tuple[int, ...], int]] = field(default_factory=set)
    """The blocks that were seen: shape and first place."""


@dataclass(frozen=True)
class Scores:
    """A product of queries and keys, and whether they come from different inputs."""

    cross: bool


@dataclass(frozen=True)
class Weights:
    """The softmax of scores. `places` counts along the axis that sums to 1 and is constant along the others."""

    cross: bool
    places: Int64[Tensor, "*shape"]


@dataclass(frozen=True)
class Heads:
    """What attention returned, possibly rearranged: `index` says where each number stood in the call's output."""

    call: Call
    index: Int64[Tensor, "*shape"]


Tag = Scores | Weights | Heads
SeeBlock = Callable[[str, Call, Block], None]


class AttentionCalls(TorchFunctionMode):
    """Shows every attention block of the modules in `names` to `see`, while it is open as a context.

    Args:
        names: the modules to watch, with their names.
        covered: modules whose attention is seen in another way. Calls inside them are only asked for by `cross`.
        see: takes a block, with its name and the call. The name is the module's, with a number from a second block on.
    """

    def __init__(self, names: Mapping[nn.Module, str], covered: Set[nn.Module], see: SeeBlock) -> None:
        super().__init__()
        self.names, self.covered, self.see = names, covered, see
        self.ran = False
        """Whether any of the modules ran."""
        self._running: list[tuple[nn.Module, list[int]]] = []
        self._pending: list[Call] = []
        self._tags = WeakTensorKeyDictionary()
        self._sources = WeakTensorKeyDictionary()
        self._hooks: list[Any] = []

    # Which module is running

    def __enter__(self) -> AttentionCalls:
        for module in self.names:
            self._hooks.append(module.register_forward_pre_hook(self._enters))
            self._hooks.append(module.register_forward_hook(self._leaves, always_call=True))
        return cast(AttentionCalls, super().__enter__())

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        for hook in self._hooks:
            hook.remove()
        if raised[0] is None:
            self._flush()

    def _enters(self, module: nn.Module, _: Any) -> None:
        self.ran = True
        self._running.append((module, [0]))

    def _leaves(self, module: nn.Module, *_: Any) -> None:
        while self._running and self._running.pop()[0] is not module:
            pass
        if not self._running:
            self._flush()

    def _flush(self) -> None:
        """What reached no linear map is concatenated by its shape."""
        for call in self._pending:
            if not call.covered and not call.emitted:
                self._emit(call, by_shape(cast(Tensor, call.output)))
        self._pending.clear()

    def _emit(self, call: Call, block: Block) -> None:
        call.seen[0] += 1
        name, number = self.names[call.module], call.seen[0]
        self.see(name if number == 1 else f"{name}:{number}", call, block)

    # What others ask

    def cross(self, module: nn.Module) -> bool:
        """Whether the attention that just ran inside a module was cross-attention; it is seen in another way."""
        mine = [call for call in self._pending if module is call.module or module in call.inside]
        for call in mine:
            call.covered = True
        self._pending = [call for call in self._pending if not call.covered]
        return any(call.cross for call in mine)

    def differ(self, queries: Tensor, keys: Tensor) -> bool:
        """Whether queries and keys come from different inputs."""
        return self._source(queries) is not self._source(keys)

    # What is computed

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        results = [*_tensors([output])]
        given = [*_tensors(args), *_tensors((kwargs or {}).values())] if results else []
        if given:
            self._note(func, args, kwargs or {}, given, results)
        return output

    def _note(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], given: list[Tensor], results: list[Tensor]
    ) -> None:
        name, out = func.__name__, results[0]
        self._trace_source(name, given, results)
        tagged = next((tensor for tensor in given if tensor in self._tags), None)
        if name == ATTENTION:
            self._drop(given)
            query, key = (args + tuple(kwargs[word] for word in ("query", "key", "value") if word in kwargs))[:2]
            self._attention(out, numbered(out.shape, out.device), self.differ(query, key))
        elif name in PRODUCTS:
            self._product(name, args, given, out)
        elif tagged is None:
            return
        elif name == "softmax":
            self._softmax(args, kwargs, tagged, out)
        elif isinstance(tag := self._tags[tagged], Heads) and (name == "linear" or name in CONVOLUTIONS):
            self._project(tag, tagged, channels_first=name != "linear")
        elif name in REARRANGING:
            self._rearrange(func, args, kwargs, tag, results)
        elif name in JOINING and isinstance(tag, Heads):
            self._join(func, given, args, kwargs, out)
        elif isinstance(tag, Heads) and name in SUMS and self._is_residual(tag, tagged, given):
            self._project(tag, tagged)
        else:
            self._follow(given, tag, results)

    # Sources

    def _trace_source(self, name: str, given: list[Tensor], results: Iterable[Tensor]) -> None:
        """Results come from where the largest activation comes from; what is looked up in a table is a new source."""
        activations = [tensor for tensor in given if self._is_activation(tensor)]
        floating = [tensor for tensor in activations if tensor.is_floating_point()] or activations
        if name == "embedding":
            source: object = object()
        elif name == ATTENTION or name in PRODUCTS:  # queries are the first
            source = self._source((floating or given)[0])
        else:  # larger than rotations, class tokens, and caches that are still empty
            source = self._source(max(floating, key=Tensor.numel)) if floating else None
        for result in results:
            if result not in self._sources:
                self._sources[result] = source

    def _is_activation(self, tensor: Tensor) -> bool:
        """Parameters, and what is computed from nothing else, are none."""
        return not isinstance(tensor, nn.Parameter) and self._source(tensor) is not None

    def _source(self, tensor: Tensor) -> object:
        """Where an activation comes from; None for parameters."""
        if isinstance(tensor, nn.Parameter):
            return None
        if tensor not in self._sources:
            base = tensor._base if tensor._is_view() else None
            self._sources[tensor] = None if isinstance(base, nn.Parameter) else object()
        return self._sources[tensor]

    # Attention, one function at a time

    def _product(self, name: str, args: tuple[Any, ...], given: list[Tensor], out: Tensor) -> None:
        terms = equation(args[0], given) if name == "einsum" and isinstance(args[0], str) else None
        if len(given) < 2 or (name == "einsum" and (terms is None or len(given) != 2)):
            return
        left, right = given[-2:]  # baddbmm and addmm have a bias before
        tags = [self._tags.get(left), self._tags.get(right)]
        if isinstance(tags[0], Heads) and (right.ndim < 3 or not self._is_activation(right)):
            if name == "einsum" or right.ndim > 2:
                self._unprojected(tags[0].call)
            else:
                self._project(tags[0], left)
            return
        if min(left.ndim, right.ndim) < 3:
            return
        for tag, weights, others in zip(tags, (left, right), (right, left), strict=True):
            if isinstance(tag, Weights) and (found := _places(tag, weights, out, terms, weights is left)):
                self._drop([others])
                self._attention(out, found[0], tag.cross, found[1])
                return
        self._drop(given)
        self._tags[out] = Scores(self.differ(left, right))

    def _softmax(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], tagged: Tensor, out: Tensor) -> None:
        tag = self._tags[tagged]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if isinstance(tag, Scores) and isinstance(dim, int):
            axis = dim % out.ndim
            places = torch.arange(out.shape[axis]).view([-1 if d == axis else 1 for d in range(out.ndim)])
            self._tags[out] = Weights(tag.cross, places.expand(out.shape))

    def _attention(
        self, out: Tensor, index: Int64[Tensor, "*shape"], cross: bool, canonical: tuple[int, ...] | None = None
    ) -> None:
        """Heads were computed; `canonical` orders their axes as batch, heads, tokens, size."""
        if not self._running or not out.is_floating_point() or not out.numel():
            return
        heads = (out if canonical is None else out.permute(canonical)).detach()
        call = self._called(cross, heads)
        if not call.covered:
            self._tags[out] = Heads(call, index)

    def _called(self, cross: bool, heads: Tensor) -> Call:
        """A new call of the module that is running."""
        module, seen = self._running[-1]
        running = frozenset(module for module, _ in self._running)
        covered = not self.covered.isdisjoint(running)
        call = Call(module, seen, cross, None if covered else heads, running, covered)
        self._pending.append(call)
        return call

    # What becomes of the heads

    def _project(self, heads: Heads, taken: Tensor, channels_first: bool = False) -> None:
        """A linear map takes the heads: its input is the block."""
        call, index = heads.call, heads.index
        if call.covered or call.output is None:
            return
        taken = taken.detach()
        if channels_first:
            taken, index = taken.movedim(1, -1), index.movedim(1, -1)
        once = (tuple(index.shape), int(index[(0,) * index.ndim]))
        if once in call.emitted:  # queries, keys and gates may be computed from the same heads
            return
        block = of_projection(taken, index, call.output.shape)
        if block is None:
            return self._unprojected(call)
        self._emit(call, block)  # more than once where streams attend together, and each has its projection
        call.emitted.add(once)
        self._pending = [other for other in self._pending if other is not call]
        return None

    def _unprojected(self, call: Call) -> None:
        """The heads are used in a form that shows no concatenation."""
        if not call.covered and not call.emitted:
            self._emit(call, by_shape(cast(Tensor, call.output)))
            call.covered = True
        self._pending = [other for other in self._pending if other is not call]

    def _is_residual(self, tag: Heads, tagged: Tensor, given: list[Tensor]) -> bool:
        """Whether concatenated heads are added to other activations, which are not heads."""
        others = [tensor for tensor in given if tensor is not tagged and self._is_activation(tensor)]
        if not others or any(isinstance(self._tags.get(other), Heads) for other in others):
            return False
        size = cast(Tensor, tag.call.output).shape[-1]
        return tagged.shape[-1] != size or tagged.ndim < 4

    def _rearrange(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tag: Tag, results: list[Tensor]
    ) -> None:
        """What moves the numbers moves their places."""
        if isinstance(tag, Scores):
            moved: Any = [tag] * len(results)
        else:
            followed = tag.index if isinstance(tag, Heads) else tag.places
            try:
                found = func(followed, *args[1:], **kwargs)
                places = [found] if isinstance(found, Tensor) else list(found)
            except (RuntimeError, TypeError):  # a place that cannot be followed
                return
            kind: Any = Heads if isinstance(tag, Heads) else Weights
            moved = [kind(tag.call if isinstance(tag, Heads) else tag.cross, place) for place in places]
        for result, new in zip(results, moved, strict=True):
            self._tags[result] = new

    def _follow(self, given: list[Tensor], tag: Tag, results: list[Tensor]) -> None:
        """Functions that keep the shape: masks, dropout, norms, gates, sums of heads."""
        shape = None if isinstance(tag, Scores) else (tag.index if isinstance(tag, Heads) else tag.places).shape
        for result in results:
            if result.is_floating_point() and (shape is None or result.shape == shape) and result not in self._tags:
                self._tags[result] = tag
                if isinstance(tag, Heads):
                    self._merge(tag.call, given)

    def _join(
        self, func: Any, given: list[Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Tensor
    ) -> None:
        """Heads of several calls become one tensor, as in models that have a module for each head."""
        tags = [self._tags.get(tensor) for tensor in given]
        parts = [tag for tag in tags if isinstance(tag, Heads) and not tag.call.covered and not tag.call.emitted]
        outputs = [cast(Tensor, part.call.output) for part in parts]
        if len(parts) < len(given) or len({id(part.call) for part in parts}) < len(parts):
            return
        if len({output.shape for output in outputs}) > 1 or not self._running:
            return
        together = torch.stack(outputs, -3) if outputs[0].ndim < 4 else torch.cat(outputs, -3)
        heads, size = together.shape[-3] // len(parts), together.shape[-2] * together.shape[-1]
        moved = []
        for number, part in enumerate(parts):
            batch, inside = part.index // (heads * size), part.index % (heads * size)
            moved.append((batch * len(parts) + number) * heads * size + inside)
            part.call.covered = True
        self._pending = [call for call in self._pending if not call.covered or call.output is None]
        call = self._called(any(part.call.cross for part in parts), together)
        self._tags[out] = Heads(call, func(moved, *args[1:], **kwargs))

    def _merge(self, call: Call, given: list[Tensor]) -> None:
        """Heads that were added to those of another call are seen with them."""
        for tensor in given:
            other = self._tags.get(tensor)
            if isinstance(other, Heads) and other.call is not call:
                other.call.covered = True
                self._pending = [pending for pending in self._pending if pending is not other.call]

    def _drop(self, given: list[Tensor]) -> None:
        """Heads that attention or another product takes are an intermediate step."""
        for tensor in given:
            if isinstance(tag := self._tags.get(tensor), Heads) and not tag.call.emitted:
                tag.call.covered = True
                self._pending = [call for call in self._pending if call is not tag.call]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (item for item in value if isinstance(item, Tensor))


def _places(
    tag: Weights, weights: Tensor, out: Tensor, terms: tuple[str, str, str] | None, first: bool
) -> tuple[Int64[Tensor, "*shape"], tuple[int, ...]] | None:
    """Where the product of attention weights with values has its heads; None if it is another product.

    Returns the places of the output's numbers in the order batch, heads, tokens, size, and the permutation to it.
    """
    counting = [d for d in range(weights.ndim) if tag.places.shape[d] > 1 and tag.places.stride(d)]
    if len(counting) != 1:
        return None
    if terms is not None:
        order = order_of_heads(terms if first else (terms[1], terms[0], terms[2]), counting[0])
    elif counting[0] == weights.ndim - (1 if first else 2):
        order = tuple(range(out.ndim))
        if not first:  # values times weights: tokens are the last axis
            order = (*order[:-2], order[-1], order[-2])
    else:
        order = None
    if order is None:
        return None
    places = numbered([out.shape[d] for d in order], out.device)
    return places.permute([order.index(d) for d in range(out.ndim)]), order
