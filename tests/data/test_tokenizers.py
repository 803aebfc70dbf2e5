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


def test_documents_end_as_a_trained_models_tokenizer_ends_them(tmp_path: Path) -> None:
    letters = sorted(tokens.pre_tokenizers.ByteLevel.alphabet())
    for end in (["</s>"], []):
        vocabulary = {letter: index for index, letter in enumerate([*letters, *end])}
        made = tokens.Tokenizer(tokens.models.BPE(vocabulary, []))
        made.pre_tokenizer = tokens.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.save(str(tmp_path / "tokenizer.json"))
        if end:
            data = NextToken(tokenizer=str(tmp_path)).load()
            assert data.held_out.tokens[-1] == vocabulary["</s>"]
    with pytest.raises(ValueError, match=r"the tokenizer has no token that ends a document \(<\|endoftext\|>, </s>, "):
        NextToken(tokenizer=str(tmp_path), length=64).load()


def test_at_most_so_many_training_tokens() -> None:
    data = NextToken(length=50, most_tokens=1000).load()
    assert len(data.train.tokens) == 1000
    assert np.array_equal(data.train.tokens, NextToken(length=50).load().train.tokens[:1000])


def test_a_tokenizer_sees_the_training_part_only(tmp_path: Path) -> None:
    documents = [f"common words number {index}" for index in range(100)]
    secret = next(word for word in (f"zzqx{n}" * 3 for n in range(1000)) if texts.is_held_out(word))
    (tmp_path / "a.txt").write_text("\n\n".join([*documents, *[secret] * 5]))
    for name in ("bpe:600", "wordpiece:600"):
        found = texts.find(str(tmp_path / "a.txt"))
        made = tokens.tokenizer(name, found)
        assert secret in list(found.held_out())
        assert any("common" in word for word in made.get_vocab())
        assert not any("zz" in word for word in made.get_vocab())


@pytest.mark.parametrize(("characters", "size"), [(100, 512), (90_000, 1024), (10**6, 4096)])
def test_a_tokenizer_suits_the_amount_of_text(characters: int, size: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"{'word ' * 199}{n:05}" for n in range(max(10, characters // 1000))))
    assert tokens._suitable_size(texts.find(str(tmp_path / "a.txt"))) == size


def test_texts_of_the_same_content_share_a_tokenizer(tmp_path: Path, cache: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("\n\n".join(f"common words number {index}" for index in range(50)))
        data = NextToken(dataset=str(tmp_path / name), tokenizer="bpe", length=8).load()
        assert data.source == f"{tmp_path / name}, bpe tokenizer of {data.options['vocab_size']} tokens"
    assert len(list(cache.glob("tokenizer-*"))) == 1
