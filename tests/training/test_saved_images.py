"""A model trained on image files says how its images are prepared: timm alone gets the score of the record."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from timm.data import ImageDataset, create_transform, resolve_model_data_config

from leanformer.models import names as zoo
from leanformer.tasks.image_classes import ImageClasses
from leanformer.training.loop import train
from leanformer.training.run import Run, write_run
from support import tiny_run


def write_images(folder: Path, mode: str, size: tuple[int, int]) -> None:
    """Bright and dark halves with noise: learnt in a few steps, but not completely."""
    draw = np.random.default_rng(0)
    height, width = size
    for split, count in (("train", 40), ("val", 30)):
        for label, name in enumerate(("left", "right")):
            for index in range(count):
                shape = (height, width) if mode == "L" else (height, width, 3)
                image = draw.normal(90, 60, shape)
                half = slice(0, width // 2) if label == 0 else slice(width // 2, width)
                image[:, half] += 22
                path = folder / split / name / f"{index:03}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.clip(0, 255).astype(np.uint8), mode).save(path)


@pytest.mark.parametrize(
    ("mode", "size", "settings"),
    [
        ("RGB", (24, 24), {"img_size": 16}),
        ("L", (16, 16), {}),
        ("RGB", (16, 24), {}),
        ("RGB", (20, 20), {"img_size": 16, "auto_augment": "rand-m9-mstd0.5", "workers": 0}),
    ],
)
def test_timm_alone_gets_the_score_of_the_record(
    mode: str, size: tuple[int, int], settings: dict, tmp_path: Path
) -> None:
    write_images(tmp_path / "images", mode, size)
    task = ImageClasses(dataset=str(tmp_path / "images"), **settings)
    options = {**task.load().options, "patch_size": 4, "class_token": False, "global_pool": "avg"}
    sizes = dict(width=16, head_dim=8, depth=2, heads=2, mlp_dim=32)
    architecture = zoo.architecture_of("vit_tiny_patch16_224", **sizes, **options)
    chosen = tiny_run.training(steps=20, evaluations=1, probe=0, save_every=None)
    write_run(Run(name="lean", architecture=architecture, task=task, training=chosen, seed=0), tmp_path / "run")
    result = train(tmp_path / "run")

    model = timm.create_model(f"local-dir:{tmp_path / 'run' / 'model'}", pretrained=True).eval()
    config = resolve_model_data_config(model)
    held_out = ImageDataset(str(tmp_path / "images" / "val"), transform=create_transform(**config), input_img_mode=mode)
    images, labels = zip(*held_out, strict=True)
    with torch.no_grad():
        logits, wanted = model(torch.stack(images)), torch.tensor(labels)
    accuracy = 100 * (logits.argmax(dim=1) == wanted).double().mean().item()
    assert accuracy == pytest.approx(result.final["accuracy"], rel=1e-9)
    assert F.cross_entropy(logits, wanted).item() == pytest.approx(result.final["loss"], rel=1e-5)
    assert model.pretrained_cfg["label_names"] == ["left", "right"]
