"""Texts and long sequences: no leaks, nothing lost between windows, masks by length, and what bad files are told."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from transformers import AutoTokenizer

from leanformer import tasks
from leanformer.conditioning.probing import measure
from leanformer.data import corpora as texts
from leanformer.data import tokenizers as tokens
from leanformer.data.order import Order, Share
from leanformer.experiments import recipes
from leanformer.experiments.comparison import compare
from leanformer.experiments.overrides import adjusted
from leanformer.models import names as zoo
from leanformer.models import registry as families
from leanformer.tasks.byte_classes import ByteClasses
from leanformer.tasks.listops import ListOps
from leanformer.tasks.next_token import NextToken
from leanformer.tasks.pair_classes import PairClasses
from leanformer.tasks.pixel_classes import PixelClasses
from leanformer.tasks.sequence_classes import Ragged


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


class Uniform(nn.Module):
    """A language model that knows nothing."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary, self.seen = vocabulary, []

    def forward(self, input_ids: torch.Tensor) -> Any:
        self.seen.append(input_ids)
        return type("Output", (), {"logits": torch.zeros(*input_ids.shape, self.vocabulary)})()


# Texts


def test_copies_of_a_document_stay_on_one_side(tmp_path: Path) -> None:
    documents = [f"story number {index}" for index in range(200)]
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    (tmp_path / "b.txt").write_text(texts.END.join([*documents[100:], "  story number 3\n"]))
    found = texts.find(str(tmp_path))
    train, held_out = set(found.train()), set(found.held_out())
    assert train | held_out == set(documents)
    assert not train & held_out
    assert 5 < len(held_out) < 40
    assert list(found.train()) == list(found.train())


def test_named_parts_are_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "", "b"]}), tmp_path / "train-0.parquet")
    pq.write_table(pa.table({"text": ["c"]}), tmp_path / "validation-0.parquet")
    found = texts.find(str(tmp_path))
    assert (list(found.train()), list(found.held_out())) == (["a", "b"], ["c"])
    stories = tmp_path / "stories"
    stories.mkdir()
    (stories / "TinyStoriesV2-GPT4-train.txt").write_text(f"one\n{texts.END}\ntwo\n")
    (stories / "TinyStoriesV2-GPT4-valid.txt").write_text("three")
    found = texts.find(str(stories))
    assert (list(found.train()), list(found.held_out())) == (["one", "two"], ["three"])


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


def test_every_training_window_is_shown_once_an_epoch_and_targets_are_one_further() -> None:
    data = NextToken(length=100).load()
    order = Order(3, data.size, data.size)
    inputs, targets = next(data.batches(order, range(1), Share()))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    first = sorted(inputs.tolist())
    stream = data.train.tokens[: data.size * 100].reshape(data.size, 100)
    assert first == sorted(stream.tolist())
    halves = [next(data.batches(Order(3, 8, data.size), range(1), Share(i, 2)))[0] for i in range(2)]
    assert torch.equal(torch.cat(halves), next(data.batches(Order(3, 8, data.size), range(1), Share()))[0])


@pytest.mark.parametrize("parts", [1, 3])
def test_every_held_out_token_is_predicted_once(parts: int) -> None:
    data = NextToken(length=100).load()
    model = Uniform(257)
    sums = [data.evaluate(model, Share(index, parts), torch.device("cpu")) for index in range(parts)]
    total = {key: sum(part[key] for part in sums) for key in sums[0]}
    assert total["tokens"] == len(data.held_out.tokens) - 1
    score = data.score(total)
    assert score["loss"] == pytest.approx(math.log(257))
    assert score["perplexity"] == pytest.approx(257, rel=1e-5)
    expected = math.log2(257) * (len(data.held_out.tokens) - 1) / data.held_out.size_bytes
    assert score["bits_per_byte"] == pytest.approx(expected)


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


