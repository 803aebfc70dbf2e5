"""Hugging Face's DINOv2 with heads of any number and size, layer by layer.

The head takes the class token and the mean of the patches. The giant model has gated MLPs and cannot be resized.
"""

from __future__ import annotations

from typing import Any, cast

from transformers import (
    AutoModel,
    AutoModelForImageClassification,
    Dinov2Config,
    Dinov2ForImageClassification,
    Dinov2Model,
    Dinov2PreTrainedModel,
)

from leanformer.architecture import Stage
from leanformer.models.huggingface.base import FIELDS, take_architecture
from leanformer.models.huggingface.images import CLASSES, HuggingFaceImageFamily, ResizedImageModel


class LeanDinov2Config(Dinov2Config):
    model_type = "lean_dinov2"

    architecture: dict[str, Any] | None = None
    """Plain form of an `Architecture`; by default DINOv2's own shape, from the other fields."""

    def __post_init__(self, **kwargs: Any) -> None:
        mine = cast(Any, self)
        fields = {word: field for word, field in FIELDS.items() if word != "mlp_dim"}
        take_architecture(self, "dinov2", "dinov2-base", fields, mlp_dim=mine.hidden_size * mine.mlp_ratio)
        super().__post_init__(**kwargs)


class _Lean(ResizedImageModel):
    config_class = LeanDinov2Config
    layers_path = "encoder.layer"


class LeanDinov2Model(_Lean, Dinov2Model): ...


class LeanDinov2ForImageClassification(_Lean, Dinov2ForImageClassification): ...


def _dinov2(depth: int, heads: int) -> tuple[tuple[Stage, ...], dict[str, Any]]:
    stage = Stage(width=64 * heads, depth=depth, heads=heads, head_dim=64, mlp_dim=256 * heads)
    return (stage,), {**CLASSES, "image_size": 518}


class Dinov2(HuggingFaceImageFamily):
    key = "dinov2"
    config_class = LeanDinov2Config
    model_class = LeanDinov2ForImageClassification
    base_class = Dinov2PreTrainedModel
    auto_classes = {AutoModel: LeanDinov2Model, AutoModelForImageClassification: LeanDinov2ForImageClassification}
    layers_path = "encoder.layer"
    catalogue = {
        "dinov2-base": _dinov2(12, 12),
        "dinov2-small": _dinov2(12, 6),
        "dinov2-large": _dinov2(24, 16),
    }
    reserved = {**HuggingFaceImageFamily.reserved, "use_swiglu_ffn": ""}
