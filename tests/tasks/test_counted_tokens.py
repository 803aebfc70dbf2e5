"""The linear model of token counts: it knows counts and the first token, and nothing of the order."""

from dataclasses import dataclass

import numpy as np
import pytest

from leanformer.data.sequences import RaggedSequences, offsets_of
from leanformer.tasks import ListOps, counted_tokens
from leanformer.tasks.sequence_classes import SequenceData


def sequences(tokens: np.ndarray, labels: np.ndarray) -> RaggedSequences:
    lengths = np.full(len(tokens), tokens.shape[1], dtype=np.int64)
    return RaggedSequences(tokens.astype(np.uint8).ravel(), offsets_of(lengths), labels.astype(np.int64), shift=1)


def drawn(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 6, (count, 20))


@pytest.mark.parametrize(
    ("label", "low", "high"),
    [
        (lambda tokens: (tokens == 3).sum(1) > 3, 97, 100),
        (lambda tokens: tokens[:, 0] % 2, 99, 100),
        (lambda tokens: tokens[:, 1:2].sum(1) > 2, 40, 65),
        (lambda tokens: tokens[:, :10].sum(1) > tokens[:, 10:].sum(1), 40, 70),
    ],
    ids=["a count", "the first token", "the second token", "an order"],
)
def test_what_it_can_know(label: object, low: float, high: float) -> None:
    train, held_out = (sequences(drawn(n, s), label(drawn(n, s))) for n, s in ((3000, 0), (1000, 1)))  # type: ignore[operator]
    assert low <= counted_tokens.score(train, held_out, 20) <= high
    assert counted_tokens.score(train, held_out, 64) == counted_tokens.score(train, held_out, 20), "padding is no token"


def test_counts_are_those_of_numpy() -> None:
    tokens = np.array([[1, 2, 2, 0], [3, 1, 0, 0]])
    found = counted_tokens._counted(tokens, np.array([3, 2]), 4)
    assert np.allclose(found[:, :4], np.log1p([[0, 1, 2, 0], [0, 1, 0, 1]]))
    assert found[:, 4:].argmax(1).tolist() == [1, 3]


@dataclass(frozen=True)
class Pairs:
    tokens: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        return self.tokens[rows], np.full((len(rows), 2), length)

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.tokens, self.labels


def test_pairs_and_classes_that_are_all_alike() -> None:
    tokens = np.random.default_rng(0).integers(0, 4, (1200, 2, 30))
    labels = (np.abs((tokens[:, 0] == 1).sum(1) - (tokens[:, 1] == 1).sum(1)) > 3).astype(np.int64)
    train, held_out = Pairs(tokens[:800], labels[:800]), Pairs(tokens[800:], labels[800:])
    assert counted_tokens.score(train, held_out, 30) > 85
    assert (
        counted_tokens.score(Pairs(tokens, np.zeros(1200, np.int64)), held_out, 30)
        == 100 * (held_out.labels == 0).mean()
    )


def test_tasks_report_it_and_forget_it_with_their_held_out_part() -> None:
    data = ListOps(min_length=5, max_length=20, train=400, validation=50, test=60).load()
    assert isinstance(data, SequenceData)
    assert set(data.baselines) == {"the most frequent class", counted_tokens.ALONE}
    assert data.baselines["the most frequent class"] < data.baselines[counted_tokens.ALONE] < 100
    tuning = data.for_tuning()
    assert tuning.baselines[counted_tokens.ALONE] == counted_tokens.score(data.train, data.validation, data.length)
    assert tuning.identity != data.identity
