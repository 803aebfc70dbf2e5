"""GLUE: metrics by hand, examples as tokens, and pre-trained models that are fine-tuned."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from leanformer.data.glue import GLUE_TASKS
from leanformer.data.hub import NotAvailable
from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.models import names as zoo
from leanformer.tasks.sentence_classes import SentenceClasses, _cut, metrics
from support.glue import write_glue

SMALL: dict[str, Any] = dict(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=64)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("LEANFORMER_DATA", raising=False)
        yield


def test_metrics_by_hand() -> None:
    labels = np.array([1, 1, 1, 0, 0, 1])
    guessed = np.array([1, 0, 1, 1, 0, 1])
    outputs = np.eye(2)[guessed]
    true_positive, false_positive, false_negative, true_negative = 3, 1, 1, 1
    precision, recall = 3 / 4, 3 / 4
    assert metrics(GLUE_TASKS["mrpc"], outputs, labels)["f1"] == pytest.approx(
        100 * 2 * precision * recall / (precision + recall)
    )
    assert metrics(GLUE_TASKS["sst2"], outputs, labels) == {"accuracy": pytest.approx(100 * 4 / 6)}
    numerator = true_positive * true_negative - false_positive * false_negative
    denominator = math.sqrt(4 * 4 * 2 * 2)
    assert metrics(GLUE_TASKS["cola"], outputs, labels)["mcc"] == pytest.approx(100 * numerator / denominator)
    x, y = np.array([1.0, 2.0, 3.0, 10.0]), np.array([0.0, 1.0, 4.0, 5.0])
    found = metrics(GLUE_TASKS["stsb"], x[:, None], y)
    centred = (x - x.mean()) @ (y - y.mean())
    assert found["pearson"] == pytest.approx(
        100 * centred / np.sqrt(((x - x.mean()) ** 2).sum() * ((y - y.mean()) ** 2).sum())
    )
    assert found["spearman"] == pytest.approx(100.0)
    assert metrics(GLUE_TASKS["stsb"], np.ones((4, 1)), y) == {"pearson": 0.0, "spearman": 0.0}


def test_the_longest_piece_is_cut_first() -> None:
    assert list(map(len, _cut([[1] * 10, [2] * 4], 9))) == [5, 4]
    assert list(map(len, _cut([[1] * 10, [2] * 10], 9))) in ([4, 5], [5, 4])
    assert list(map(len, _cut([[1] * 3, [2] * 3], 9))) == [3, 3]


def test_examples_are_wrapped_padded_and_masked(tmp_path: Path) -> None:
    write_glue(tmp_path, "rte")
    data = SentenceClasses(name="rte", root=str(tmp_path), tokenizer="wordpiece:300", length=16).load()
    ids, mask, _ = next(data.batches(Order(0, 8, data.size), range(1), Share()))
    first, last = (data.tokenizer.token_to_id(word) for word in ("[CLS]", "[SEP]"))
    for row, kept in zip(ids.tolist(), mask.tolist(), strict=True):
        length = sum(kept)
        assert kept == [1] * length + [0] * (len(kept) - length)
        assert (row[0], row[length - 1], row.count(last)) == (first, last, 2)
        assert length <= 16
    assert ids.shape[1] == max(mask.sum(1)).item()
    halves = [next(data.batches(Order(0, 8, data.size), range(1), Share(index, 2)))[0] for index in range(2)]
    assert torch.equal(torch.cat(halves), ids)


def test_mnli_is_judged_on_both_its_splits(tmp_path: Path) -> None:
    write_glue(tmp_path, "mnli", splits=("train", "validation_matched", "validation_mismatched"))
    data = SentenceClasses(name="mnli", root=str(tmp_path), tokenizer="wordpiece:300").load()
    model = families.build(
        zoo.architecture_of("crammed-bert", **{**SMALL, "max_position_embeddings": 128}, **data.options)
    )
    sums = [data.evaluate(model.eval(), Share(index, 2), torch.device("cpu")) for index in range(2)]
    assert sums[0].keys() == sums[1].keys() == {"accuracy", "accuracy_mismatched"}
    assert set(sums[1].values()) == {0.0}, "only the first process judges"


def test_bad_tables_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no GLUE task 'wnli'; there are mnli, sst2"):
        SentenceClasses(name="wnli")
    write_glue(tmp_path, "sst2", splits=("validation",))
    with pytest.raises(NotAvailable, match=r"glue/sst2 holds no train file \(parquet\)"):
        SentenceClasses(name="sst2", root=str(tmp_path)).load()
    pq.write_table(pa.table({"sentence": ["a"]}), tmp_path / "glue" / "sst2" / "train-0.parquet")
    with pytest.raises(ValueError, match=r"train-0\.parquet lacks the column label; it has sentence"):
        SentenceClasses(name="sst2", root=str(tmp_path)).load()
    pq.write_table(pa.table({"sentence": ["a", "b"], "label": [0, 2]}), tmp_path / "glue" / "sst2" / "train-0.parquet")
    with pytest.raises(ValueError, match=r"train-0\.parquet, row 1 has label 2; with 2 classes labels go from 0 to 1"):
        SentenceClasses(name="sst2", root=str(tmp_path)).load()


def test_cutting_pieces_before_they_are_cut_together_changes_nothing() -> None:
    draw = np.random.default_rng(0)
    for _ in range(300):
        lengths, most = draw.integers(0, 60, 2), int(draw.integers(5, 40))
        whole = [list(range(length)) for length in lengths]
        assert _cut([piece[:most] for piece in whole], most) == _cut(list(whole), most)


def test_one_sentence_can_end_twice(tmp_path: Path) -> None:
    for name, ends in (("sst2", 2), ("rte", 2)):
        write_glue(tmp_path, name)
        task = SentenceClasses(name=name, root=str(tmp_path), tokenizer="wordpiece:300", length=16, two_ends=True)
        data = task.load()
        last = data.tokenizer.token_to_id("[SEP]")
        rows = data.splits["train"].ids
        assert {row.count(last) for row in rows} == {ends}
        assert {row[-2:] == [last, last] for row in rows} == {name == "sst2"}
        assert max(map(len, rows)) <= 16
