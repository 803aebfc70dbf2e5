"""Tasks made of a data set: every kind of target, the same batches everywhere, found again, and refused in one line."""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import leanformer as lf
from leanformer import tasks
from leanformer.data.order import Order, Share
from leanformer.foundation.registry import CODE_VARIABLE, resolve
from leanformer.tasks.own import OwnTask
from leanformer.tasks.own_data import OwnData
from leanformer.training.step import _pieces

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, "")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(*shape: int, count: int = 3) -> Tensor:
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(1))


def own(**changes: Any) -> OwnTask:
    """A task with 20 training and 7 held-out samples of 4 numbers in 3 classes."""
    usual: dict[str, Any] = dict(
        train=TensorDataset(drawn(20, 4), labels(20)),
        held_out=TensorDataset(drawn(7, 4, seed=5), labels(7)),
        loss="cross-entropy",
        metric="accuracy",
        options={"num_classes": 3},
        evaluated=4,
    )
    made = lf.task(**{**usual, **changes})
    assert isinstance(made, OwnTask)
    return made


def data(**changes: Any) -> OwnData:
    return own(**changes).load()


def linear(inputs: int = 4, outputs: int = 3) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs)


def scores(found: OwnData, model: nn.Module) -> dict[str, float]:
    return found.score(found.evaluate(model, Share(), CPU))


def first_batch(found: OwnData, size: int = 6) -> Any:
    return next(iter(found.batches(Order(0, size, found.size), range(1), Share())))


# What can be learned


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(9, 8), nn.Linear(8, 9)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        class Output:
            logits = self.out(self.embed(input_ids) * attention_mask[..., None])

        return Output


