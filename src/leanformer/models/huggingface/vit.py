"""Hugging Face's ViT with heads of any number and size, layer by layer. timm's is the family `vit`."""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModel,
    AutoModelForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
    ViTPreTrainedModel,
)

from leanformer.architecture import Stage
from leanformer.models.huggingface.base import take_architecture
from leanformer.models.huggingface.images import CLASSES, HuggingFaceImageFamily, ResizedImageModel


class LeanViTConfig(ViTConfig):
    model_type = "lean_vit"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default ViT-B's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        take_architecture(self, "hf-vit", "vit-base-patch16-224")
        super().__post_init__(**kwargs)


class _Lean(ResizedImageModel):
    config_class = LeanViTConfig
    layers_path = "layers"


class LeanViTModel(_Lean, ViTModel): ...


class LeanViTForImageClassification(_Lean, ViTForImageClassification): ...


BASE = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)
LARGE = Stage(width=1024, depth=24, heads=16, head_dim=64, mlp_dim=4096)


class HuggingFaceViT(HuggingFaceImageFamily):
    key = "hf-vit"
    config_class = LeanViTConfig
    model_class = LeanViTForImageClassification
    base_class = ViTPreTrainedModel
    auto_classes = {AutoModel: LeanViTModel, AutoModelForImageClassification: LeanViTForImageClassification}
    layers_path = "layers"
    renamings = (
        *HuggingFaceImageFamily.renamings,
        (r"(^|\.)encoder\.layer\.(\d+)\.", r"\1layers.\2."),
        (r"(\.\d+)\.intermediate\.dense\.", r"\1.mlp.fc1."),
        (r"(\.\d+)\.output\.dense\.", r"\1.mlp.fc2."),
    )
    catalogue = {
        "vit-base-patch16-224": ((BASE,), CLASSES),
        "vit-base-patch32-384": ((BASE,), {**CLASSES, "image_size": 384, "patch_size": 32}),
        "vit-large-patch16-224": ((LARGE,), CLASSES),
        "vit-large-patch32-384": ((LARGE,), {**CLASSES, "image_size": 384, "patch_size": 32}),
    }
