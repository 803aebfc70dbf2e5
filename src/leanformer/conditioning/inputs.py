"""Inputs to measure a model on: images from a folder, text from a file, or random ones of the right shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from leanformer.data import checks, image_files
from leanformer.foundation.formats import counted, percent
from leanformer.models import families
from leanformer.models.weights import has_tokenizer, is_saved, saved_in

SHORT, LONGEST = 1 << 16, 1 << 26
"""Characters of a text that are tokenized at first, and the most that are read of a file."""


@dataclass(frozen=True)
class Inputs:
    """A batch, and where it came from in words."""

    batch: Any
    source: str


def choose_inputs(
    model: nn.Module,
    name: str,
    *,
    images: Path | None = None,
    text: Path | None = None,
    random: bool = False,
    batch: int = 8,
    tokens: int | None = None,
    seed: int = 0,
) -> Inputs:
    """The inputs asked for; by default real text for a model with a tokenizer, and otherwise noise of the right shape.

    Args:
        model: what is to be measured.
        name: what to call it in errors; if it is a folder, the tokenizer in it is used.
        images: a folder of images.
        text: a file of text.
        random: random inputs, also where real ones are the default.
        batch: how many images or passages.
        tokens: tokens per passage; 128 by default, or fewer if the model takes fewer.
        seed: of random inputs.
    """
    if sum((images is not None, text is not None, random)) > 1:
        raise ValueError("images, text and random exclude each other: give one of them")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    config = getattr(model, "config", None)
    if hasattr(config, "point_dim"):
        if images is not None or text is not None:
            raise ValueError(f"{name} takes points, not images or text: it is measured on random points")
        return random_points(families.describe(model), batch, tokens, seed)
    if config is None or not hasattr(config, "vocab_size"):
        if text is not None or tokens is not None:
            raise ValueError(f"{name} takes images: give images or random, and neither text nor tokens")
        return from_images(model, images, batch) if images else random_images(model, batch, seed)
    if images is not None:
        raise ValueError(f"{name} takes text: give text or random instead of images")
    return _choose_text(model, name, text, random, batch, tokens, seed)


def _choose_text(
    model: nn.Module, name: str, text: Path | None, random: bool, batch: int, tokens: int | None, seed: int
) -> Inputs:
    config = cast(Any, model.config)
    longest = families.longest_text(config) if hasattr(config, "max_position_embeddings") else 128
    tokens = min(longest, 128) if tokens is None else tokens
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}")
    if getattr(config, "two_towers", False):
        raise ValueError(f"{name} takes pairs of documents: measure it in Python, with lf.measure(model, batch)")
    if tokens > longest:
        raise ValueError(f"{name} takes at most {longest} tokens, got {tokens}")
    tokenizer = None if random else tokenizer_of(model, saved_in(Path(name)) if is_saved(name) else None)
    if tokenizer is None or (text is None and isinstance(tokenizer, Bytes)):
        if text is not None:
            raise ValueError(f"{name} has no tokenizer (tokenizer.json, vocab.txt or vocab.json): use random inputs")
        return random_tokens(config, batch, tokens, seed)
    source = "Python's documentation" if text is None else str(text)
    found = from_text(tokenizer, embedded_text() if text is None else read_text(text), source, batch, tokens)
    if (unknown := unknown_share(tokenizer, found)) <= MOST_UNKNOWN:
        return found
    if text is not None:
        raise ValueError(
            f"the tokenizer of {name} does not know {percent(unknown)} of {source}: give a text in its language, "
            "or use random inputs"
        )
    drawn = random_tokens(config, batch, tokens, seed)
    return Inputs(drawn.batch, f"{drawn.source} (its tokenizer does not know {percent(unknown)} of {source})")


def from_images(model: nn.Module, folder: Path, count: int) -> Inputs:
    """The first images of a folder, by name, through the model's own evaluation transform."""
    from timm.data import create_transform, resolve_model_data_config

    if not folder.is_dir():
        raise ValueError(f"images: {folder} is not a folder")
    files = checks.files_below(folder, image_files.is_image)[:count]
    if not files:
        raise ValueError(f"images: {folder} holds no image ({image_files.SHOWN})")
    settings = {**resolve_model_data_config(model), "input_size": image_shape(model)}
    transform = create_transform(**settings, is_training=False)
    mode = "L" if settings["input_size"][0] == 1 else "RGB"
    decoded = image_files.Files(files)
    images = [transform(image_files.in_colour(decoded[index]).convert(mode)) for index in range(len(files))]
    return Inputs(torch.stack(images), f"{len(images)} images of {folder}")