KINDS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], set[str]]] = {
    "classification": (linear, {}, {"accuracy", "loss"}),
    "regression": (
        lambda: linear(4, 1),
        dict(
            train=[(np.ones(4), 0.5), (np.zeros(4), 1.5)],  # numbers of Python and NumPy
            held_out=TensorDataset(drawn(5, 4), drawn(5)),
            loss="mse",
            metric="mae",
        ),
        {"mae", "loss"},
    ),
    "labels": (
        linear,
        dict(
            train=TensorDataset(drawn(9, 4), labels(9, 3, count=2).float()),
            held_out=TensorDataset(drawn(6, 4), labels(6, 3, count=2).float()),
            loss="bce",
            metric="f1-micro",
        ),
        {"f1-micro", "loss"},
    ),
    "segmentation": (
        lambda: nn.Conv2d(1, 3, 1),
        dict(
            train=TensorDataset(drawn(6, 1, 4, 4), labels(6, 4, 4)),
            held_out=TensorDataset(drawn(5, 1, 4, 4), labels(5, 4, 4)),
            metric="mean-iou",
        ),
        {"mean-iou", "loss"},
    ),
    "sequences": (
        Seq2Seq,
        dict(
            train=[
                {"input_ids": [1, 2, 0], "attention_mask": [1, 1, 0], "labels": [3, 4, -100]},
                {"input_ids": [1, 2, 5], "attention_mask": [1, 1, 1], "labels": [3, 4, 4]},
            ],
            held_out=[{"input_ids": [7, 2, 5], "attention_mask": [1, 1, 1], "labels": [3, 4, 5]}],
            collate=lambda samples: {key: torch.tensor([sample[key] for sample in samples]) for key in samples[0]},
            metric="token-accuracy",
            options={"vocab_size": 9},
        ),
        {"token-accuracy", "loss"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_learned(kind: str) -> None:
    build, changes, names = KINDS[kind]
    found, model = data(**changes), build()
    before = scores(found, model)
    assert before.keys() == names
    batch = first_batch(found, 2)
    loss = found.loss(model, batch)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    halves = [found.loss(model, piece) for piece in _pieces(batch, 2)]
    assert len(halves) == 2
    if kind != "sequences":  # where halves have unequal numbers of tokens
        torch.testing.assert_close(torch.stack(halves).mean(), loss)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.1 * parameter.grad)
    assert found.loss(model, batch) < loss
    assert found.tokens == (3 if kind == "sequences" else None)


def test_losses_and_metrics_may_be_functions() -> None:
    def hinge(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.multi_margin_loss(outputs, targets)

    def right(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(-1) == targets).float()

    def counts(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"right": right(outputs, targets).sum(), "all": torch.tensor(len(targets))}

    def rate(sums: dict[str, float]) -> float:
        return sums["right"] / sums["all"]

    model, held_out = linear(), TensorDataset(drawn(7, 4, seed=5), labels(7))
    expected = right(model(held_out.tensors[0]), held_out.tensors[1]).mean().item()
    for metric, name in (
        (right, "right"),
        (lambda outputs, targets: right(outputs, targets).mean(), "score"),
        ((counts, rate), "rate"),
    ):
        found = data(held_out=held_out, loss=hinge, metric=metric, higher_is_better=True, unit="x")
        assert found.metric == lf.Metric(name, "x", True, 0.0)
        assert scores(found, model)[name] == pytest.approx(expected)
        assert found.loss(model, first_batch(found)).ndim == 0
    assert own(loss=hinge).to_dict()["loss"] == "hinge"


def test_scores_do_not_depend_on_batches_or_processes() -> None:
    model, whole = linear(), scores(data(), linear())
    for evaluated, count in ((1, 1), (100, 1), (2, 3)):
        found = data(evaluated=evaluated)
        parts = [found.evaluate(model, Share(index, count), CPU) for index in range(count)]
        assert found.score({key: sum(part[key] for part in parts) for key in parts[0]}) == pytest.approx(whole)
    with pytest.raises(ValueError, match="held_out has 7 samples, fewer than the 8 processes"):
        data().evaluate(model, Share(0, 8), CPU)


def test_the_test_split_is_used_once() -> None:
    found = data(test=TensorDataset(drawn(3, 4, seed=9), labels(3)))
    sums = found.evaluate_final(linear(), Share(), CPU)
    assert sums is not None
    assert sums["score.count"] == 3
    assert found.metric.resolution == pytest.approx(100 / 3)
    assert data().evaluate_final(linear(), Share(), CPU) is None
    assert data().metric.resolution == pytest.approx(100 / 7)


def test_a_model_may_be_called_in_another_way() -> None:
    patches = data(
        train=TensorDataset(drawn(4, 1, 4, 4), labels(4, 4, 4)),
        held_out=TensorDataset(drawn(3, 1, 4, 4), labels(3, 4, 4)),
        forward=lambda model, images: model(images.flatten(1)).view(-1, 3, 4, 4),
        metric="accuracy",
    )
    assert patches.loss(linear(16, 48), first_batch(patches, 2)).isfinite()


def test_conditioning_is_measured_on_the_given_inputs_or_the_first_held_out_ones() -> None:
    torch.testing.assert_close(data().probe_batch(2), drawn(7, 4, seed=5)[:2])
    assert data().probe_batch(100).shape == (7, 4)
    assert data(probe={"x": drawn(5, 4)}).probe_batch(2)["x"].shape == (2, 4)


def test_what_the_data_consist_of_is_said() -> None:
    assert data(source="my numbers").contents().lines() == ["data: my numbers: 20 training and 7 held-out samples"]
    assert data().source.endswith("(TensorDataset)")


# The same batches everywhere


class Noisy(Dataset[Any]):
    """Augmentation that draws from all three generators."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.tensor([row, random.random(), np.random.rand(), torch.rand(()).item()]), row % 3


def shown(found: OwnData, steps: range, share: Share = Share(), seed: int = 3) -> list[Tensor]:  # noqa: B008
    return [inputs for inputs, _ in found.batches(Order(seed, 4, found.size), steps, share)]


def test_batches_are_a_function_of_seed_and_step() -> None:
    found = data(train=Noisy())
    whole = shown(found, range(8))
    assert torch.equal(torch.stack(shown(found, range(5, 8))), torch.stack(whole[5:])), "a resumed run"
    halves = [shown(found, range(8), Share(index, 2)) for index in range(2)]
    assert torch.equal(torch.stack(whole), torch.cat([torch.stack(half) for half in halves], dim=1)), "two processes"
    assert torch.equal(torch.stack(whole), torch.stack(shown(data(train=Noisy(), workers=2), range(8)))), "two workers"
    rows = torch.cat(whole)[:, 0]
    assert sorted(rows[:10].tolist()) == list(range(10)), "every sample once in an epoch"
    again = [torch.cat(whole)[rows == row][:, 1:] for row in range(10)]
    assert all(not torch.equal(draws[0], draws[1]) for draws in again), "new draws in every epoch"
    assert not torch.equal(whole[0], shown(found, range(1), seed=4)[0])


def test_reading_does_not_disturb_the_training() -> None:
    found, model = data(train=Noisy(), held_out=Noisy(), metric="accuracy"), linear()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    shown(found, range(3))
    found.evaluate(model, Share(), CPU)
    assert torch.equal(torch.get_rng_state(), expected[0])
    assert np.random.get_state()[1].tolist() == expected[1]
    assert random.getstate() == expected[2]


def test_held_out_samples_are_read_alike_every_time() -> None:
    found = data(held_out=Noisy())
    assert scores(found, linear()) == scores(found, linear())


# Found again

FILE = """
import torch
import leanformer as lf
from torch.utils.data import TensorDataset
made = []
def small(metric="accuracy"):
    made.append(metric)
    return lf.task(train=TensorDataset(torch.ones(4, 2), torch.ones(4).long()),
                   held_out=TensorDataset(torch.ones(4, 2), torch.ones(4).long()), loss="cross-entropy", metric=metric)
held = small()
def function():
    return small("exact-match")
def wrong():
    return 3
def broken():
    return held.nothing
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    yield path
    for name in [name for name in sys.modules if name.endswith("_mine") and name.startswith("leanformer_code")]:
        del sys.modules[name]


def test_a_task_at_the_top_level_of_a_file_is_found_by_its_name(file: Path) -> None:
    task = tasks.as_task(f"{file}:held")
    assert task.to_dict() == {"kind": f"{file}:held", "loss": "cross-entropy", "metric": "accuracy"}
    assert tasks.read(task.to_dict()) is task
    assert repr(task) == f"<task {file}:held: cross-entropy, accuracy>"


def test_a_function_that_returns_a_task_is_found_and_called_once(file: Path) -> None:
    task = tasks.as_task(f"{file}:function")
    module = sys.modules[resolve(f"{file}:function").__module__]
    assert task.to_dict()["kind"] == f"{file}:function"
    assert tasks.read(task.to_dict()) is task
    assert tasks.as_task(module.function) is task
    assert module.made == ["accuracy", "exact-match"]


def test_a_task_that_changed_since_is_noticed(file: Path) -> None:
    recorded = {**tasks.as_task(f"{file}:held").to_dict(), "metric": "f1"}
    with pytest.raises(ValueError, match=r"held has the metric accuracy, and f1 is asked for; change it where it is d"):
        tasks.read(recorded)
    with pytest.raises(ValueError, match=r"held has no setting flip; change it where it is defined"):
        tasks.read({**tasks.as_task(f"{file}:held").to_dict(), "flip": True})


def test_a_task_of_this_process_is_found_in_it_and_said_to_be() -> None:
    task, other = own(), own()
    assert task.to_dict()["kind"].startswith("this-process:")
    assert task.to_dict() != other.to_dict()
    assert tasks.read(task.to_dict()) is task
    assert tasks.read(other.to_dict()) is other
    recorded = task.to_dict()
    del task
    with pytest.raises(ValueError, match="existed only in the process that wrote this"):
        tasks.read(recorded)


def test_a_notebooks_variable_is_found_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(own(), homes=("__main__",))
    monkeypatch.setattr(sys.modules["__main__"], "flowers", task, raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    assert task.to_dict()["kind"] == "__main__:flowers"
    assert tasks.read(task.to_dict()) is task


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", r"wrong\" is not a task: needed is a subclass of .*, a task of lf\.task, or a function .* got int"),
        ("broken", r"broken\" fails: AttributeError: .*nothing"),
        ("made", r"made\" is not a task: .* got list"),
    ],
)
def test_what_gives_no_task_is_refused(name: str, message: str, file: Path) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        tasks.as_task(f"{file}:{name}")
    assert len(str(raised.value).splitlines()) == 1


def test_a_record_has_no_function_called_that_nobody_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r'a record names a function, "os:abort"; if you trust it, set LEANFORMER_CODE'
    ):
        tasks.read({"kind": "os:abort"})
    (tmp_path / "importable_mine.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="set LEANFORMER_CODE=importable_mine and try again"):
        tasks.read({"kind": "importable_mine:function"})
    assert tasks.read({"kind": "importable_mine:held"}).to_dict()["kind"] == "importable_mine:held"
    monkeypatch.setenv(CODE_VARIABLE, "importable_mine")
    assert tasks.read({"kind": "importable_mine:function"}).to_dict()["kind"] == "importable_mine:function"


# Mistakes


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from ()


class Broken(Dataset[Any]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, row: int) -> Any:
        return {"x": torch.ones(2)}["y"]


SCALAR = dict(higher_is_better=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(train=Endless()), r"train is an IterableDataset, whose samples have no numbers: .* such as list\(data\)"),
        (dict(held_out=Endless), "held_out must be a data set|held_out is an IterableDataset"),
        (dict(train=[]), "train is empty"),
        (dict(train=lambda: []), "train is empty"),
        (dict(train=lambda: 1 / 0), "train cannot be made: ZeroDivisionError: division by zero"),
        (dict(train=3), r"train must be a data set with len\(\) and samples by number, got int"),
        (
            dict(loss="crossentropy"),
            "there is no loss 'crossentropy': there are cross-entropy, bce, mse, mae, huber; or",
        ),
        (dict(metric="auc"), "there is no metric 'auc': there are accuracy, .*; or give a function"),
        (dict(metric="accuracy", unit="%"), "the metric accuracy has its own direction and unit: leave them out"),
        (dict(metric=print), "a metric that is a function needs higher_is_better=True or False"),
        (dict(metric=(print, 3), **SCALAR), "metric must be a name, a function or two functions"),
        (dict(metric="f1", options={}), "metric='f1' counts classes: give classes, or num_classes in the options"),
        (dict(workers=-1), "workers must be a whole number of at least 0, got -1"),
        (dict(collate=3), "collate must be a function, got 3"),
        (dict(held_out=Broken()), r"sample 0 of held_out cannot be read: KeyError: 'y' \(test_own\.py, line \d+\)"),
        (dict(train=Broken(), workers=1), r"^sample \d of train cannot be read: KeyError: 'y' \(test_own\.py, li"),
        (dict(held_out=["a", "b"]), "a batch must be made of tensors with one row per sample, got str; give collate"),
        (dict(held_out=[(torch.ones(2), None)]), "samples cannot be put into a batch: TypeError: .*; give collate"),
        (dict(held_out=[torch.ones(2)]), r"a sample must be \(inputs, target\) or a mapping with labels, got Tensor"),
        (dict(held_out=[{"x": torch.ones(2)}]), 'a sample that is a mapping needs "labels"; it has x'),
        (
            dict(train=[(torch.ones(4), torch.ones(4), 1)] * 9),
            "train and held_out must give batches of one form; they have 3 and 2 parts",
        ),
    ],
)
def test_mistakes_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        first_batch(data(**changes))
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "model", "message"),
    [
        ({}, linear(5), r"the model's call fails on \[6, 4\] float32: RuntimeError: mat1 and mat2 shapes"),
        ({}, linear(4, 1), r"the loss cross-entropy fails on \[6, 1\] float32, \[6\] int64: .*out of bounds"),
        (
            dict(loss="mse"),
            linear(),
            r"the loss mse fails on .*: outputs \[6, 3\] and targets \[6\] must have the same",
        ),
        (dict(loss=lambda o, t: o), linear(), r"the loss score must return a tensor with one number, got \[6, 3\]"),
        (dict(loss=lambda o, t: 3), linear(), "the loss score must return a tensor with one number, got int"),
        (dict(loss=lambda o, t: t.x), linear(), r"the loss score fails on .*: AttributeError: .* \(test_own\.py, line"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_shapes(changes: dict[str, Any], model: nn.Module, message: str) -> None:
    found = data(**changes)
    with pytest.raises(ValueError, match=message) as raised:
        found.loss(model, first_batch(found))
    assert len(str(raised.value).splitlines()) == 1


def test_a_metric_that_gives_no_number_is_one_line() -> None:
    nan = data(metric=lambda outputs, targets: float("nan"), **SCALAR)
    with pytest.raises(ValueError, match="the metric score of the held-out samples is not a number"):
        scores(nan, linear())
    many = data(metric=lambda outputs, targets: outputs, **SCALAR)
    with pytest.raises(
        ValueError, match=r"the metric score fails on .*: score gives numbers of shape \[4, 3\] for 4 sam"
    ):
        scores(many, linear())
    with pytest.raises(ValueError, match=r"brings its own data set; it cannot read /some/where"):
        own().with_data("/some/where")
