"""Image recipes that fit a laptop, and one for your own images."""

from __future__ import annotations

from leanformer import models, tasks
from leanformer.architecture import Architecture
from leanformer.experiments.grid import Grid
from leanformer.experiments.recipe import Recipe
from leanformer.training.settings import Training


def small_vit(**sizes: int) -> Architecture:
    """A ViT for ten classes of small images, which pools by the mean: its tokens are its patches."""
    return models.architecture_of(
        "vit_tiny_patch16_224",
        num_classes=10,
        class_token=False,
        global_pool="avg",
        **sizes,  # type: ignore[arg-type]
    )


def digits() -> Recipe:
    """Handwritten digits, 8 × 8, embedded: the default. Half of the 1,797 digits are held out, for exact scores.

    Command: leanformer compare
    Time: 2 to 4 minutes on 2 cores, 3 arms, until the verdict is decided (usually at 4 or 6 seeds).
    Score: between 85 and 90 % for all arms; see results/compare-digits-decided.
    """
    task = tasks.ImageClasses(dataset="digits", held_out=0.5)
    original = small_vit(width=32, head_dim=8, depth=6, heads=4, mlp_dim=128, patch_size=2, img_size=8, in_chans=1)
    return Recipe(
        name="digits",
        task=task,
        original=original,
        lean=original.resized(depth=3, heads=8, mlp_dim=64),
        training=Training(steps=400, batch=64, lr=4e-3),
        margin=2.0,
        max_seeds=12,
    )


def fashion_mnist() -> Recipe:
    """Fashion-MNIST, 60,000 images of 28 × 28 in patches of 7.

    Command: leanformer compare fashion-mnist; leanformer sweep fashion-mnist for heads at equal parameters
    Time: 45 minutes of one busy core, 4 arms × 5 seeds of 1,874 steps (two epochs); about half of that on two.
    Score: 85.87 % for the original, 86.36 % for lean, 86.12 % for shallow; see results/compare-fashion-mnist-1874.
    """
    original = small_vit(width=64, head_dim=16, depth=8, heads=4, mlp_dim=256, patch_size=7, img_size=28, in_chans=1)
    return Recipe(
        name="fashion-mnist",
        task=tasks.ImageClasses(dataset="fashion-mnist"),
        original=original,
        lean=original.resized(depth=4, heads=8, mlp_dim=128),
        training=Training(steps=1874, batch=64, lr=2e-3, evaluations=4),
        margin=0.5,
        arms=("original", "lean", "shallow", "wide"),
        seeds=5,
        grid=Grid(
            axes={"heads": (1, 2, 4, 8, 16), "regime": ("fixed", "split"), "depth": (4,)},
            equal_params=True,
        ),
    )


def cifar10() -> Recipe:
    """CIFAR-10 in patches of 4, shifted and flipped.

    Command: leanformer compare cifar10
    Time: about 2 hours on 2 cores, 4 arms × 3 seeds of 4,000 steps; minutes on a GPU.
    """
    original = small_vit(width=128, head_dim=32, depth=8, heads=4, mlp_dim=512, patch_size=4, img_size=32, in_chans=3)
    return Recipe(
        name="cifar10",
        task=tasks.ImageClasses(dataset="cifar10", shift=4, flip=True),
        original=original,
        lean=original.resized(depth=4, heads=8, mlp_dim=256),
        training=Training(steps=4000, batch=128, lr=1e-3),
        margin=1.0,
        arms=("original", "lean", "shallow", "wide"),
    )


def cifar10_small() -> Recipe:
    """CIFAR-10 in patches of 8, with the model of `fashion-mnist`: for grids of many designs on a laptop.

    Command: leanformer compare cifar10-small; leanformer paper figure 3 --recipe cifar10-small --steps 624
    Time: about an hour of one core, 4 arms × 5 seeds of 1,874 steps.
    """
    original = small_vit(width=64, head_dim=16, depth=8, heads=4, mlp_dim=256, patch_size=8, img_size=32, in_chans=3)
    return Recipe(
        name="cifar10-small",
        task=tasks.ImageClasses(dataset="cifar10", flip=True),
        original=original,
        lean=original.resized(depth=4, heads=8, mlp_dim=128),
        training=Training(steps=1874, batch=64, lr=2e-3, evaluations=4),
        margin=1.0,
        arms=("original", "lean", "shallow", "wide"),
        seeds=5,
    )


def images() -> Recipe:
    """Your own images: DIR/CLASS/*.png, or DIR/train/CLASS/*.png with DIR/val/CLASS/*.png, or parquet files.

    Command: leanformer compare images --data DIR --model vit_small_patch16_224
    With --model, the lean design is what `leanformer design` recommends, or what --lean says; without, a small ViT of
    12 layers is compared with one of 6.
    """
    original = models.architecture_of("vit_tiny_patch16_224")
    return Recipe(
        name="images",
        task=tasks.ImageClasses(dataset="", img_size=224, flip=True),
        original=original,
        lean=original.resized(depth=6, heads=6, mlp_dim=384),
        training=Training(steps=2000, batch=64, lr=5e-4),
        margin=1.0,
    )
