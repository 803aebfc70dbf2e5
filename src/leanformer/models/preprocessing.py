"""How a model's inputs are prepared and what its classes are called, in the words of timm and of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import nn

from leanformer.architecture import Architecture
from leanformer.models import families

CLASSES = "label_names"
"""timm's word for the names of the classes; in a config of transformers they are `id2label`."""
PREPROCESSING = ("input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode", CLASSES)
"""What timm's `pretrained_cfg` says about the images that a model expects, and about its answers."""


def checked(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a user states of a model's inputs and classes, if it can be true of the model."""
    if unknown := given.keys() - set(PREPROCESSING):
        raise ValueError(f"preprocessing has no {', '.join(sorted(unknown))}; it has {', '.join(PREPROCESSING)}")
    stated = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    classes = getattr(model, "num_classes", None) or getattr(getattr(model, "config", None), "num_labels", None)
    if (names := stated.get(CLASSES)) is not None and classes and len(names) != classes:
        raise ValueError(f"preprocessing: {CLASSES} has {len(names)} names, the model has {classes} classes")
    return stated


def for_timm(model: nn.Module, architecture: Architecture, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and else what the model says; the size of its images is known in any case."""
    stated = {key: (getattr(model, "pretrained_cfg", None) or {}).get(key) for key in PREPROCESSING}
    if (size := families.family(architecture.family).image_size(architecture)) is not None:
        stated["input_size"] = size
    stated = {key: list(value) if isinstance(value, tuple) else value for key, value in {**stated, **given}.items()}
    for key in ("mean", "std"):
        numbers, size = stated[key], stated["input_size"]
        if numbers and size and len(numbers) != size[0]:
            if key in given:
                raise ValueError(f"preprocessing: {key} needs one number per channel ({size[0]}), got {numbers}")
            stated[key] = None  # upstream's, of images in colour
    return {key: value for key, value in stated.items() if value is not None}


def for_images(stated: Mapping[str, Any], architecture: Architecture) -> dict[str, Any]:
    """What a folder states, for a model that was made of it with another size of images or number of channels."""
    size = families.family(architecture.family).image_size(architecture)
    if size is None or not stated.get("input_size"):
        return dict(stated)
    changed = {**stated, "input_size": list(size)}
    for key in ("mean", "std"):
        if (numbers := stated.get(key)) and len(numbers) != size[0]:
            changed[key] = [sum(numbers) / len(numbers)] * size[0]
    return changed


def class_fields(names: Sequence[str]) -> dict[str, Any]:
    """Names of classes as fields of a transformers config."""
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def stated_by(model: nn.Module) -> dict[str, Any]:
    """What a model itself says about its inputs and classes."""
    config = getattr(model, "config", None)
    if config is None:
        try:
            return for_timm(model, families.describe(model), {})
        except ValueError:  # of no family
            return {}
    named = getattr(config, "id2label", None) or {}
    names = [named[index] for index in sorted(named)]
    usual = [f"LABEL_{index}" for index in range(len(names))]
    return {CLASSES: names} if names and names != usual else {}


def set_preprocessing(model: nn.Module, stated: Mapping[str, Any]) -> None:
    """Let a model say what a saved folder says about its images, where timm looks for it."""
    found = {key: stated[key] for key in PREPROCESSING if stated.get(key) is not None}
    if found:
        usual = getattr(model, "pretrained_cfg", None) or {}
        for_tests = dict.fromkeys(("test_input_size", "test_crop_pct"))  # another size, which is upstream's
        cast(Any, model).pretrained_cfg = cast(Any, model).default_cfg = {**usual, **for_tests, **found}
