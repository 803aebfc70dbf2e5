"""Put a checkpoint's tensors into a model, whatever wraps their names and whatever head the checkpoint has.

The layers must fit exactly. A head may be missing or of another size: it is left out, and the model's own stays as it
was drawn. `Loaded` says what became of everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.models import families

Heads = Literal["required", "optional", "ignored"]
"""Whether a head must fit like everything else, is loaded where it fits, or is never loaded."""
MOST_TENSORS = 6
"""How many tensors that do not fit an error names."""
WRAPPERS = ("module.", "_orig_mod.")
"""What data-parallel wrappers and torch.compile put before names."""
HEADS = ("head", "lm_head", "classifier", "score", "pooler")
"""Modules at the top of models without a base model that are heads."""
OUTDATED = ((".gamma", ".weight"), (".beta", ".bias"))
"""Ends of names in BERT's first checkpoints, and what they are today."""
IGNORED = ("attn.masked_bias", "n_averaged")
"""Tensors that hold no weights: a mask of older GPT-2s, and a counter of PyTorch's averages."""


@dataclass(frozen=True)
class Checkpoint:
    """Tensors that were read, by their names in the file."""

    source: Path
    tensors: Mapping[str, Tensor]
    architecture: Architecture | None
    """Of the model that was saved, where the checkpoint says it."""


@dataclass(frozen=True)
class Loaded:
    """What became of a checkpoint's tensors and of the model's."""

    source: Path
    tensors: int
    """How many were loaded."""
    left_out: tuple[str, ...]
    """Tensors of the checkpoint that the model has no place for: those of another head."""
    new: tuple[str, ...]
    """Tensors of the model's head that are not in the checkpoint: they stay as they were drawn."""

    def __str__(self) -> str:
        said = [f"{self.source}: {self.tensors} tensors loaded"]
        said += [f"left out: {', '.join(_modules(self.left_out))}"] if self.left_out else []
        said += [f"newly drawn: {', '.join(_modules(self.new))}"] if self.new else []
        return "; ".join(said)

    __repr__ = __str__


def fill(model: nn.Module, checkpoint: Checkpoint, heads: Heads) -> Loaded:
    """Load a checkpoint, or raise a `ValueError` that says which part does not fit."""
    match = _Match(model, checkpoint, heads)
    if not match.fitting:
        raise ValueError(match.nothing_shared())
    if match.misfits:
        raise ValueError(match.explained())
    cast(Any, model).load_state_dict(match.fitting, strict=False)
    if hasattr(model, "tie_weights"):
        cast(Any, model).tie_weights()
    return Loaded(checkpoint.source, len(match.fitting), match.left_out, match.new)


def _renamings(model: nn.Module) -> tuple[tuple[str, str], ...]:
    try:
        return families.of(model).renamings
    except ValueError:  # of no known family
        return ()


