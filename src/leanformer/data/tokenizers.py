"""Texts as tokens: tokenizers that are read or trained here, and documents packed into one memory-mapped array.

Every tokenizer, that of bytes included, is a `tokenizers.Tokenizer`: one piece of code encodes, saves and decodes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.implementations import ByteLevelBPETokenizer  # type: ignore[attr-defined]

from leanformer.data import hub
from leanformer.data.cache import cached_folder
from leanformer.data.checks import BadData, reading
from leanformer.data.corpora import END, Corpus
from leanformer.data.locations import data_root, needed
from leanformer.data.order import TUNING_SHARE
from leanformer.data.pieces import cut, encoded
from leanformer.foundation.records.files import read_json, write_json
from leanformer.models.weights import has_tokenizer, saved_in

OTHER_ENDS = ("</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")
"""What ends a document in tokenizers of trained models, where they do not have our token for it."""
SPECIAL = {"bpe": [END], "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}
GPT2 = "openai-community/gpt2"
"""GPT-2's tokenizer on the hub."""
WITHIN = "##"
"""What WordPiece puts before a token within a word."""
MOST_WORDS = 1 << 24
SMALLEST_SUITABLE, LARGEST_SUITABLE, CHARACTERS_PER_TOKEN = 512, 4096, 100
"""Where the number of tokens is not given: its bounds, and the training text for each."""
LEARNED_FROM = 200_000
"""A tokenizer is trained on at most so many documents."""


# Tokenizers


def tokenizer(name: str, texts: Corpus, root: str | None = None) -> Tokenizer:
    """`bytes`, `gpt2`, a folder with tokenizer.json, or `bpe` and `wordpiece`, trained on the training texts once.

    `bpe:4096` has so many tokens; `bpe` alone has a number that suits the amount of text.
    """
    kind, colon, size = name.partition(":")
    if kind in SPECIAL and not colon:
        size = str(_suitable_size(texts))
        name = f"{kind}:{size}"
    if name == "bytes":
        return _bytes()
    if name == "gpt2":
        return _gpt2(root)
    if kind in SPECIAL and size.isdigit() and int(size) > 260:
        if int(size) > MOST_WORDS:
            raise ValueError(f"a tokenizer has at most {MOST_WORDS:,} tokens, got {name}")

        def make(aside: Path) -> None:
            _trained(kind, int(size), texts).save(str(aside / "t.json"))

        key = [name, texts.identity, LEARNED_FROM]
        folder = cached_folder("tokenizer", key, make, whole=lambda found: bool(_read(found / "t.json")))
        return _read(folder / "t.json")
    if os.path.isfile(os.path.join(name, "tokenizer.json")):
        return _read(Path(name) / "tokenizer.json")
    raise ValueError(
        f'tokenizer must be "bytes", "gpt2", "bpe", "bpe:4096", "wordpiece", "wordpiece:4096" or a folder with '
        f'tokenizer.json, got "{name}"'
    )


def folder_of(saved: Path) -> str:
    """The folder with the tokenizer.json of a saved model. One that has another form is written to the cache."""
    from leanformer.models.huggingface.folders import tokenizer_of

    place = saved_in(saved)
    if (place / "tokenizer.json").is_file():
        return str(place)
    if not has_tokenizer(place):
        raise ValueError(f"{saved} has no tokenizer, and texts need one: put its tokenizer.json there")
    file = place if place.is_file() else next(path for path in sorted(place.glob("vocab.*")))
    key = [str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns]
    return str(cached_folder("tokenizer", key, lambda aside: tokenizer_of(place).save_pretrained(aside)))


def _suitable_size(texts: Corpus) -> int:
    """A token for about every hundred characters of training text, as a power of two."""
    characters = 0
    for document in texts.train():
        characters += len(document)
        if characters > CHARACTERS_PER_TOKEN * LARGEST_SUITABLE:
            break
    wanted = max(1, characters / CHARACTERS_PER_TOKEN)
    return int(min(LARGEST_SUITABLE, max(SMALLEST_SUITABLE, 2 ** round(math.log2(wanted)))))


def described(name: str, made: Tokenizer) -> str:
    """A tokenizer in words."""
    if name in SPECIAL:
        return f"{name} tokenizer of {made.get_vocab_size():,} tokens"
    return f"{name} tokenizer"


def _read(file: Path) -> Tokenizer:
    """A saved tokenizer. It neither cuts nor pads: lengths are a matter of the task."""
    with reading(file, "tokenizer"):
        made = Tokenizer.from_file(str(file))
    made.no_truncation()
    made.no_padding()
    return made


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
            with reading(folder / "vocab.json", "vocabulary with the merges.txt beside it"):
                read = ByteLevelBPETokenizer.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
            read.add_special_tokens([END])
            return read._tokenizer
    wanted = f"{needed('gpt2_tokenizer', root)} with vocab.json and merges.txt, another tokenizer (bpe:8192)"
    return hub.download(lambda: Tokenizer.from_pretrained(GPT2), "GPT-2's tokenizer", GPT2, wanted)


def _trained(kind: str, size: int, texts: Corpus) -> Tokenizer:
    if kind == "wordpiece":
        return _trained_wordpiece(size, texts)
    made = Tokenizer(models.BPE())
    _byte_level(made)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL[kind],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(_learned_from(texts), trainer)
    return made


