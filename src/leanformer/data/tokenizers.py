"""Texts as tokens: tokenizers that are loaded or trained here, and documents packed into one memory-mapped array.

Every tokenizer is one of the library tokenizers, bytes included, so that one piece of code encodes, saves and decodes.
May import tokenizers.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.implementations import ByteLevelBPETokenizer  # type: ignore[attr-defined]

from leanformer.data.cache import remembered
from leanformer.data.corpora import END, Corpus

SPECIAL = {"bpe": [END], "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}
LEARNED_FROM = 200_000
"""Documents that a tokenizer is trained on at most."""
TOGETHER = 1000
"""Documents that are encoded at a time."""


# Tokenizers


def tokenizer(name: str, texts: Corpus, root: str | None = None) -> Tokenizer:
    """`bytes`, `gpt2`, or `bpe:SIZE` and `wordpiece:SIZE`, which are trained on the texts once and kept."""
    kind, _, size = name.partition(":")
    if name == "bytes":
        return _bytes()
    if name == "gpt2":
        return _gpt2(root)
    if kind in SPECIAL and size.isdigit() and int(size) > 260:
        key = [name, texts.identity, LEARNED_FROM]
        folder = remembered(
            "tokenizer", key, lambda aside: _trained(kind, int(size), texts).save(str(aside / "t.json"))
        )
        return Tokenizer.from_file(str(folder / "t.json"))
    if Path(name).is_dir() and (Path(name) / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(Path(name) / "tokenizer.json"))
    raise ValueError(
        f'tokenizer must be "bytes", "gpt2", "bpe:4096", "wordpiece:4096" or a folder with tokenizer.json, got "{name}"'
    )


def _bytes() -> Tokenizer:
    """A token is a byte: byte-level BPE that merges nothing."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    _byte_level(made)
    made.add_special_tokens([END])
    return made


def _gpt2(root: str | None) -> Tokenizer:
    root = root or os.environ.get("LEANFORMER_DATA")
    for folder in (Path(root) / "gpt2_tokenizer", Path(root) / "gpt2") if root else ():
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            read = ByteLevelBPETokenizer.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
            read.add_special_tokens([END])
            return read._tokenizer
    try:
        return Tokenizer.from_pretrained("openai-community/gpt2")
    except Exception as error:
        raise ValueError(
            "GPT-2's tokenizer is not on this machine and the hub did not give it: needed is a folder gpt2_tokenizer "
            "with vocab.json and merges.txt in LEANFORMER_DATA, or a network; or take --set task.tokenizer=bpe:8192"
        ) from error


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
    """Beside a model, as transformers' `AutoTokenizer` reads it."""
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
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


# Packed documents


@dataclass(frozen=True)
class Packed:
    """Documents one after the other, each followed by the mark of its end."""

    tokens: np.ndarray
    """Memory-mapped."""
    size_bytes: int
    """Of the documents' UTF-8."""
    documents: int


def packed(texts: Corpus, made: Tokenizer, name: str, end: str = END, most: int | None = None) -> tuple[Packed, Packed]:
    """Both parts of a corpus, tokenized once and kept; at most `most` training tokens."""
    key = [texts.identity, name, hashlib.sha256(made.to_str().encode()).hexdigest(), end, most]
    return _part("train", texts.train, made, key, end, most), _part("held-out", texts.held_out, made, key, end, None)


def _part(
    part: str, read: Callable[[], Iterator[str]], made: Tokenizer, key: list[Any], end: str, most: int | None
) -> Packed:
    folder = remembered(f"tokens-{part}", [*key, part], lambda aside: _pack(aside, read(), made, end, most))
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
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
    (folder / "about.json").write_text(json.dumps({**counts, "dtype": np.dtype(dtype).name}), encoding="utf-8")


def _grouped(documents: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(documents)
    while group := list(itertools.islice(waiting, TOGETHER)):
        yield group
