"""Models by name: upstream's, redesigned at will, and the paper's lean ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from leanformer.architecture import Architecture, Keep, Numbers, Regime
from leanformer.foundation.yaml_files import is_yaml
from leanformer.models import families
from leanformer.models.design_files import read_design
from leanformer.models.published import LEAN_MODELS
from leanformer.models.weights import is_saved, read_folder


def architecture_of(
    name: str,
    *,
    depth: Numbers | None = None,
    heads: Numbers | None = None,
    head_dim: Numbers | None = None,
    mlp_dim: Numbers | None = None,
    width: Numbers | None = None,
    keep: Keep | Regime = "head_dim",
    **options: Any,
) -> Architecture:
    """The architecture that `create` builds from the same arguments; `name` may also be a saved model's folder.

    A folder with a config.json alone is enough, and so is a .gguf file.
    """
    if name in LEAN_MODELS:
        row = LEAN_MODELS[name]
        architecture = row.design(families.read(row.base, **options))
    elif is_yaml(name) or is_saved(name):
        architecture = read_design(name) if is_yaml(name) else read_folder(Path(name))
        families.family(architecture.family).refuse(options)
        architecture = architecture.with_options(**options)
    else:
        architecture = families.read(name, **options)
    architecture = architecture.resized(
        depth=depth, heads=heads, head_dim=head_dim, mlp_dim=mlp_dim, width=width, keep=keep
    )
    return families.family(architecture.family).canonical(architecture)


def create(
    name: str,
    *,
    depth: Numbers | None = None,
    heads: Numbers | None = None,
    head_dim: Numbers | None = None,
    mlp_dim: Numbers | None = None,
    width: Numbers | None = None,
    keep: Keep | Regime = "head_dim",
    device: torch.device | str | None = None,
    **options: Any,
) -> nn.Module:
    """Build a model by name, with another depth, other heads, another MLP. Its weights are fresh.

    Args:
        name: a timm or Hugging Face model, `crammed-bert`, `tinystories-gpt2`, `nystromformer-…`, or one of the paper's
            `lean_…` models. `leanformer models` lists the names. Also a YAML file with a design, as `leanformer design`
            emits it. A saved model is read by `from_pretrained`.
        depth, heads, head_dim, mlp_dim, width, keep: other sizes, as `Architecture.resized` takes them.
        device: where to build; "meta" gives shapes without weights.
        options: the family's own, such as num_classes and img_size for images, or vocab_size for text.

    The paper's lean ViT-B, with 40.1 M parameters instead of 86.6 M:

    >>> model = create("vit_base_patch16_224", depth=7, heads=16, mlp_dim=1536)
    """
    if name not in LEAN_MODELS and is_saved(name):
        raise ValueError(
            f"{name} is a saved model, and lf.create gives fresh weights: lf.from_pretrained({name!r}) reads it, "
            f"lf.build(lf.architecture_of({name!r})) makes a fresh one of its architecture"
        )
    architecture = architecture_of(
        name, depth=depth, heads=heads, head_dim=head_dim, mlp_dim=mlp_dim, width=width, keep=keep, **options
    )
    return families.build(architecture, device)
