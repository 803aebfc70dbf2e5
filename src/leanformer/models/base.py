"""What every family can do: read the architecture of a name, build any variant of it, read that back from the built
model, and say where its attention is.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from leanformer.architecture import Architecture, Stage
from leanformer.models.building import built_on
from leanformer.models.options import check_options

Inputs = dict[str, Tensor]
"""A batch, by the names of the module's arguments."""
Kind = Literal["self", "cross", "class", "inner", "outlook", "window", "channel", "cross-covariance"]
"""What attends to what: tokens to tokens, to those of another input, the class token to all, and so on."""
Attention = Literal["fused", "explicit"]
"""How attention is computed: by the fused kernel where upstream has one, or as products that keep the weights."""
UNSUITABLE = (RuntimeError, AssertionError, TypeError, AttributeError, LookupError, ArithmeticError)
"""What upstream's constructors raise for sizes and options that do not fit."""


@dataclass(frozen=True, kw_only=True)
class AttentionBlock:
    """One place where heads are concatenated: the input of `projection` is the matrix to measure."""

    path: str
    """Name of the attention module in the model."""
    projection: str
    """Name of the output projection in the model."""
    kind: Kind
    """What attends to what. `class` attention has one row only and is left out of κ."""
    stage: int
    """Stage of the architecture, from 0."""
    layer: int
    """Layer of the whole model, from 0; class attention is numbered after the last layer."""
    heads: int
    head_dim: int


@dataclass(frozen=True, kw_only=True)
class AttentionPart:
    """An attention and the MLP behind it, as the model holds them: what a family tells about its modules."""

    path: str
    kind: Kind
    layer: int
    attention: nn.Module
    mlp: nn.Module | None = None
    stage: int = 0
    """Which of the family's own stages it belongs to; 0 where the family has none."""

    @property
    def follows_stage(self) -> bool:
        """Whether this attention has the stage's heads; class and inner attention keep their own."""
        return self.kind not in ("class", "inner")


