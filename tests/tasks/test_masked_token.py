"""Masked tokens: what is hidden, the same in every evaluation, and training with a ramp."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.models import names as zoo
from leanformer.tasks.masked_token import IGNORED, MaskedToken
from leanformer.training.loop import train
from leanformer.training.run import Run, write_run
from leanformer.training.settings import Training
from support.glue import write_corpus

SMALL: dict[str, Any] = dict(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=64)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("LEANFORMER_DATA", raising=False)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "words.txt")


def masked(corpus: Path, **settings: Any) -> MaskedToken:
    return MaskedToken(dataset=str(corpus), tokenizer="wordpiece:300", length=32, **settings)


def test_a_quarter_is_hidden_and_the_rest_is_as_it_was(corpus: Path) -> None:
    data = masked(corpus).load()
    order = Order(0, 64, data.size)
    ids, labels = next(data.batches(order, range(1), Share()))
    hidden = labels != IGNORED
    assert (hidden.sum(1) == 8).all(), "every window hides the same number"
    true = torch.from_numpy(data.train.tokens[order.indices(0)[:, None] * 32 + np.arange(32)].astype(np.int64))
    assert torch.equal(ids[~hidden], true[~hidden])
    assert torch.equal(labels[hidden], true[hidden])
    shown = ids[hidden]
    assert (shown == data.mask).float().mean() == pytest.approx(0.8, abs=0.06)
    assert (shown == true[hidden]).float().mean() == pytest.approx(0.1, abs=0.05)
    halves = [next(data.batches(order, range(1), Share(index, 2))) for index in range(2)]
    assert torch.equal(torch.cat([half[0] for half in halves]), ids)
    again, _ = next(data.batches(order, range(1, 2), Share()))
    assert not torch.equal(again, ids)


@pytest.mark.parametrize("parts", [1, 2])
def test_held_out_windows_are_hidden_alike_every_time(corpus: Path, parts: int) -> None:
    data = masked(corpus).load()

    class Uniform(nn.Module):
        def forward(self, input_ids: torch.Tensor) -> Any:
            return type("Output", (), {"logits": torch.zeros(*input_ids.shape, data.vocabulary)})()

    sums = [data.evaluate(Uniform(), Share(index, parts), torch.device("cpu")) for index in range(parts)]
    total = {key: sum(part[key] for part in sums) for key in sums[0]}
    assert total["count"] == 8 * (len(data.held_out.tokens) // 32)
    assert data.score(total)["loss"] == pytest.approx(math.log(data.vocabulary), rel=1e-5)
    assert torch.equal(data.probe_batch(3)["input_ids"], data.probe_batch(5)["input_ids"][:3])


def test_a_ramped_run_trains(corpus: Path, tmp_path: Path) -> None:
    task = masked(corpus)
    design = zoo.architecture_of("crammed-bert", **SMALL, **task.load().options)
    training = Training(steps=6, batch=16, accumulate=4, ramp=0.5, lr=1e-2, evaluations=1, probe=2)
    write_run(Run(name="x", architecture=design, task=task, training=training), tmp_path)
    result = train(tmp_path)
    assert result.evaluations[-1].scores["loss"] < result.evaluations[0].scores["loss"]
    with pytest.raises(ValueError, match="ramp must be a share from 0 to 1, got 2"):
        Training(steps=1, ramp=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(share=0.0), "share must lie between 0 and 1 and hide at least one token, got 0.0"),
        (dict(tokenizer="bytes"), r"the tokenizer bytes has no \[MASK\] and \[SEP\]; use wordpiece:SIZE"),
    ],
)
def test_wrong_settings_are_reported(corpus: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedToken(**{"dataset": str(corpus), "length": 32, **settings}).load()
