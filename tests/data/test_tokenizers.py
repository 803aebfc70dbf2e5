"""Tokenizers: nothing lost in packing, GPT-2's from a folder, and saved ones in transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from leanformer.data import corpora as texts
from leanformer.data import tokenizers as tokens
from leanformer.tasks.next_token import NextToken


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe:400"])
def test_packing_loses_nothing(tokenizer: str) -> None:
    data = NextToken(tokenizer=tokenizer).load()
    whole = data.tokenizer.decode(data.held_out.tokens.tolist(), skip_special_tokens=False)
    documents = list(texts.find("pydoc").held_out())
    assert whole == "".join(document + texts.END for document in documents)
    assert data.held_out.size_bytes == sum(len(document.encode()) for document in documents)
    assert data.held_out.documents == len(documents)
    again = NextToken(tokenizer=tokenizer).load()
    assert np.array_equal(again.train.tokens, data.train.tokens)
    assert isinstance(data.train.tokens, np.memmap)


def test_gpt2s_tokenizer_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "gpt2_tokenizer"
    folder.mkdir()
    letters = sorted(tokens.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate([*letters, "th", "the", texts.END])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    made = tokens.tokenizer("gpt2", texts.find("pydoc"), str(tmp_path))
    assert made.encode("the theme").ids[0] == vocabulary["the"]
    assert made.decode(made.encode("the theme").ids) == "the theme"
    assert made.token_to_id(texts.END) == vocabulary[texts.END]


def test_a_saved_tokenizer_is_one_of_transformers(tmp_path: Path) -> None:
    data = NextToken(tokenizer="bpe:300").load()
    data.accompany(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert read("def f(x): pass")["input_ids"] == data.tokenizer.encode("def f(x): pass").ids
    assert read.eos_token == texts.END


def test_at_most_so_many_training_tokens() -> None:
    data = NextToken(length=50, most_tokens=1000).load()
    assert len(data.train.tokens) == 1000
    assert np.array_equal(data.train.tokens, NextToken(length=50).load().train.tokens[:1000])