def from_text(tokenizer: Any, text: str, source: str, count: int, tokens: int) -> Inputs:
    """Consecutive passages of a text, each of the same number of tokens, so that none needs padding."""
    size = max(SHORT, 8 * count * tokens)
    while True:  # no more of the text than is needed: a tokenizer takes 170 bytes of memory per character
        pieces = tokenizer(text[:size], max_length=tokens, truncation=True, return_overflowing_tokens=True)["input_ids"]
        whole = [piece for piece in (pieces if size >= len(text) else pieces[:-2]) if len(piece) == tokens]
        if len(whole) >= count or size >= len(text):
            break
        size *= 4
    passages = whole[:count]
    if not passages:
        raise ValueError(
            f"{source} gives {len(pieces[0])} tokens, fewer than one passage of {tokens}: ask for fewer tokens"
        )
    batch = {"input_ids": torch.tensor(passages)}
    unit = "bytes" if isinstance(tokenizer, Bytes) else "tokens"
    return Inputs(batch, f"{len(passages)} passages of {tokens} {unit} from {source}")


MOST_UNKNOWN = 0.5
"""A text of which a tokenizer knows less is in another language, such as that of molecules."""


def unknown_share(tokenizer: Any, inputs: Inputs) -> float:
    """The share of tokens that stand for anything that is not in the vocabulary."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    return 0.0 if unknown is None else float((inputs.batch["input_ids"] == unknown).float().mean())


def read_text(path: Path) -> str:
    """The text of a file; of a very long one, its beginning."""
    with checks.reading(path, "text file"), path.open(encoding="utf-8") as file:
        text = file.read(LONGEST)
    if not text.strip():
        raise ValueError(f"text: {path} is empty")
    return text


def embedded_text() -> str:
    """English text that comes with every Python: its own documentation."""
    from leanformer.data.corpora import pydoc

    return "\n\n".join(pydoc())


def tokenizer_of(model: nn.Module, saved: Path | None) -> Any:
    """The tokenizer of a saved model. Fresh weights know no words, so bytes are used if the vocabulary has room."""
    if saved is not None and has_tokenizer(saved):
        from leanformer.models.huggingface.folders import tokenizer_of as saved_tokenizer

        try:
            return saved_tokenizer(saved)
        except Exception as error:  # the libraries raise almost anything for damaged files
            raise ValueError(
                f"the tokenizer in {saved} cannot be read: {checks.first_line(error)}; replace or remove it"
            ) from error
    vocabulary = int(getattr(getattr(model, "config", None), "vocab_size", 0))
    return Bytes() if saved is None and vocabulary >= 256 else None


class Bytes:
    """A tokenizer without a vocabulary: a token is a byte."""

    def __call__(self, text: str, max_length: int, **_: Any) -> dict[str, list[list[int]]]:
        plain = list(text.encode())
        return {"input_ids": [plain[start : start + max_length] for start in range(0, len(plain), max_length)]}


def random_images(model: nn.Module, count: int, seed: int) -> Inputs:
    shape = image_shape(model)
    images = torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))
    return Inputs(images, f"{counted(count, 'image')} of Gaussian noise, {shape[1]} × {shape[2]}, seed {seed}")


def image_shape(model: nn.Module) -> tuple[int, int, int]:
    """Channels, height and width of the images that a model takes."""
    from timm.data import resolve_model_data_config

    channels, height, width = resolve_model_data_config(model)["input_size"]
    embed, config = cast(Any, getattr(model, "patch_embed", None)), getattr(model, "config", None)
    if isinstance(size := getattr(embed, "img_size", None), tuple):  # a model built for another size than its name's
        height, width = size
    if (size := getattr(config, "image_size", None)) is not None:
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return int(getattr(model, "in_chans", getattr(config, "num_channels", channels))), height, width


def random_points(architecture: Any, count: int, tokens: int | None, seed: int) -> Inputs:
    with torch.random.fork_rng(()):
        torch.manual_seed(seed)
        batch = families.example_inputs(architecture, count, tokens)
    return Inputs(batch, f"{count} × {batch['points'].shape[1]} random points, seed {seed}")


def random_tokens(config: Any, count: int, tokens: int, seed: int) -> Inputs:
    ids = torch.randint(config.vocab_size, (count, tokens), generator=torch.Generator().manual_seed(seed))
    return Inputs({"input_ids": ids}, f"{count} sequences of {tokens} random tokens, seed {seed}")
