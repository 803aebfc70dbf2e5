"""Masked language modelling and GLUE: what is hidden, metrics by hand, pre-training handed on, missing tasks named."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.experiments.comparison import compare
from leanformer.experiments.glue import glue
from leanformer.experiments.recipe import Recipe
from leanformer.models import names as zoo
from leanformer.models import registry as families
from leanformer.models.weights import from_pretrained
from leanformer.report import glue as report
from leanformer.tasks.masked_token import IGNORED, MaskedToken
from leanformer.tasks.sentence_classes import GLUE_TASKS, Encoded, NotAvailable, SentenceClasses, _cut, metrics
from leanformer.training.loop import train
from leanformer.training.run import Run, Training, write_run

SMALL: dict[str, Any] = dict(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=64)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("LEANFORMER_DATA", raising=False)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfghklm" for b in ("an", "or", "el", "um", "ip")]
    texts = [" ".join(draw.choice(words, 30)) for _ in range(300)]
    file = tmp_path_factory.mktemp("corpus") / "words.txt"
    file.write_text("\n\n".join(texts))
    return file


def masked(corpus: Path, **settings: Any) -> MaskedToken:
    return MaskedToken(dataset=str(corpus), tokenizer="wordpiece:300", length=32, **settings)


# Hiding


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


def test_a_ramp_grows_batches_piece_by_piece() -> None:
    order = Order(seed=0, batch=32, size=1000, pieces=4, ramp=8)
    sizes = [len(order.indices(step)) for step in range(12)]
    assert sizes == [8, 8, 16, 16, 24, 24, 32, 32, 32, 32, 32, 32]
    seen = np.concatenate([order.indices(step) for step in range(12)])
    assert len(set(seen.tolist())) == len(seen) == sum(sizes), "no sample is shown twice in an epoch"


def test_a_ramped_run_trains(corpus: Path, tmp_path: Path) -> None:
    task = masked(corpus)
    design = zoo.architecture_of("crammed-bert", **SMALL, **task.load().options)
    training = Training(steps=6, batch=16, accumulate=4, ramp=0.5, lr=1e-2, evaluations=1, probe=2)
    write_run(Run(name="x", architecture=design, task=task, training=training), tmp_path)
    result = train(tmp_path)
    assert result["evaluations"][-1]["loss"] < result["evaluations"][0]["loss"]
    with pytest.raises(ValueError, match="ramp must be a share from 0 to 1, got 2"):
        Training(steps=1, ramp=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(share=0.0), "share must lie between 0 and 1 and hide at least one token, got 0.0"),
        (dict(tokenizer="bytes"), r"the tokenizer bytes has no \[MASK\] and \[SEP\]; wordpiece:SIZE has"),
    ],
)
def test_wrong_settings_are_told(corpus: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedToken(**{"dataset": str(corpus), "length": 32, **settings}).load()


# Metrics, by hand


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


# Tasks


def write_glue(root: Path, name: str, rows: int = 40, splits: tuple[str, ...] = ("train", "validation")) -> None:
    known, draw = GLUE_TASKS[name], np.random.default_rng(1)
    for split in splits:
        columns = {
            column: [f"ban {column} {' dor' * int(draw.integers(1, 9))}" for _ in range(rows)]
            for column in known.columns
        }
        labels = draw.random(rows) * 5 if known.classes == 1 else draw.integers(0, known.classes, rows)
        folder = root / "glue" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({**columns, "label": labels}), folder / f"{split}-0.parquet")


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


def test_bad_tables_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no GLUE task 'wnli'; there are mnli, sst2"):
        SentenceClasses(name="wnli")
    write_glue(tmp_path, "sst2", splits=("validation",))
    with pytest.raises(NotAvailable, match=r"glue/sst2 holds no train file \(parquet\)"):
        SentenceClasses(name="sst2", root=str(tmp_path)).load()
    pq.write_table(pa.table({"sentence": ["a"]}), tmp_path / "glue" / "sst2" / "train-0.parquet")
    with pytest.raises(ValueError, match=r"train-0\.parquet lacks the column label; it has sentence"):
        SentenceClasses(name="sst2", root=str(tmp_path)).load()
    with pytest.raises(ValueError, match="row 1 has label 2; labels go from 0 to 1"):
        Encoded.of({"sentence": ["a", "b"], "label": [0, 2]}, GLUE_TASKS["sst2"], None, 16, "here")


def test_pre_training_is_handed_on_and_missing_tasks_are_named(corpus: Path, tmp_path: Path) -> None:
    original = zoo.architecture_of("crammed-bert", **SMALL)
    pretraining = Recipe(
        name="small",
        task=masked(corpus),
        original=original,
        lean=original.with_depth(1).with_heads(4, keep="width"),
        training=Training(steps=4, batch=8, lr=1e-2, evaluations=1, probe=0),
        margin=1.0,
    )
    start = tmp_path / "pretrained"
    compare(pretraining, out=start, seeds=2, jobs=1)
    write_glue(tmp_path, "rte")
    write_glue(tmp_path, "stsb")
    write_glue(tmp_path, "qnli", splits=("validation",))
    said: list[str] = []
    choices: dict[str, Any] = dict(
        data=str(tmp_path), settings=["task.length=32", "training.lr=0.0"], budget="epochs=1"
    )
    record = glue(
        start, tasks=["rte", "qnli", "stsb"], out=tmp_path / "glue-out", seeds=3, jobs=1, say=said.append, **choices
    )
    assert list(record["tasks"]) == ["rte", "stsb"]
    assert list(record["missing"]) == ["qnli"]
    assert any(line.startswith("qnli is left out: ") for line in said)
    assert record["average"]["lean"]["seeds"] == 3
    assert report.words(record)[-1].startswith("missing, and not in the average: qnli")
    assert "average of 2" in report.markdown(record)
    # With a learning rate of 0 the fine-tuned encoder is the pre-trained one of the same arm and seed.
    for seed, taught in ((0, 0), (1, 1), (2, 0)):
        before = from_pretrained(start / "lean" / f"seed-{taught}").state_dict()
        after = from_pretrained(tmp_path / "glue-out" / "rte" / "lean" / f"seed-{seed}").state_dict()
        for name in after:
            if name.startswith("encoder."):
                assert torch.equal(after[name], before[name]), name
    with pytest.raises(ValueError, match=r"--start .*nowhere is no comparison: it holds no plan\.json"):
        glue(tmp_path / "nowhere", tasks=["rte"])
    with pytest.raises(ValueError, match="there is no GLUE task wnli"):
        glue(start, tasks=["wnli"])
