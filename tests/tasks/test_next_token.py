"""Next tokens: windows, targets, every held-out token once, and messages for bad texts."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.experiments import recipes
from leanformer.experiments.comparison import compare
from leanformer.experiments.overrides import adjusted
from leanformer.tasks.next_token import NextToken


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


def test_bad_texts_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ValueError, match="the training part has 0 tokens, too few for one window of 128"):
        NextToken(dataset=str(tmp_path / "empty.txt")).load()
    (tmp_path / "latin.txt").write_bytes("caf\xe9 au lait".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8: line 1 has the byte 0xe9; convert the file"):
        NextToken(dataset=str(tmp_path / "latin.txt")).load()
    with pytest.raises(ValueError, match="nowhere is neither a file nor a folder, and no corpus of that name is known"):
        NextToken(dataset=str(tmp_path / "nowhere")).load()
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=r"train\.parquet: which column holds the text\? It has a, b"):
        NextToken(dataset=str(tmp_path)).load()
    with pytest.raises(ValueError, match='tokenizer must be "bytes", "gpt2", "bpe", "bpe:4096"'):
        NextToken(tokenizer="words").load()
    with pytest.raises(ValueError, match="length must be a whole number of at least 2, got 1"):
        NextToken(length=1)


def test_texts_longer_than_the_model_are_reported(tmp_path: Path) -> None:
    recipe = adjusted(recipes.recipe("pydoc"), settings=["task.length=128", "task.tokenizer=bytes"])
    with pytest.raises(
        ValueError, match="original: the model takes at most 64 tokens, got a sequence of 128"
    ) as raised:
        compare(recipe, out=tmp_path, jobs=1)
    assert len(str(raised.value).splitlines()) == 1


def test_documents_as_one_stream_with_random_windows(tmp_path: Path) -> None:
    """As small scripts do: joined by newlines, the last tokens held out, windows anywhere."""
    documents = [f"story number {index} ends" for index in range(200)]
    pq.write_table(pa.table({"text": documents}), tmp_path / "train.parquet")
    pq.write_table(pa.table({"text": ["other"]}), tmp_path / "validation.parquet")
    data = NextToken(dataset=str(tmp_path), length=16, stream=150, windows="random").load()
    whole = "\n".join(documents[:150]).encode()
    tokens = data.tokenizer.encode(whole.decode()).ids
    assert [*data.train.tokens, *data.held_out.tokens] == tokens
    assert len(data.train.tokens) == int(0.9 * len(tokens))
    inputs, targets = next(data.batches(Order(3, 64, data.size), range(1), Share()))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    text = "".join(map(chr, data.train.tokens))
    assert all("".join(map(chr, row)) in text for row in inputs.tolist())
    again = [next(data.batches(Order(3, 64, data.size), range(1), Share(i, 2)))[0] for i in range(2)]
    assert torch.equal(torch.cat(again), inputs)
    with pytest.raises(ValueError, match="windows must be one of aligned, random, got 'any'"):
        NextToken(windows="any")
    said = "the first 150 documents are one text; its last 10 % are held out"
    assert data.contents().notes == (said,), "and not the files that are held out otherwise"
    fewer = NextToken(dataset=str(tmp_path), length=16, stream=150, held_out=0.05).load()
    assert len(fewer.held_out.tokens) == pytest.approx(len(data.held_out.tokens) / 2, abs=1)
    with pytest.raises(ValueError, match="stream and most_tokens exclude each other"):
        NextToken(stream=5, most_tokens=1000)
