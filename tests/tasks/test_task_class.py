"""A task that a user writes as a class: what it must say, what it receives, and settings of any plain kind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from torch import Tensor, nn

import leanformer as lf
from leanformer import tasks

OPTIONS = {"num_classes": 2, "img_size": 8, "in_chans": 1}


class Noise(lf.Data):
    metric, source, size = lf.Metric("accuracy", "%"), "noise", None

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        if options is not None:
            self.options = options

    def batches(self, order: Any, steps: range, share: Any) -> Iterator[Any]:
        for step in steps:
            draw = torch.Generator().manual_seed(step)
            yield torch.randn(8, 1, 8, 8, generator=draw), torch.randint(0, 2, (8,), generator=draw)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    def evaluate(self, model: nn.Module, share: Any, device: torch.device) -> dict[str, float]:
        return {"right": 1.0, "all": 2.0}

    def score(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {"accuracy": 100 * sums["right"] / sums["all"]}

    def probe_batch(self, count: int) -> Tensor:
        return torch.zeros(count, 1, 8, 8)


@dataclass(frozen=True, kw_only=True)
class NoiseTask(lf.Task):
    sizes: tuple[int, ...] = (1, 2)
    named: Mapping[str, int] = field(default_factory=lambda: {"a": 1})

    def load(self) -> lf.Data:
        return Noise(OPTIONS)


def recipe(task: lf.Task) -> lf.Recipe:
    sizes = dict(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32)
    original = lf.architecture_of("vit_tiny_patch16_224", patch_size=2, **sizes, **task.options)
    training = lf.Training(steps=2, batch=8, lr=1e-3, evaluations=1)
    return lf.Recipe(
        name="noise", task=task, original=original, lean=original.resized(depth=1), training=training, margin=1.0
    )


# Options


def test_every_task_has_typed_options() -> None:
    assert get_type_hints(lf.Task.options.func)["return"] == Mapping[str, Any]
    assert NoiseTask().options == OPTIONS
    assert tasks.read({"kind": "farthest-point", "dim": 3}).options == {"point_dim": 3}
    own = lf.task(train=[(0, 1)], held_out=[(0, 1)], loss="mse", metric="mse", options={"vocab_size": 7})
    assert own.options == {"vocab_size": 7}
    assert "options" not in NoiseTask().to_dict()


def test_data_without_options_leave_models_as_they_are() -> None:
    class Plain(NoiseTask):
        def load(self) -> lf.Data:
            return Noise(None)

    assert Plain().options == {}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, r"the task .*Made does not load data: needed is an lf\.Data, got NoneType"),
        ({"metric": "accuracy"}, r"the data of the task .*Made.*: metric must be an lf\.Metric, got 'accuracy'"),
        ({"source": None}, r"the data of the task .*Made.*: source must be words that say where the data came from"),
        ({"size": "many"}, r"the data of the task .*Made.*: size must be a number of training samples, or None"),
        (
            {"options": ["num_classes"]},
            r"the data of the task .*Made.*: options must be a mapping .* got \['num_classes'\]",
        ),
    ],
)
def test_what_data_lack_is_one_line(made: Any, message: str) -> None:
    class Made(NoiseTask):
        def load(self) -> lf.Data:
            data = Noise(OPTIONS)
            for name, value in (made or {}).items():
                setattr(data, name, value)
            return data if made else made

    with pytest.raises(ValueError, match=message) as refused:
        tasks.load(Made())
    assert "\n" not in str(refused.value)


def test_data_that_do_not_say_where_they_came_from_are_refused() -> None:
    class Silent(lf.Data):
        batches = loss = evaluate = score = probe_batch = None  # type: ignore[assignment]

    class Made(NoiseTask):
        def load(self) -> lf.Data:
            return Silent()

    with pytest.raises(ValueError, match=r"metric must be an lf\.Metric, got nothing"):
        tasks.load(Made())


# Settings


def test_settings_may_be_lists_and_mappings(tmp_path: Path) -> None:
    """A record holds a tuple as a list: the run is the same one."""
    task = NoiseTask(sizes=(3, 4), named={"b": 2})
    first = lf.compare(recipe(task), out=tmp_path / "out", seeds=2, progress=False)
    again = lf.compare(recipe(task), out=tmp_path / "out", seeds=2, progress=False)
    assert again.verdict.words == first.verdict.words
    assert again.runs == first.runs
    with pytest.raises(ValueError, match="sizes"):
        lf.compare(recipe(NoiseTask(sizes=(5,))), out=tmp_path / "out", seeds=2, progress=False)


def test_a_setting_that_no_record_can_hold_is_refused() -> None:
    message = r"NoiseTask: named must be plain \(numbers, text, lists or mappings\), since records keep it; got object"
    with pytest.raises(ValueError, match=message):
        NoiseTask(named={"a": object()}).to_dict()  # type: ignore[dict-item]


def test_data_are_read_once() -> None:
    class Counting(NoiseTask):
        def load(self) -> lf.Data:
            loaded.append(self)
            return Noise(OPTIONS)

    loaded: list[Any] = []
    assert tasks.load(Counting()) is tasks.load(Counting())
    assert len(loaded) == 1
    tasks.load(Counting(sizes=(9,)))
    assert len(loaded) == 2
