"""Models by name: upstream's, redesigned at will, and the paper's lean ones.

May import architecture, families and the paper's ledger.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leanformer.architecture import REGIMES, Architecture, Keep
from leanformer.models import registry as families
from leanformer.models.published import LEAN_MODELS
from leanformer.models.timm.base import register_entry_point
from leanformer.models.weights import TIMM_NAME, load_weights, read_folder

Numbers = int | Sequence[int]


def architecture_of(
    name: str,
    *,
    depth: Numbers | None = None,
    heads: Numbers | None = None,
    head_dim: Numbers | None = None,
    mlp_dim: Numbers | None = None,
    width: Numbers | None = None,
    keep: Keep = "head_dim",
    **options: Any,
) -> Architecture:
    """The architecture that `create` with the same arguments builds."""
    if name in LEAN_MODELS:
        row = LEAN_MODELS[name]
        architecture = row.design(families.read(row.base, **options))
    elif Path(name).is_dir():
        architecture = read_folder(Path(name))
        families.family(architecture.family).refuse(options)
        architecture = architecture.with_options(**options)
    else:
        architecture = families.read(name, **options)
    if keep not in REGIMES:
        raise ValueError(f"keep must be 'head_dim' (regime fixed) or 'width' (regime split), got {keep!r}")
    if width is not None:
        architecture = architecture.with_width(width)
    if head_dim is not None and heads is not None and keep == "width":
        raise ValueError("head_dim and keep='width' contradict each other: splitting the width decides head_dim")
    if isinstance(heads, Sequence) and len(architecture.stages) == 1:
        if depth is not None and depth != len(heads):
            raise ValueError(f"heads is a schedule of {len(heads)} layers, but depth is {depth}")
        architecture, depth = architecture.with_head_schedule(heads, keep), None
    elif heads is not None:
        architecture = architecture.with_heads(heads, keep)
    if depth is not None:
        architecture = architecture.with_depth(depth)
    if head_dim is not None:
        architecture = architecture.with_head_dim(head_dim)
    if mlp_dim is not None:
        architecture = architecture.with_mlp(mlp_dim)
    return families.family(architecture.family).canonical(architecture)


def create(
    name: str,
    *,
    depth: Numbers | None = None,
    heads: Numbers | None = None,
    head_dim: Numbers | None = None,
    mlp_dim: Numbers | None = None,
    width: Numbers | None = None,
    keep: Keep = "head_dim",
    device: torch.device | str | None = None,
    **options: Any,
) -> nn.Module:
    """Build a model by name, with another depth, other heads, another MLP.

    Args:
        name: a timm or Hugging Face model, `crammed-bert`, `tinystories-gpt2`, `nystromformer-…`, one of the paper's
            `lean_…` models, or a folder that `save_pretrained` wrote. `leanformer models` lists the names.
        depth, heads, head_dim, mlp_dim, width: a number for all stages, or one per stage. For a model of one stage, a
            list of heads is a schedule with one entry per layer.
        keep: what stays when heads change: "head_dim" (attention grows) or "width" (the heads split it).
        device: where to build; "meta" gives shapes without weights.
        options: the family's own, such as num_classes and img_size for images, or vocab_size for text.

    The paper's lean ViT-B, 40.1 M parameters instead of 86.6 M:

    >>> model = create("vit_base_patch16_224", depth=7, heads=16, mlp_dim=1536)
    """
    architecture = architecture_of(
        name, depth=depth, heads=heads, head_dim=head_dim, mlp_dim=mlp_dim, width=width, keep=keep, **options
    )
    return families.build(architecture, device)


# Other libraries' registries


def register() -> None:
    """Put the lean image models into timm's registry and the language models into transformers' Auto classes."""
    families.register()
    for name, row in LEAN_MODELS.items():
        if row.vision:
            register_entry_point(name, _entry_point(name), module=__name__)
    register_entry_point(TIMM_NAME, _saved, module=__name__)


def _entry_point(name: str) -> Callable[..., nn.Module]:
    def entry_point(pretrained: bool = False, **options: Any) -> nn.Module:
        if pretrained:
            raise ValueError(f"there are no pretrained weights of {name}: train it, then use lf.load_weights")
        if options.pop("features_only", False):
            raise ValueError(f"{name} has no features_only form; forward_intermediates gives intermediate layers")
        return create(name, **_without_timm_settings(options))

    return entry_point


def _saved(pretrained: bool = False, description: dict[str, Any] | None = None, **options: Any) -> nn.Module:
    """A model from a folder that `save_pretrained` wrote."""
    if description is None:
        raise ValueError(f"{TIMM_NAME} reads a folder: timm.create_model('local-dir:FOLDER', pretrained=True)")
    model = families.build(Architecture.from_dict(description).with_options(**_without_timm_settings(options)))
    if pretrained:
        load_weights(model, options["pretrained_cfg"]["file"])
    return model


def _without_timm_settings(options: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in options.items()
        if key not in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir")
    }
