"""A run small enough to be trained many times in a test: two layers on digits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture
from leanformer.experiments.recipe import Recipe
from leanformer.models import names as zoo
from leanformer.tasks import load
from leanformer.tasks.base import Data
from leanformer.tasks.image_classes import ImageClasses
from leanformer.training.run import Run, write_run
from leanformer.training.settings import Training

TASK = ImageClasses(dataset="digits", shift=1)


def architecture(**options: Any) -> Architecture:
    sizes = dict(width=16, head_dim=8, depth=2, heads=2, mlp_dim=32)
    shape = dict(patch_size=4, img_size=8, in_chans=1, num_classes=10, class_token=False, global_pool="avg")
    return zoo.architecture_of("vit_tiny_patch16_224", **sizes, **shape, **options)


def training(**settings: Any) -> Training:
    return Training(**{**dict(steps=40, batch=16, lr=4e-3, evaluations=4, probe=2, save_every=3), **settings})


def run(task: ImageClasses = TASK, seed: int = 0, options: dict[str, Any] | None = None, **settings: Any) -> Run:
    return Run(
        name="lean", architecture=architecture(**options or {}), task=task, training=training(**settings), seed=seed
    )


def described(folder: Path, **choices: Any) -> Path:
    """A folder that describes such a run."""
    write_run(run(**choices), folder)
    return folder


def digits(**changes: Any) -> Data:
    return load(replace(TASK, **changes))


def recipe(**changes: Any) -> Recipe:
    """A comparison of such runs."""
    original = architecture().resized(depth=2)
    base = Recipe(
        name="small",
        task=TASK,
        original=original,
        lean=original.resized(depth=1, heads=4, mlp_dim=16),
        training=training(steps=6, evaluations=2, save_every=None),
        margin=5.0,
    )
    return replace(base, **changes)