class Family(ABC):
    """One architecture family. Instances hold no state; `leanformer.models.families.FAMILIES` lists the classes."""

    key: ClassVar[str]
    """The name in `Architecture.family`, under which the family is registered."""
    stage_count: ClassVar[int | None] = None
    """How many stages the family has by construction; None where stages are a schedule over layers of one width."""
    residual_branches: ClassVar[bool] = False
    """Whether every attention and every MLP is added to the stream as it is, without a norm or a scale behind it."""
    causal: ClassVar[bool] = False
    """Whether a token sees only those before it, so that the models can learn to predict the next one."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The upstream models known by name."""

    @abstractmethod
    def read(self, name: str, **options: Any) -> Architecture:
        """The architecture of a known name, with the family's options."""

    @abstractmethod
    def assemble(self, architecture: Architecture) -> nn.Module:
        """Make the module; called with a checked architecture, on the device in force."""

    def assemble_like(self, architecture: Architecture, model: nn.Module) -> nn.Module:
        """Make a module of this architecture and of the same kind as `model`: with the same head, or without one."""
        return self.assemble(architecture)

    @abstractmethod
    def owns(self, model: nn.Module) -> bool:
        """Whether this module is one of the family's."""

    @abstractmethod
    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        """Upstream name and options of a module, for `describe`."""

    @abstractmethod
    def parts(self, model: nn.Module) -> list[AttentionPart]:
        """Every attention of the module, in order."""

    @abstractmethod
    def shape(self, part: AttentionPart) -> Stage:
        """The sizes of a part, as a stage of depth 1."""

    @abstractmethod
    def projection(self, part: AttentionPart) -> str:
        """Name of the output projection inside the attention module."""

    @abstractmethod
    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        """Random inputs of the right shape; `tokens` is the length of a text."""

    def image_size(self, architecture: Architecture) -> tuple[int, int, int] | None:
        """Channels, height and width of the images that the family's models take; None where they take others."""
        return None

    def patch_size(self, architecture: Architecture) -> tuple[int, int] | None:
        """Height and width of the patches that images are cut into, if what remains at the edges is not seen."""
        return None

    def loss(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """The loss that the family is usually trained with, for labels that are all 0: what a step's memory depends on.

        By default the cross-entropy over the last dimension: of classes, or of every token of a text.
        """
        output = model(**inputs)
        output = getattr(output, "logits", output)
        found = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        return sum((_cross_entropy(logits) for logits in found[1:]), _cross_entropy(found[0]))

    reserved: ClassVar[Mapping[str, str]] = {}
    """Upstream's settings that the stages decide, and our word for each; an empty word where there is none."""

    def refuse(self, options: Mapping[str, Any]) -> None:
        """Raise a `ValueError` that names the option which contradicts the stages or asks for weights."""
        for option, value in options.items():
            if option == "pretrained":
                raise ValueError(
                    "pretrained is not an option: build the model, then lf.load_weights(model, checkpoint)"
                )
            if option in self.reserved and (word := self.reserved[option]):
                raise ValueError(f"the architecture decides {option}: give {word}= instead of {option}={value!r}")
            if option in self.reserved:
                raise ValueError(f"{option} is not supported by the family {self.key}")

    renamings: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Patterns of names in published checkpoints, and what the module calls these tensors."""

    def known(self, name: str) -> bool:
        """Whether a name is one of the family's; `read` may still say why such a model cannot be resized."""
        return name in self.names()

    def origin(self, architecture: Architecture) -> str:
        """What an architecture's name means, in a sentence, where it is not the name of one published model."""
        return ""

    def register(self) -> None:
        """Register the family's classes with the library that they extend."""

    def head_unit(self, architecture: Architecture) -> int:
        """Heads come in multiples of this."""
        return 1

    def attention_gain(self, stage: Stage) -> float:
        """What a layer of these sizes multiplies its attention's output by."""
        return 1.0

    def mlp_modules(self, part: AttentionPart) -> list[nn.Module]:
        """The modules that make up the MLP behind an attention."""
        return [part.mlp] if part.mlp is not None else []

    @abstractmethod
    def configure(self, model: nn.Module, attention: Attention, checkpointing: bool) -> AbstractContextManager[Any]:
        """Set a module to fused or explicit attention and gradient checkpointing; trace it inside the context."""

    def check(self, architecture: Architecture) -> None:
        """Raise a `ValueError` that names the field if the family cannot build this."""

    def build(
        self, architecture: Architecture, device: torch.device | str | None = None, like: nn.Module | None = None
    ) -> nn.Module:
        """A module of exactly this architecture, or a `ValueError` that names the field in which it would differ.

        `like` is a module whose kind it shall have: a language model, a classifier, or a model without a head.
        """
        architecture = self.canonical(architecture)
        with built_on(device):
            try:
                model = self.assemble(architecture) if like is None else self.assemble_like(architecture, like)
            except UNSUITABLE as error:
                raise ValueError(f"{architecture} cannot be built: {first_line(error)}") from error
        built = replace(architecture, stages=self.stages(model))
        if different := architecture.differences(built, "asked for", "built"):
            raise ValueError(f"{architecture.name} cannot have these sizes: {'; '.join(different)}")
        _, found = self.record(model)
        options = {option: found.get(option) for option in architecture.options}
        if different := architecture.differences(replace(architecture, options=options), "asked for", "built"):
            raise ValueError(f"{architecture.name} cannot be built as asked: {'; '.join(different)}")
        return model

    def canonical(self, architecture: Architecture) -> Architecture:
        """The architecture, checked, in the form that `describe` returns for the built module."""
        if self.stage_count is None:
            architecture = architecture.merged()
            widths = sorted({stage.width for stage in architecture.stages})
            if len(widths) > 1:
                raise ValueError(f"width must be the same in all stages of a {self.key} model, got {widths}")
        elif len(architecture.stages) != self.stage_count:
            raise ValueError(
                f"stages: a {self.key} model has {self.stage_count}, got {len(architecture.stages)}; "
                "depth, heads and mlp_dim take one number per stage"
            )
        check_options(architecture.options, architecture.name)
        self.check(architecture)
        return architecture

    def describe(self, model: nn.Module) -> Architecture:
        """The architecture of a module: stages from its layers, the rest from what it was made with."""
        name, options = self.record(model)
        return Architecture(family=self.key, name=name, stages=self.stages(model), options=options)

    def stages(self, model: nn.Module) -> tuple[Stage, ...]:
        """A module's stages, read from its layers."""
        parts = [part for part in self.parts(model) if part.follows_stage]
        layers = {part.layer: (part.stage, self.shape(part)) for part in reversed(parts)}
        stages: list[Stage] = []
        for index in range(1 + max(part.stage for part in parts)):
            shapes = [shape for _, (stage, shape) in sorted(layers.items()) if stage == index]
            runs = Architecture(family=self.key, name="", stages=tuple(shapes)).merged().stages
            if self.stage_count is not None and len(runs) > 1:
                raise ValueError(f"stage {index + 1} of this {self.key} model has layers of different shapes: {runs}")
            stages.extend(runs)
        return tuple(stages)

    def layer_paths(self, model: nn.Module) -> list[str]:
        """Names of the modules that hold one layer each: its attention, its MLP and their norms."""
        homes: dict[int, list[list[str]]] = {}
        for part in self.parts(model):
            if part.kind != "class":
                homes.setdefault(part.layer, []).append(part.path.split(".")[:-1])
        return [".".join(_shared_beginning(paths)) for _, paths in sorted(homes.items())]

    def attention_blocks(self, model: nn.Module) -> list[AttentionBlock]:
        """Where the module's heads are concatenated, layer by layer."""
        stage_of = [index for index, stage in enumerate(self.stages(model)) for _ in range(stage.depth)]
        blocks = []
        for part in self.parts(model):
            shape = self.shape(part)
            blocks.append(
                AttentionBlock(
                    path=part.path,
                    projection=self.projection(part),
                    kind=part.kind,
                    stage=stage_of[min(part.layer, len(stage_of) - 1)],
                    layer=part.layer,
                    heads=shape.heads,
                    head_dim=shape.head_dim,
                )
            )
        return blocks


def _shared_beginning(paths: Sequence[Sequence[str]]) -> list[str]:
    """What all of these begin with."""
    columns = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return [names[0] for names in columns]


def class_of(module: nn.Module) -> type:
    """A module's class, also where FSDP2 has put one of its own before it (FSDPBlock)."""
    return next(kind for kind in type(module).__mro__ if not kind.__name__.startswith("FSDP"))


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _cross_entropy(logits: Tensor) -> Tensor:
    rows = logits.flatten(0, -2).float()
    return F.cross_entropy(rows, torch.zeros(len(rows), dtype=torch.int64, device=rows.device))
