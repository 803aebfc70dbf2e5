"""What is learned: one file per task, named after what is predicted, with its data, loss and metric.

To add a task, write a subclass of `Task`. Name it by a reference (`package.module:Name` or `file.py:Name`), register it
with `TASKS.register("name")`, or list it under the entry-point group `leanformer.tasks` of your package.
"""

from typing import TYPE_CHECKING, Any

from leanformer.foundation.registry import Registry, lazily

if TYPE_CHECKING:
    from leanformer.tasks.base import Data as Data
    from leanformer.tasks.base import Metric as Metric
    from leanformer.tasks.base import Task as Task
    from leanformer.tasks.base import load as load
    from leanformer.tasks.base import read as read
    from leanformer.tasks.byte_classes import ByteClasses as ByteClasses
    from leanformer.tasks.farthest_point import FarthestPoint as FarthestPoint
    from leanformer.tasks.image_classes import ImageClasses as ImageClasses
    from leanformer.tasks.listops import ListOps as ListOps
    from leanformer.tasks.masked_token import MaskedToken as MaskedToken
    from leanformer.tasks.next_token import NextToken as NextToken
    from leanformer.tasks.own import as_task as as_task
    from leanformer.tasks.own import task as task
    from leanformer.tasks.pair_classes import PairClasses as PairClasses
    from leanformer.tasks.pathfinder import Pathfinder as Pathfinder
    from leanformer.tasks.pixel_classes import PixelClasses as PixelClasses
    from leanformer.tasks.sentence_classes import SentenceClasses as SentenceClasses
    from leanformer.tasks.text_classes import TextClasses as TextClasses
    from leanformer.tasks.tuning_part import TuningPart as TuningPart

_HOMES = {
    "ByteClasses": "byte_classes",
    "FarthestPoint": "farthest_point",
    "ImageClasses": "image_classes",
    "ListOps": "listops",
    "MaskedToken": "masked_token",
    "NextToken": "next_token",
    "PairClasses": "pair_classes",
    "Pathfinder": "pathfinder",
    "PixelClasses": "pixel_classes",
    "SentenceClasses": "sentence_classes",
    "TextClasses": "text_classes",
    "TuningPart": "tuning_part",
}

TASKS: "Registry[type[Task]]" = Registry(
    "task",
    group="leanformer.tasks",
    own={home.replace("_", "-"): f"leanformer.tasks.{home}:{name}" for name, home in _HOMES.items()},
    renamed={
        "farthest": "farthest-point",
        "glue": "sentence-classes",
        "images": "image-classes",
        "masked": "masked-token",
        "pixels": "pixel-classes",
        "retrieval": "pair-classes",
        "stories": "next-token",
        "text": "byte-classes",
    },
)
"""Every kind of task by name; `renamed` are the names that version 0.1 wrote."""

_PARTS = {**dict.fromkeys(("Data", "Metric", "Task", "load", "read"), "base"), "as_task": "own", "task": "own"}
_find, _ = lazily(__name__, {**_HOMES, **_PARTS})
__all__ = ["TASKS", *_PARTS, *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    return _find(name)


def __dir__() -> list[str]:
    return sorted(__all__)
