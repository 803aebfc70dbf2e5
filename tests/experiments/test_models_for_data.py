"""Which models learn which data: all image models learn images, others are refused with the kind that is needed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leanformer as lf
from support.texts import reviews, write_table

QUICK: dict[str, Any] = dict(arms="lean", seeds=1, steps=2, jobs=1, batch=8, report=False, progress=False)
SMALL = "depth=2,heads=2,head_dim=8,width=16,mlp_dim=32"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(20):
        (folder / "ab"[number % 2]).mkdir(exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(
            folder / "ab"[number % 2] / f"{number}.png"
        )
    return folder


@pytest.mark.parametrize("model", ["vit-base-patch16-224", "dinov2-small"])
def test_image_models_of_transformers_learn_images(model: str, photos: Path, tmp_path: Path) -> None:
    patch = {"hf-vit": 16, "dinov2": 14}[lf.architecture_of(model).family]
    sizes = {"original": SMALL, "lean": "depth=1", "settings": [f"task.img_size={2 * patch}", "training.probe=2"]}
    record = lf.compare("images", data=photos, model=model, **sizes, **QUICK, out=tmp_path)
    assert record.arms["lean"].score is not None
    assert record.arms["lean"].kappa is not None
    again = lf.from_pretrained(tmp_path / "lean" / "seed-0")
    assert [again.config.id2label[number] for number in range(2)] == ["a", "b"]


@pytest.mark.parametrize("model", ["vit_tiny_patch16_224", "vit-base-patch16-224"])
def test_a_patch_that_does_not_divide_the_images_is_said(model: str, photos: Path, tmp_path: Path) -> None:
    for side, expected in ((32, 0), (20, 1)):
        said: list[str] = []
        settings = [f"task.img_size={side}"]
        choices = dict(original=SMALL, lean="depth=1", settings=settings, say=said.append, out=tmp_path / str(side))
        lf.compare("images", data=photos, model=model, dry_run=True, **QUICK | {"report": True}, **choices)
        message = (
            f"note: patches of 16 do not divide images of 20 × 20: the last 4 rows and 4 columns are not seen ({model})"
        )
        assert said.count(message) == expected, said


def test_a_model_of_another_kind_is_refused(photos: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv", ("text", "label"), list(reviews(400)))
    for recipe, data, model, message in (
        ("images", photos, "gpt2", "gpt2 does not take images, which images needs: name an image model, such as "),
        ("images", photos, "farthest-point", "farthest-point does not take images"),
        (
            "texts",
            table,
            "vit_tiny_patch16_224",
            "vit_tiny_patch16_224 takes images, and texts needs a language model, such as ",
        ),
        ("classify", table, "dinov2-small", "dinov2-small takes images, and classify needs a language model"),
    ):
        for given in (model, lf.architecture_of(model)):
            with pytest.raises(ValueError, match=message) as refused:
                lf.compare(recipe, data=data, model=given, **QUICK, out=tmp_path / "out")
            assert "\n" not in str(refused.value)
