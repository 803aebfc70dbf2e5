"""Recipes by name: functions that return a whole comparison's configuration, each with its command, time and score."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from leanformer.experiments.recipe import Recipe

ROOMS = {
    "images": ("digits", "fashion_mnist", "cifar10", "images"),
    "language": ("pydoc", "tinystories", "tinystories_paper"),
    "bert": (
        *("crammed_bert", "crammed_bert_paper"),
        *("glue_mnli", "glue_sst2", "glue_stsb", "glue_rte", "glue_qnli", "glue_qqp", "glue_mrpc", "glue_cola"),
    ),
    "arena": (
        *("listops", "text", "retrieval", "image", "pathfinder"),
        *("listops_paper", "text_paper", "retrieval_paper", "image_paper", "pathfinder_paper"),
    ),
    "farthest": (
        *("farthest", "farthest_deep", "farthest_length", "farthest_dimension"),
        *("farthest_paper", "farthest_length_paper", "farthest_dimension_paper"),
    ),
    "imagenet": (
        "imagenet_vit_base",
        "imagenet_deit_base",
        "imagenet_xcit_medium",
        "imagenet_tnt_base",
        "imagenet_volo_d3",
        "imagenet_davit_base",
        "imagenet_vit_large",
        "imagenet_deit_large",
        "imagenet_xcit_large",
        "imagenet_volo_d4",
        "imagenet_davit_large",
    ),
}
"""Files here, and the recipes in each."""


def names() -> list[str]:
    return [name.replace("_", "-") for listed in ROOMS.values() for name in listed]


def function(name: str) -> Callable[[], Recipe]:
    for room, listed in ROOMS.items():
        if name.replace("-", "_") in listed:
            return getattr(import_module(f"{__name__}.{room}"), name.replace("-", "_"))
    raise ValueError(f'there is no recipe "{name}"; there are {", ".join(names())}')


def recipe(name: str) -> Recipe:
    return function(name)()
