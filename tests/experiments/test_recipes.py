"""Every shipped recipe builds, says what to expect, and the paper's are as its Table 6 prints."""

import inspect

import pytest
import torch

from leanformer.experiments import recipes
from leanformer.experiments.recipe import ARMS
from leanformer.models import registry as families
from leanformer.tasks.image_classes import ImageClasses


@pytest.mark.parametrize("name", recipes.names())
def test_every_arm_of_every_recipe_builds(name: str) -> None:
    recipe = recipes.recipe(name)
    assert recipe.name == name
    for arm in ARMS:
        design = recipe.architecture(arm)
        assert families.describe(families.build(design, "meta")) == design
    assert recipe.architecture("shallow").depth == recipe.lean.depth
    if not name.startswith("farthest"):  # where heads alone are the question
        assert recipe.lean.depth < recipe.original.depth
    text = inspect.getdoc(recipes.function(name)) or ""
    assert f"leanformer compare {name}" in text or f"leanformer sweep {name}" in text or name == "digits"


@pytest.mark.parametrize("name", [name for name in recipes.names() if name.startswith("imagenet")])
def test_imagenet_is_trained_as_table_6_prints(name: str) -> None:
    recipe = recipes.recipe(name)
    training, task = recipe.training, recipe.task
    assert isinstance(task, ImageClasses)
    batch = 512 if "large" in name or "d4" in name else 1024
    epoch = 1_281_167 / batch
    assert training.batch == batch
    assert training.steps == pytest.approx(300 * epoch, abs=1)
    assert training.warmup_steps == pytest.approx(20 * epoch, abs=1)
    assert (training.lr, training.warmup_lr, training.weight_decay) == (3e-3, 1e-5, 0.3)
    assert (task.mixup, task.cutmix, task.label_smoothing, task.auto_augment) == (0.8, 1.0, 0.1, "rand-m9-mstd0.5")
    assert recipe.original.options["drop_path_rate"] == recipe.lean.options["drop_path_rate"] == 0.1


def test_the_paper_has_eleven_image_models() -> None:
    assert len([name for name in recipes.names() if name.startswith("imagenet")]) == 11


def test_fashion_mnist_has_the_counts_of_the_first_looks() -> None:
    recipe = recipes.recipe("fashion-mnist")
    counts = {
        arm: sum(p.numel() for p in families.build(recipe.architecture(arm), "meta").parameters())
        for arm in ("original", "lean", "shallow")
    }
    assert counts == {"original": 404_874, "lean": 205_194, "shallow": 204_938}


def test_drop_path_drops() -> None:
    model = families.build(recipes.recipe("imagenet-vit-base").lean.resized(depth=2).with_options(img_size=32))
    rates = [module.drop_prob for module in model.modules() if type(module).__name__ == "DropPath"]
    assert rates == pytest.approx([0.1, 0.1])  # the first layer's is 0 and left out
    assert torch.isfinite(model(torch.randn(2, 3, 32, 32))).all()