def test_bad_texts_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ValueError, match="the training part has 0 tokens, too few for one window of 128"):
        NextToken(dataset=str(tmp_path / "empty.txt")).load()
    (tmp_path / "latin.txt").write_bytes("caf\xe9 au lait".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8: byte 3 is 0xe9; convert it first"):
        NextToken(dataset=str(tmp_path / "latin.txt")).load()
    with pytest.raises(ValueError, match="nowhere is neither a file nor a folder, and no corpus of that name is known"):
        NextToken(dataset=str(tmp_path / "nowhere")).load()
    pq.write_table(pa.table({"story": ["a"]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="has the columns story; needed is one named text"):
        NextToken(dataset=str(tmp_path)).load()
    with pytest.raises(ValueError, match='tokenizer must be "bytes", "gpt2", "bpe:4096"'):
        NextToken(tokenizer="words").load()
    with pytest.raises(ValueError, match="length must be at least 2 tokens, got 1"):
        NextToken(length=1)


def test_texts_longer_than_the_model_are_told(tmp_path: Path) -> None:
    recipe = adjusted(recipes.recipe("pydoc"), settings=["task.length=128", "task.tokenizer=bytes"])
    with pytest.raises(
        ValueError, match="original: the model takes at most 64 tokens, got a sequence of 128"
    ) as raised:
        compare(recipe, out=tmp_path, jobs=1)
    assert len(str(raised.value).splitlines()) == 1


# Sequences


def rows_of(task: Any, split: str) -> list[tuple[list[int], int]]:
    data = task.load()
    part = getattr(data, split)
    ids, lengths = part.padded(np.arange(len(part)), data.length)
    return [(row[:count].tolist(), int(label)) for row, count, label in zip(ids, lengths, part.labels, strict=True)]


def write_texts(folder: Path, rows: list[tuple[str, int]], name: str) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table({"text": [t for t, _ in rows], "label": [y for _, y in rows]}), folder / name)


def test_texts_are_bytes_and_no_part_sees_another(tmp_path: Path) -> None:
    rows = [(f"review {index} é", index % 2) for index in range(300)]
    write_texts(tmp_path / "imdb", [*rows, *rows[:50]], "train-0.parquet")
    write_texts(tmp_path / "imdb", [("a fine test", 1)], "test-0.parquet")
    task = ByteClasses(root=str(tmp_path), length=64)
    train, validation = (rows_of(task, split) for split in ("train", "validation"))
    assert rows_of(task, "test") == [([byte + 1 for byte in b"a fine test"], 1)]
    assert len(train) + len(validation) == 350
    assert not {tuple(ids) for ids, _ in train} & {tuple(ids) for ids, _ in validation}
    assert ([byte + 1 for byte in "review 7 é".encode()], 1) in train + validation


def test_long_texts_are_cut_and_short_ones_padded() -> None:
    split = Ragged.of([b"abcdef", b"a", b""], [0, 1, 0], length=4)
    ids, lengths = split.padded(np.array([0, 1, 2]), 4)
    assert ids.tolist() == [[98, 99, 100, 101], [98, 0, 0, 0], [0, 0, 0, 0]]
    assert lengths.tolist() == [4, 1, 0]


def test_pairs_of_documents(tmp_path: Path) -> None:
    folder = tmp_path / "aan"
    folder.mkdir()
    for word, count in (("train", 6), ("eval", 3), ("test", 2)):
        lines = [f"{i % 2}.0\tA{i}\tB{i}\tfirst {i}\tsecond {i}" for i in range(count)]
        (folder / f"new_aan_pairs.{word}.tsv").write_text("\n".join(lines) + "\n")
    data = PairClasses(root=str(tmp_path), length=12).load()
    ids, lengths, labels = next(data.batches(Order(0, 6, 6), range(1), Share()))
    assert ids.shape == (6, 2, 12)
    assert sorted(labels.tolist()) == [0, 0, 0, 1, 1, 1]
    assert lengths.tolist() == [[7, 8]] * 6
    design = zoo.architecture_of("nystromformer-retrieval", max_position_embeddings=12, landmarks=4)
    model = families.build(design).eval()
    assert torch.isfinite(data.loss(model, (ids, lengths, labels)))
    assert measure(model, data.probe_batch(2)).layers[0].values.kappa.shape == (4,)
    (folder / "new_aan_pairs.eval.tsv").write_text("1\tA\tB\tonly one text\n")
    with pytest.raises(ValueError, match=r"eval\.tsv, line 1: 4 columns instead of 5 \(label, first, second,"):
        PairClasses(root=str(tmp_path), length=12).load()
    (folder / "new_aan_pairs.eval.tsv").write_text("2\tA\tB\tx\ty\n")
    with pytest.raises(ValueError, match=r"line 1: a label is 0 or 1, got 2"):
        PairClasses(root=str(tmp_path), length=12).load()
    with pytest.raises(ValueError, match=r"aan is not on this machine, and no hub has it"):
        PairClasses().load()


def test_pixels_are_tokens_and_black_ones_too() -> None:
    data = PixelClasses(dataset="digits").load()
    assert (data.length, data.size, len(data.validation), len(data.test)) == (64, 1295, 143, 359)
    ids, lengths, _ = next(data.batches(Order(0, 32, data.size), range(1), Share()))
    assert (lengths == 64).all()
    assert (ids == 0).any(1).all(), "black pixels are there, and inside the length"


def test_listops_end_to_end_and_padding_does_not_count() -> None:
    task = ListOps(min_length=5, max_length=40, train=64, validation=8, test=8)
    data = task.load()
    design = zoo.architecture_of("nystromformer-listops", max_position_embeddings=40, landmarks=8).with_depth(1)
    torch.manual_seed(0)
    model = families.build(design).eval()
    ids, lengths, labels = next(data.batches(Order(0, 16, 64), range(1), Share()))
    before = data.loss(model, (ids, lengths, labels))
    scrambled = torch.where(torch.arange(40) < lengths[:, None], ids, torch.randint(0, 16, ids.shape))
    assert torch.allclose(data.loss(model, (scrambled, lengths, labels)), before, atol=1e-6)
    tested, validated = (
        data.evaluate_final(model, Share(), torch.device("cpu")),
        data.evaluate(model, Share(), ids.device),
    )
    assert tested["count"] == validated["count"] == 8
    assert tested["loss"] != validated["loss"]
    assert tasks.read(task.to_dict()) == task


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("words\tlabel\nx\t1\n", "lacks the column text; its first line has words, label"),
        ("text\tlabel\nx\n", r"line 2: 1 columns instead of 2 \(text, label\)"),
        ("text\tlabel\nx\tgood\n", 'line 2: a label must be a number, got "good"'),
        ("", "train.tsv is empty"),
    ],
)
def test_wrong_tables_are_told(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.tsv").write_text(content)
    (tmp_path / "test.tsv").write_text("text\tlabel\nx\t1\n")
    with pytest.raises(ValueError, match=message):
        ByteClasses(dataset=str(tmp_path)).load()


def test_missing_texts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"holds no train file \(\.parquet or \.tsv\)"):
        ByteClasses(dataset=str(tmp_path)).load()
    monkeypatch.setattr("datasets.load_dataset", lambda name: (_ for _ in ()).throw(OSError("no network")))
    with pytest.raises(ValueError, match="imdb is not on this machine and the hub did not give stanfordnlp/imdb"):
        ByteClasses().load()