def _trained_wordpiece(size: int, texts: Corpus) -> Tokenizer:
    """The same tokenizer for the same texts.

    The library numbers the letters within words ("##a") in the random order of a hash table, and ties between merges
    depend on these numbers. So a first training, without merges, finds the letters; the second gets them in order.
    """
    special = SPECIAL["wordpiece"]
    letters = _wordpiece({"[UNK]": 0})
    letters.train_from_iterator(_learned_from(texts), _wordpiece_trainer(1, special))
    within = sorted(word for word in letters.get_vocab() if word.startswith(WITHIN) and len(word) == len(WITHIN) + 1)
    trained = _wordpiece({"[UNK]": 0})
    trained.train_from_iterator(_learned_from(texts), _wordpiece_trainer(size, [*special, *within]))
    numbered = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    words = [word for word, _ in numbered if word not in {*special, *within}]
    letters_first = [word for word in words if len(word) == 1]
    merged = [word for word in words if len(word) > 1]
    ordered = [*special, *letters_first, *within, *merged]
    made = _wordpiece({word: number for number, word in enumerate(ordered)})
    made.add_special_tokens(special)
    return made


def _wordpiece(vocabulary: dict[str, int]) -> Tokenizer:
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _wordpiece_trainer(size: int, special: list[str]) -> Any:
    return trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)


def _learned_from(texts: Corpus) -> Iterator[str]:
    """The documents that a tokenizer is trained on, in pieces of bounded length."""
    for document in itertools.islice(texts.train(), LEARNED_FROM):
        yield from cut(document, texts.source)


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

    def for_tuning(self, most: int, fewest: int) -> tuple[Packed, Packed]:
        """The first tokens to train on while settings are tuned, and the last ones to score the settings on.

        Args:
            most: the most tokens to score on.
            fewest: tokens that each part must have.
        """
        whole = len(self.tokens)
        count = max(fewest, min(round(TUNING_SHARE * whole), most))
        if whole - count < fewest:
            raise BadData(f"settings cannot be tuned on {whole} training tokens: needed are at least {2 * fewest}")
        return self._slice(0, whole - count), self._slice(whole - count, whole)

    def _slice(self, start: int, end: int) -> Packed:
        """Some of the tokens; bytes and documents are in proportion."""
        share = (end - start) / len(self.tokens)
        return Packed(self.tokens[start:end], round(share * self.size_bytes), max(1, round(share * self.documents)))


def packed(texts: Corpus, made: Tokenizer, name: str, end: str = END, most: int | None = None) -> tuple[Packed, Packed]:
    """Both parts of a corpus, tokenized once and cached; at most `most` training tokens."""
    key = [texts.identity, name, hashlib.sha256(made.to_str().encode()).hexdigest(), end, most]
    return (
        _part("train", texts.train, made, key, end, most, texts.source),
        _part("held-out", texts.held_out, made, key, end, None, texts.source),
    )


def streamed(texts: Corpus, made: Tokenizer, name: str, documents: int, held_out: float) -> tuple[Packed, Packed]:
    """The first training documents as one text, joined by newlines: its first tokens, and the last ones, held out."""
    key = [texts.identity, name, hashlib.sha256(made.to_str().encode()).hexdigest(), "stream", documents]

    def joined() -> Iterator[str]:
        yield "\n".join(itertools.islice(texts.train(), documents))

    whole = _part("stream", joined, made, key, END, None, texts.source)
    end = len(whole.tokens) - 1  # without the end token, which packing adds
    place = int((1 - held_out) * end)
    return whole._slice(0, place), whole._slice(place, end)


def check_enough(texts: Corpus, train: Packed, held_out: Packed, length: int, fewest: int) -> None:
    """Raise an error if a part is too short for one window."""
    for name, part in (("training", train), ("held-out", held_out)):
        if (count := len(part.tokens)) < fewest:
            raise BadData(
                f"{texts.source}: the {name} part has {count} tokens, too few for one window of {length}; needed are "
                f"{fewest} in each part: give more text, or a smaller length"
            )


def _part(
    part: str,
    read: Callable[[], Iterator[str]],
    made: Tokenizer,
    key: list[Any],
    end: str,
    most: int | None,
    source: str,
) -> Packed:
    def make(aside: Path) -> None:
        _pack(aside, read(), made, end, most, source)

    folder = cached_folder(f"tokens-{part}", [*key, part], make, whole=_is_whole)
    about = read_json(folder / "about.json")
    tokens = (
        np.memmap(folder / "tokens.bin", dtype=about["dtype"], mode="r") if about["tokens"] else np.zeros(0, np.uint16)
    )
    return Packed(tokens, about["bytes"], about["documents"])


def _is_whole(folder: Path) -> bool:
    """Whether packed documents of version 0.1, which have no checksums, are as many as their description says."""
    about = read_json(folder / "about.json")
    size = about["tokens"] * np.dtype(about["dtype"]).itemsize
    return bool((folder / "tokens.bin").stat().st_size == size and about["documents"] >= 0 and about["bytes"] >= 0)


def _pack(folder: Path, documents: Iterable[str], made: Tokenizer, end: str, most: int | None, source: str) -> None:
    dtype = np.uint16 if made.get_vocab_size() <= 1 << 16 else np.uint32
    mark = next((number for word in (end, *OTHER_ENDS) if (number := made.token_to_id(word)) is not None), None)
    if mark is None:
        known = ", ".join((end, *OTHER_ENDS))
        raise BadData(f"{source}: the tokenizer has no token that ends a document ({known}); use another tokenizer")
    counts = {"tokens": 0, "bytes": 0, "documents": 0}
    shown, encode = itertools.tee(documents)
    with (folder / "tokens.bin").open("wb") as file:
        for text, found in zip(shown, encoded(made, encode, source), strict=True):
            ids = np.append(found, mark).astype(dtype)
            ids = ids if most is None else ids[: most - counts["tokens"]]
            ids.tofile(file)
            counts["tokens"] += len(ids)
            counts["bytes"] += len(text.encode())
            counts["documents"] += 1
            if counts["tokens"] == most:
                break
    write_json(folder / "about.json", {**counts, "dtype": np.dtype(dtype).name})
