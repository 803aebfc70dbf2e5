"""Real inputs to measure a model on: images from a folder, text from a file, or random ones of the right shape.

May import tasks and torch, and timm or transformers when their models ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


@dataclass(frozen=True)
class Inputs:
    """A batch, and in words where it came from."""

    batch: Any
    source: str


def from_images(model: nn.Module, folder: Path, count: int) -> Inputs:
    """The first images of a folder, by name, through the model's own evaluation transform."""
    from PIL import Image, UnidentifiedImageError
    from timm.data import create_transform, resolve_model_data_config

    if not folder.is_dir():
        raise ValueError(f"--images {folder} is no folder")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGES)[:count]
    if not files:
        raise ValueError(f"--images {folder} holds no image ({', '.join(IMAGES)})")
    transform = create_transform(**resolve_model_data_config(model), is_training=False)
    images = []
    for file in files:
        try:
            images.append(transform(Image.open(file).convert("RGB")))
        except (UnidentifiedImageError, OSError) as error:
            raise ValueError(f"{file} is no readable image: {error}") from error
    return Inputs(torch.stack(images), f"{len(images)} images of {folder}")


def from_text(tokenizer: Any, text: str, source: str, count: int, tokens: int) -> Inputs:
    """Consecutive passages of a text, each of the same number of tokens, so that none needs padding."""
    pieces = tokenizer(text, max_length=tokens, truncation=True, return_overflowing_tokens=True)["input_ids"]
    passages = [piece for piece in pieces if len(piece) == tokens][:count]
    if not passages:
        raise ValueError(f"{source} gives {len(pieces[0])} tokens, fewer than one passage of {tokens}: lower --tokens")
    batch = {"input_ids": torch.tensor(passages)}
    unit = "bytes" if isinstance(tokenizer, Bytes) else "tokens"
    return Inputs(batch, f"{len(passages)} passages of {tokens} {unit} from {source}")


def read_text(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"--text {path} is no file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--text {path} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error
    if not text.strip():
        raise ValueError(f"--text {path} is empty")
    return text


def embedded_text() -> str:
    """English that every Python carries: the language's own documentation."""
    from leanformer.data.corpora import pydoc

    return "\n\n".join(pydoc())


def tokenizer_of(model: nn.Module, folder: Path | None) -> Any:
    """The tokenizer beside a saved model; for fresh weights, which know no words, bytes will do where they fit."""
    if folder is not None and any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder)
    vocabulary = int(getattr(getattr(model, "config", None), "vocab_size", 0))
    return Bytes() if folder is None and vocabulary >= 256 else None


class Bytes:
    """A tokenizer without a vocabulary: a token is a byte."""

    def __call__(self, text: str, max_length: int, **_: Any) -> dict[str, list[list[int]]]:
        plain = list(text.encode())
        return {"input_ids": [plain[start : start + max_length] for start in range(0, len(plain), max_length)]}


def random_images(model: nn.Module, count: int, seed: int) -> Inputs:
    from timm.data import resolve_model_data_config

    channels, height, width = resolve_model_data_config(model)["input_size"]
    embed = cast(Any, getattr(model, "patch_embed", None))
    if isinstance(size := getattr(embed, "img_size", None), tuple):  # a model built for another size than its name's
        height, width = size
    if isinstance(size := getattr(getattr(model, "config", None), "image_size", None), int):
        height = width = size
    channels = int(getattr(model, "in_chans", channels))
    images = torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(seed))
    return Inputs(images, f"{count} images of Gaussian noise, {height} × {width}, seed {seed}")


def random_points(architecture: Any, count: int, tokens: int | None, seed: int) -> Inputs:
    from leanformer.models.registry import example_inputs

    with torch.random.fork_rng(()):
        torch.manual_seed(seed)
        batch = example_inputs(architecture, count, tokens)
    return Inputs(batch, f"{count} × {batch['points'].shape[1]} random points, seed {seed}")


def random_tokens(config: Any, count: int, tokens: int, seed: int) -> Inputs:
    ids = torch.randint(config.vocab_size, (count, tokens), generator=torch.Generator().manual_seed(seed))
    return Inputs({"input_ids": ids}, f"{count} sequences of {tokens} random tokens, seed {seed}")