class _Match:
    """A model's tensors beside a checkpoint's."""

    def __init__(self, model: nn.Module, checkpoint: Checkpoint, heads: Heads) -> None:
        self.model, self.checkpoint, self.heads = model, checkpoint, heads
        self.parts = _Parts(model)
        self.wanted: dict[str, Tensor] = dict(model.state_dict())
        self.renamings = _renamings(model)
        self.outside: list[str] = []
        self.found = self._named(checkpoint.tensors)

    def _named(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The checkpoint's tensors by the model's names; those outside the part that the model holds are set aside."""
        plain = {self._unwrapped(name): tensor for name, tensor in tensors.items()}
        removed, added = max(self._prefixes(plain), key=lambda prefixes: self._shared(plain, *prefixes))
        self.outside = [name for name in plain if not name.startswith(removed)]
        return {added + name.removeprefix(removed): plain[name] for name in plain if name.startswith(removed)}

    def _unwrapped(self, name: str) -> str:
        while wrapper := next((wrapper for wrapper in WRAPPERS if name.startswith(wrapper)), ""):
            name = name.removeprefix(wrapper)
        for old, new in OUTDATED:
            if name.endswith(f"LayerNorm{old}"):
                name = name.removesuffix(old) + new
        for pattern, replacement in self.renamings:
            name = re.sub(pattern, replacement, name)
        return name

    def _prefixes(self, plain: Iterable[str]) -> list[tuple[str, str]]:
        """What may be taken from the checkpoint's names and put before them; the plainest first."""
        parents = {"".join(f"{part}." for part in name.split(".")[:depth]) for name in plain for depth in range(1, 4)}
        removed = ["", *sorted(parents, key=lambda parent: (parent.count("."), parent))]
        return [(prefix, added) for prefix in removed for added in dict.fromkeys(("", self.parts.prefix))]

    def _shared(self, plain: Mapping[str, Tensor], removed: str, added: str) -> int:
        return sum(added + name.removeprefix(removed) in self.wanted for name in plain if name.startswith(removed))

    # What fits

    @cached_property
    def fitting(self) -> dict[str, Tensor]:
        return {
            name: tensor
            for name, tensor in self.found.items()
            if name in self.wanted and tensor.shape == self.wanted[name].shape and not self._is_ignored_head(name)
        }

    @cached_property
    def new(self) -> tuple[str, ...]:
        tied = set(getattr(self.model, "all_tied_weights_keys", None) or {})
        return tuple(name for name in self.wanted if name not in self.fitting and name not in tied)

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        skipped = [name for name in self.found if name not in self.fitting and not self._is_no_weight(name)]
        return tuple(sorted([*skipped, *(name for name in self.outside if not self._is_no_weight(name))]))

    def _is_ignored_head(self, name: str) -> bool:
        return self.heads == "ignored" and self.parts.is_head(name)

    def _is_no_weight(self, name: str) -> bool:
        patterns = [*IGNORED, *(getattr(self.model, "_keys_to_ignore_on_load_unexpected", None) or ())]
        buffers = {buffer for buffer, _ in self.model.named_buffers()} - self.wanted.keys()
        return name in buffers or any(re.search(pattern, name) for pattern in patterns)

    @cached_property
    def misfits(self) -> dict[str, str]:
        """Tensors that keep the checkpoint out of the model, each with what is wrong with it."""
        inner = set(self.found) if self.heads == "required" else {n for n in self.found if self.parts.is_layer(n)}
        shapes = {
            name: f"{tuple(self.wanted[name].shape)} in the model, {tuple(self.found[name].shape)} in the checkpoint"
            for name in sorted(inner & self.wanted.keys())
            if self.wanted[name].shape != self.found[name].shape
        }
        missing = [n for n in sorted(set(self.new) - shapes.keys()) if self._is_needed(n)]
        unknown = [n for n in sorted(inner - self.wanted.keys()) if not self._is_no_weight(n)]
        unknown += self.outside if self.heads == "required" else []
        return {
            **shapes,
            **dict.fromkeys(missing, "in the model only"),
            **dict.fromkeys(unknown, "in the checkpoint only"),
        }

    def _is_needed(self, name: str) -> bool:
        return self.heads == "required" or self.parts.is_layer(name)

    # What is said

    def nothing_shared(self) -> str:
        theirs, ours = ([*names][:3] for names in (self.checkpoint.tensors, self.wanted))
        same = [name for name in self.found if name in self.wanted]
        if same:
            return self.explained()
        return (
            f"{self.checkpoint.source} has nothing in common with this {type(self.model).__name__}: it holds "
            f"{', '.join(theirs) or 'no tensors'}{', …' if len(self.checkpoint.tensors) > 3 else ''}, "
            f"the model {', '.join(ours)}, …"
        )

    def explained(self) -> str:
        """Why the checkpoint does not fit: the stages that differ if both are known, else the first tensors that do."""
        head = f"{self.checkpoint.source} does not fit this model: "
        try:
            ours = families.describe(self.model)
        except ValueError:  # of no known family: there are only tensors to name
            return head + "; ".join(self._shown(self.misfits))
        if self.checkpoint.architecture is not None:
            differences = ours.differences(self.checkpoint.architecture, "in the model", "in the checkpoint")
            if differences:
                return head + "; ".join(differences)
        stages = {block.path.rpartition(".")[0]: block.stage + 1 for block in families.attention_blocks(self.model)}

        def place(name: str) -> str:
            stage = next((stage for prefix, stage in stages.items() if name.startswith(f"{prefix}.")), None)
            return f"stage {stage}, {name}" if stage else name

        named = {place(name): reason for name, reason in self.misfits.items()}
        return head + "; ".join([*self._shown(named), f"the model is {ours}"])

    @staticmethod
    def _shown(misfits: Mapping[str, str]) -> list[str]:
        shown = [f"{name}: {reason}" for name, reason in [*misfits.items()][:MOST_TENSORS]]
        more = len(misfits) - len(shown)
        return [*shown, *([f"and {more} more tensors"] if more else [])]


class _Parts:
    """Which of a model's tensors belong to its layers, and which to its head."""

    def __init__(self, model: nn.Module) -> None:
        stated = getattr(model, "base_model_prefix", "") or ""
        names = model.state_dict().keys()
        self.prefix = f"{stated}." if stated and any(name.startswith(f"{stated}.") for name in names) else ""
        classifier = (getattr(model, "pretrained_cfg", None) or {}).get("classifier") or ()
        self.heads = {*HEADS, *([classifier] if isinstance(classifier, str) else classifier)}
        base = cast(Any, model).base_model if self.prefix else model
        self.modules = {name for name, _ in base.named_children()}

    def is_head(self, name: str) -> bool:
        """Whether a tensor is of the head: outside the base model, or in a module that is known as a head."""
        if self.prefix:
            return not name.startswith(self.prefix)
        return any(name.startswith(f"{head}.") for head in self.heads)

    def is_layer(self, name: str) -> bool:
        """Whether a tensor must be in both. A pooler is part of the base model, but not all base models have one."""
        if self.is_head(name) or name.startswith(f"{self.prefix}pooler."):
            return False
        module, dot, _ = name.removeprefix(self.prefix).partition(".")
        return not dot or module in self.modules  # a module that the model does not have is another model's head


def _modules(names: Iterable[str]) -> list[str]:
    """The modules that hold tensors, or the tensors that no module holds."""
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
