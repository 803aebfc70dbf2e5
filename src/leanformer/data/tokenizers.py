"""Texts as tokens: tokenizers that are read or trained here, and documents packed into one memory-mapped array.

Every tokenizer, that of bytes included, is a `tokenizers.Tokenizer`: one piece of code encodes, saves and decodes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.implementations import ByteLevelBPETokenizer  # type: ignore[attr-defined]

from leanformer.data import hub
from leanformer.data.cache import cached_folder
from leanformer.data.corpora import END, Corpus
from leanformer.data.locations import data_root, needed
from leanformer.foundation.records.files import read_json, write_json

SPECIAL = {"bpe": [END], "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}
GPT2 = "openai-community/gpt2"
"""GPT-2's tokenizer on the hub."""
LEARNED_FROM = 200_000
"""A tokenizer is trained on at most so many documents."""
TOGETHER = 1000
"""Documents that are encoded in one call."""


# Tokenizers


def tokenizer(name: str, texts: Corpus, root: str | None = None) -> Tokenizer:
    """`bytes`, `gpt2`, a folder with tokenizer.json, or `bpe:SIZE` and `wordpiece:SIZE`, trained on the texts once."""
    kind, _, size = name.partition(":")
    if name == "bytes":
        return _bytes()
    if name == "gpt2":
        return _gpt2(root)
    if kind in SPECIAL and size.isdigit() and int(size) > 260:
        key = [name, texts.identity, LEARNED_FROM]
        folder = cached_folder(
            "tokenizer", key, lambda aside: _trained(kind, int(size), texts).save(str(aside / "t.json"))
        )
        return Tokenizer.from_file(str(folder / "t.json"))
    if Path(name).is_dir() and (Path(name) / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(Path(name) / "tokenizer.json"))
    raise ValueError(
        f'tokenizer must be "bytes", "gpt2", "bpe:4096", "wordpiece:4096" or a folder with tokenizer.json, got "{name}"'
    )


def _bytes() -> Tokenizer:
    """One token per byte: byte-level BPE without merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    _byte_level(made)
    made.add_special_tokens([END])
    return made


def _gpt2(root: str | None) -> Tokenizer:
    place = data_root(root)
    for folder in (place / "gpt2_tokenizer", place / "gpt2") if place is not None else ():
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            read = ByteLevelBPETokenizer.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
            read.add_special_tokens([END])
            return read._tokenizer
    wanted = f"{needed('gpt2_tokenizer', root)} with vocab.json and merges.txt, another tokenizer (bpe:8192)"
    return hub.download(lambda: Tokenizer.from_pretrained(GPT2), "GPT-2's tokenizer", GPT2, wanted)


def _trained(kind: str, size: int, texts: Corpus) -> Tokenizer:
    if kind == "bpe":
        made = Tokenizer(models.BPE())
        _byte_level(made)
        trainer: Any = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=SPECIAL[kind],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
    else:
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
        made.normalizer = normalizers.BertNormalizer()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL[kind], show_progress=False)
    made.train_from_iterator(itertools.islice(texts.train(), LEARNED_FROM), trainer)
    return made


def _byte_level(made: Tokenizer) -> None:
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()


def save_tokenizer(made: Tokenizer, folder: Path) -> None:
    """Write a tokenizer beside a model, as `AutoTokenizer` of transformers reads it."""
    made.save(str(folder / "tokenizer.json"))
    names = {
        "[PAD]": "pad_token",
        "[UNK]": "unk_token",
        "[CLS]": "cls_token",
        "[SEP]": "sep_token",
        "[MASK]": "mask_token",
    }
    roles = {role: token for token, role in names.items() if made.token_to_id(token) is not None}
    if made.token_to_id(END) is not None:
        roles |= {"eos_token": END, "bos_token": END}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}
    write_json(folder / "tokenizer_config.json", config)


# Packed documents


@dataclass(frozen=True)
class Packed:
    """Documents one after another, each followed by the end token."""

    tokens: np.ndarray
    """Memory-mapped."""
    size_bytes: int
    """Bytes of the documents as UTF-8."""
    documents: int


def packed(texts: Corpus, made: Tokenizer, name: str, end: str = END, most: int | None = None) -> tuple[Packed, Packed]:
    """Both parts of a corpus, tokenized once and cached; at most `most` training tokens."""
    key = [texts.identity, name, hashlib.sha256(made.to_str().encode()).hexdigest(), end, most]
    return _part("train", texts.train, made, key, end, most), _part("held-out", texts.held_out, made, key, end, None)


def _part(
    part: str, read: Callable[[], Iterator[str]], made: Tokenizer, key: list[Any], end: str, most: int | None
) -> Packed:
    folder = cached_folder(f"tokens-{part}", [*key, part], lambda aside: _pack(aside, read(), made, end, most))
    about = read_json(folder / "about.json")
    tokens = (
        np.memmap(folder / "tokens.bin", dtype=about["dtype"], mode="r") if about["tokens"] else np.zeros(0, np.uint16)
    )
    return Packed(tokens, about["bytes"], about["documents"])


def _pack(folder: Path, documents: Iterable[str], made: Tokenizer, end: str, most: int | None) -> None:
    dtype = np.uint16 if made.get_vocab_size() <= 1 << 16 else np.uint32
    mark = made.token_to_id(end)
    counts = {"tokens": 0, "bytes": 0, "documents": 0}
    with (folder / "tokens.bin").open("wb") as file:
        for group in _grouped(documents):
            for text, encoded in zip(group, made.encode_batch(group, add_special_tokens=False), strict=True):
                ids = [*encoded.ids, mark]
                if most is not None and counts["tokens"] + len(ids) > most:
                    ids = ids[: most - counts["tokens"]]
                np.asarray(ids, dtype).tofile(file)
                counts["tokens"] += len(ids)
                counts["bytes"] += len(text.encode())
                counts["documents"] += 1
                if counts["tokens"] == most:
                    break
            if counts["tokens"] == most:
                break
    write_json(folder / "about.json", {**counts, "dtype": np.dtype(dtype).name})


def _grouped(documents: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(documents)
    while group := list(itertools.islice(waiting, TOGETHER)):
        yield group
