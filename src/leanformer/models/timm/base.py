"""What the families built on timm share: make timm's model, then give each layer its own heads, head_dim and MLP.

timm's constructors take one number of heads, which must divide the width. So the model is constructed as timm does it,
and its layers are then resized in place; each new Linear is initialised by the model's own rule. Layers that fit
already are left as timm made them: an unchanged architecture is bit-identical to timm's model.
"""

from __future__ import annotations

import contextlib
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatch
from typing import Any, ClassVar, cast

import timm
import torch
from timm.layers import Mlp
from torch import Tensor, nn

from leanformer.architecture import Architecture, Stage
from leanformer.models.base import Attention, AttentionPart, Family, Inputs
from leanformer.models.building import built_on
from leanformer.models.timm import adapting

PROJECTIONS = {"qkv": 3, "qk": 2, "kv": 2, "q": 1, "k": 1, "v": 1}
"""Names of timm's input projections, and how many of query, key and value each computes."""

Initialise = Callable[[str, nn.Module], None]


class TimmFamily(Family):
    """A family whose modules are timm's."""

    modules: ClassVar[tuple[str, ...]]
    """timm's modules whose entry points belong to the family."""
    model_class: ClassVar[type[nn.Module]]
    not_resizable: ClassVar[tuple[str, ...]] = ()
    """Patterns of names that are built of other layers; `read` says of which."""
    own_options: ClassVar[tuple[str, ...]] = ()
    """Our own options, which timm does not know."""
    feature_settings: ClassVar[Mapping[str, Any] | None] = {"out_indices": 3, "feature_cls": "getter"}
    """How timm's constructors make `features_only` models of the family; None if they cannot."""
    patches: ClassVar[str] = ""
    """The module on whose grid the positions of patches lie, where timm resamples them for another size of images."""

    @abstractmethod
    def arguments(self, architecture: Architecture) -> dict[str, Any]:
        """The stages in the words of timm's constructor."""

    def decouple(self, attention: nn.Module) -> None:
        """Make an attention's forward independent of the width, where upstream's is not."""

    def set_heads(self, attention: nn.Module, heads: int, head_dim: int, initialise: Initialise) -> None:
        """Give an attention this many heads of this size."""
        set_heads(attention, heads, head_dim, initialise)

    def initialise(self, model: nn.Module, name: str, module: nn.Module) -> None:
        """Initialise one new module as the model itself would; most of timm's models treat every Linear alike."""
        cast(Any, model)._init_weights(module)

    def adapted(self, model: nn.Module, saved: Architecture, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a saved model, made to fit one for other images, where timm does so for its own models."""
        with built_on("meta"):
            before = self.construct(saved)
        return adapting.adapted(model, before, tensors, self.patches)

    def timm_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in options.items() if key not in self.own_options}

    # Family

    def names(self) -> Sequence[str]:
        listed = [name for module in self.modules for name in timm.list_models(module=module)]
        return [name for name in listed if not any(fnmatch(name, pattern) for pattern in self.not_resizable)]

    def known(self, name: str) -> bool:
        return any(name in timm.list_models(module=module) for module in self.modules)

    def read(self, name: str, **options: Any) -> Architecture:
        self.refuse(options)
        made = upstream(name, **self.timm_options(options))
        try:
            self.parts(made)
        except ValueError as error:
            raise ValueError(f"{name} is known to timm but cannot be redesigned: {error}") from error
        return self.describe(made).with_options(**options)

    def owns(self, model: nn.Module) -> bool:
        return isinstance(model, self.model_class)

    def record(self, model: nn.Module) -> tuple[str, dict[str, Any]]:
        architecture, settings = getattr(model, "architecture", None), getattr(model, "pretrained_cfg", None) or {}
        if isinstance(architecture, Architecture):
            name, options = architecture.name, dict(architecture.options)
        elif "architecture" in settings:
            name, options = settings["architecture"], {}
        else:
            raise ValueError(f"this {type(model).__name__} has no model name: make it with timm.create_model")
        for option, usual in (("num_classes", 1000), ("in_chans", 3)):  # a head may have been replaced since
            if (value := getattr(model, option, usual)) != options.get(option, settings.get(option, usual)):
                options[option] = value
        return name, options

    def assemble(self, architecture: Architecture) -> nn.Module:
        model = self.construct(architecture)
        layers = architecture.layers
        for part in self.parts(model):
            self.decouple(part.attention)
            stage = layers[min(part.layer, len(layers) - 1)]
            initialise = functools.partial(self._initialise, model, part.path)
            if part.follows_stage:
                self.set_heads(part.attention, stage.heads, stage.head_dim, initialise)
            elif part.kind == "class":
                heads = self.class_heads(architecture)
                self.set_heads(part.attention, heads, stage.width // heads, initialise)
            if part.mlp is not None and part.kind != "inner":
                set_mlp(part.mlp, stage.mlp_dim, initialise)
        cast(Any, model).architecture = architecture
        return model

    def _initialise(self, model: nn.Module, path: str, name: str, module: nn.Module) -> None:
        self.initialise(model, f"{path}.{name}", module)

    def construct(self, architecture: Architecture) -> nn.Module:
        """timm's own model with the right depth and width."""
        return create_upstream(
            architecture.name, **self.arguments(architecture), **self.timm_options(architecture.options)
        )

    def configure(self, model: nn.Module, attention: Attention, checkpointing: bool) -> AbstractContextManager[Any]:
        if attention == "explicit":
            for module in model.modules():
                if hasattr(module, "fused_attn"):
                    cast(Any, module).fused_attn = False
        cast(Any, model).set_grad_checkpointing(checkpointing)
        return contextlib.nullcontext()

    def class_heads(self, architecture: Architecture) -> int:
        """Heads of the class attention: they split the width and do not follow the stages."""
        default = next(part for part in upstream_parts(self, architecture.name) if part.kind == "class")
        heads = int(architecture.options.get("class_heads", cast(Any, default.attention).num_heads))
        if heads < 1:
            raise ValueError(f"class_heads must be at least 1, got {heads}")
        return heads

    def shape(self, part: AttentionPart) -> Stage:
        attention, heads = part.attention, cast(int, part.attention.num_heads)
        projection = cast(nn.Linear, attention.proj)
        mlp_dim = cast(Mlp, part.mlp).fc1.out_features if part.mlp is not None else 1
        return Stage(
            width=projection.out_features,
            depth=1,
            heads=heads,
            head_dim=projection.in_features // heads,
            mlp_dim=mlp_dim,
        )

    def projection(self, part: AttentionPart) -> str:
        return f"{part.path}.proj"

    def example_inputs(self, architecture: Architecture, batch: int = 2, tokens: int | None = None) -> Inputs:
        if tokens is not None:
            raise ValueError(f"tokens={tokens}: {architecture.name} takes images, whose size is the option img_size")
        return {"x": torch.randn(batch, *self.image_size(architecture))}

    def image_size(self, architecture: Architecture) -> tuple[int, int, int]:
        size = architecture.options.get("img_size")
        if size is None:
            size = cast(Any, timm.get_pretrained_cfg_value(architecture.name, "input_size"))[-1]
        sides = size if isinstance(size, list) else [size, size]
        if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
            raise ValueError(f"img_size must be a whole number of at least 1, or two of them, got {size!r}")
        return architecture.options.get("in_chans", 3), sides[0], sides[1]


# timm's models, as timm makes them


def upstream_has(name: str) -> bool:
    """Whether timm itself has a model of that name."""
    return timm.is_model(name) and not name.startswith(("lean_", "leanformer_"))


def create_upstream(name: str, **arguments: Any) -> nn.Module:
    try:
        return timm.create_model(name, **arguments)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise ValueError(f"timm's {name} does not take that option: {str(error).rpartition(') ')[2]}") from error


def upstream(name: str, **options: Any) -> nn.Module:
    """timm's model of that name on the meta device: shapes without weights."""
    with built_on("meta"):
        return create_upstream(name, **options)


@functools.lru_cache(maxsize=64)
def upstream_parts(family: TimmFamily, name: str) -> list[AttentionPart]:
    return family.parts(upstream(name))


# Resizing in place


def set_heads(attention: nn.Module, heads: int, head_dim: int, initialise: Initialise) -> None:
    """Give an attention module this many heads of this size."""
    inner_width = heads * head_dim
    for name, copies in PROJECTIONS.items():
        if hasattr(attention, name):
            set_linear(attention, name, initialise, out_features=copies * inner_width)
    set_linear(attention, "proj", initialise, in_features=inner_width)
    for name in ("q_norm", "k_norm"):
        norm = getattr(attention, name, None)
        if isinstance(norm, nn.LayerNorm) and norm.normalized_shape != (head_dim,):
            setattr(attention, name, type(norm)(head_dim, eps=norm.eps, **placement(norm.weight)))
    plain = cast(Any, attention)
    plain.num_heads, plain.head_dim, plain.attn_dim, plain.scale = heads, head_dim, inner_width, head_dim**-0.5


def set_mlp(mlp: nn.Module, mlp_dim: int, initialise: Initialise) -> None:
    if not isinstance(getattr(mlp, "norm", nn.Identity()), nn.Identity):
        raise ValueError("mlp_dim: an MLP with a norm inside cannot be resized")
    set_linear(mlp, "fc1", lambda name, module: initialise(f"mlp.{name}", module), out_features=mlp_dim)
    set_linear(mlp, "fc2", lambda name, module: initialise(f"mlp.{name}", module), in_features=mlp_dim)


def set_linear(
    parent: nn.Module,
    name: str,
    initialise: Initialise,
    in_features: int | None = None,
    out_features: int | None = None,
) -> None:
    """Replace a Linear of another shape by a new one, which `initialise` fills; leave one that fits."""
    old = cast(nn.Linear, getattr(parent, name))
    shape = (in_features or old.in_features, out_features or old.out_features)
    if shape == (old.in_features, old.out_features):
        return
    new = nn.Linear(*shape, bias=old.bias is not None, **placement(old.weight))
    initialise(name, new)
    setattr(parent, name, new)


def placement(tensor: Tensor) -> dict[str, Any]:
    return {"device": tensor.device, "dtype": tensor.dtype}


# Numbers for timm's constructors


def construction_heads(stage: Stage) -> int:
    """Heads that timm's constructor accepts; the real ones are set afterwards."""
    return stage.heads if stage.width % stage.heads == 0 else 1


def mlp_ratio(stage: Stage) -> float:
    """A ratio that `int(width * ratio)` turns back into exactly mlp_dim."""
    ratio = stage.mlp_dim / stage.width
    while int(stage.width * ratio) < stage.mlp_dim:
        ratio = math.nextafter(ratio, math.inf)
    return ratio
