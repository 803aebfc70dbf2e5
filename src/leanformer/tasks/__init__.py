"""One file per task: data, loss and metric. `read` turns plain settings back into a task."""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from leanformer.tasks.base import Task

ROOMS = {
    "farthest": ("farthest_point", "Farthest"),
    "glue": ("sentence_classes", "Glue"),
    "images": ("image_classes", "Images"),
    "listops": ("listops", "ListOps"),
    "masked": ("masked_token", "Masked"),
    "pathfinder": ("pathfinder", "Pathfinder"),
    "pixels": ("pixel_classes", "Pixels"),
    "retrieval": ("pair_classes", "Retrieval"),
    "stories": ("next_token", "Stories"),
    "text": ("byte_classes", "Text"),
}
"""File and class of every kind of task."""


def read(plain: Mapping[str, Any]) -> Task:
    """The task of `Task.to_dict`."""
    kind = plain.get("kind")
    if kind not in ROOMS:
        raise ValueError(f"there is no task of kind {kind!r}; there are {', '.join(ROOMS)}")
    task: type[Task] = getattr(import_module(f"{__name__}.{ROOMS[kind][0]}"), ROOMS[kind][1])
    settings = {key: value for key, value in plain.items() if key != "kind"}
    if unknown := settings.keys() - {item.name for item in fields(task)}:
        known = ", ".join(item.name for item in fields(task))
        raise ValueError(f"the task {kind} has no setting {', '.join(sorted(unknown))}; it has {known}")
    return task(**settings)
