"""Inputs to measure on: where they come from, and what is refused."""

from pathlib import Path

import pytest
from PIL import Image

import leanformer as lf
from leanformer.conditioning import inputs
from leanformer.conditioning.inputs import choose_inputs
from leanformer.models import families
from support.architectures import SMALL


def test_images_go_through_the_models_own_transform(tmp_path: Path) -> None:
    for index in range(3):
        Image.effect_noise((300, 200), 50 + index).convert("RGB").save(tmp_path / f"{index}.png")
    model = lf.create("vit_tiny_patch16_224", depth=1)
    chosen = inputs.from_images(model, tmp_path, count=2)
    assert chosen.batch.shape == (2, 3, 224, 224)
    assert chosen.source == f"2 images of {tmp_path}"


def test_text_is_cut_into_equal_passages(tmp_path: Path) -> None:
    model = families.build(SMALL["gpt2"].with_options(vocab_size=300))
    (tmp_path / "a.txt").write_text("Once upon a time there was a matrix. " * 20, encoding="utf-8")
    chosen = choose_inputs(model, "gpt2", text=tmp_path / "a.txt", batch=3, tokens=16)
    assert chosen.batch["input_ids"].shape == (3, 16)
    assert bytes(chosen.batch["input_ids"][0].tolist()).decode() == "Once upon a time"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: dict(images=path / "none"), "images: .*none is not a folder"),
        (lambda path: dict(images=path), "holds no image"),
        (
            lambda path: dict(text=path / "a.txt"),
            "vit takes images: give images or random, and neither text nor tokens",
        ),
        (lambda path: dict(tokens=3), "takes images"),
        (lambda path: dict(images=path, random=True), "images, text and random exclude each other"),
        (lambda path: dict(batch=0), "batch must be at least 1, got 0"),
    ],
)
def test_wrong_inputs_for_images(make, message: str, tmp_path: Path) -> None:
    model = families.build(SMALL["vit"])
    with pytest.raises(ValueError, match=message) as caught:
        choose_inputs(model, "vit", **make(tmp_path))
    assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"\xff\xfe", {}, "is not UTF-8: byte 0 is 0xff"),
        (b"  \n", {}, "is empty"),
        (b"too short", {"tokens": 32}, "gives 9 tokens, fewer than one passage of 32"),
        (b"long enough", {"tokens": 2000}, "gpt2 takes at most 64 tokens, got 2000"),
        (b"long enough", {"tokens": -5}, "tokens must be at least 1, got -5"),
    ],
)
def test_wrong_inputs_for_text(content: bytes, options: dict, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    model = families.build(SMALL["gpt2"].with_options(vocab_size=300))
    with pytest.raises(ValueError, match=message) as caught:
        choose_inputs(model, "gpt2", text=tmp_path / "a.txt", **options)
    assert "--" not in str(caught.value)


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(ValueError, match=r"b\.png is not a readable image"):
        inputs.from_images(families.build(SMALL["vit"]), tmp_path, 1)
