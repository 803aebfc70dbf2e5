"""Inputs to measure on: where they come from, and what is refused."""

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer

import leanformer as lf
from leanformer.conditioning import inputs
from leanformer.conditioning.inputs import choose_inputs
from leanformer.models import families
from leanformer.tasks.next_token import NextToken
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
        (b"\xff\xfe", {}, "is not UTF-8: it has the byte 0xff; convert it first"),
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
    with pytest.raises(ValueError, match=r"b\.png is not a readable image: [^\n]+$"):
        inputs.from_images(families.build(SMALL["vit"]), tmp_path, 1)


def bomb(file: Path) -> None:
    """A small file that says it holds 60,000 × 60,000 pixels."""
    Image.new("L", (8, 8)).save(file)
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    signed = header + struct.pack(">I", zlib.crc32(header))
    file.write_bytes(file.read_bytes()[:12] + signed + file.read_bytes()[33:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "b.png is a named pipe; needed is a regular file"),
        (lambda file: file.symlink_to("/nowhere/else"), "b.png is a link to /nowhere/else, which does not exist"),
        (bomb, r"b.png .* pixels"),
        (lambda file: (file.parent / "loop").symlink_to(file.parent), "loop is a link to a folder that contains it"),
    ],
    ids=["pipe", "dangling link", "bomb", "circle"],
)
def test_what_is_no_image_is_refused_at_once(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    make(tmp_path / "b.png")
    with pytest.raises(ValueError, match=message) as caught:
        inputs.from_images(families.build(SMALL["vit"]), tmp_path, 2)
    assert "\n" not in str(caught.value)


def test_grey_images_of_16_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    for folder, array in (("deep", np.full((8, 8), 0x8000, np.uint16)), ("flat", np.full((8, 8), 0x80, np.uint8))):
        (tmp_path / folder).mkdir()
        Image.fromarray(array).save(tmp_path / folder / "a.png")
    model = lf.create("vit_tiny_patch16_224", depth=1)
    deep, flat = (inputs.from_images(model, tmp_path / folder, 1).batch for folder in ("deep", "flat"))
    assert torch.equal(deep, flat)


def test_of_a_long_text_only_the_beginning_is_tokenized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = AutoTokenizer.from_pretrained(saved_tokenizer(tmp_path))
    text = "".join(f"word{number} and {number * 7} more. " for number in range(3000))
    seen: list[int] = []

    def tokenize(given: str, **options: Any) -> Any:
        seen.append(len(given))
        return tokenizer(given, **options)

    whole = inputs.from_text(tokenize, text, "here", 9, 30).batch["input_ids"]
    monkeypatch.setattr(inputs, "SHORT", 64)
    seen.clear()
    short = inputs.from_text(tokenize, text, "here", 9, 30).batch["input_ids"]
    assert seen[-1] < len(text) / 4
    assert torch.equal(short, whole)
    assert len(inputs.from_text(tokenize, text, "here", 10**5, 30).batch["input_ids"]) > 1000


def saved_tokenizer(folder: Path) -> Path:
    NextToken(tokenizer="bpe:400").load().accompany(folder)
    return folder


def test_a_damaged_tokenizer_and_a_text_that_is_no_file_are_named(tmp_path: Path) -> None:
    folder = saved_tokenizer(tmp_path)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=rf"^the tokenizer in {folder} cannot be read: [^\n]+; replace or remove it$"):
        inputs.tokenizer_of(families.build(SMALL["gpt2"]), folder)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe.txt is a named pipe; needed is a regular file"):
        inputs.read_text(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"none.txt cannot be read: No such file"):
        inputs.read_text(tmp_path / "none.txt")
