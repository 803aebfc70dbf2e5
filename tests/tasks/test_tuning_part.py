"""The part of every task that settings are tuned on: of the training samples alone, and never what a verdict counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leanformer as lf
from leanformer import tasks
from leanformer.data.order import Share, tuning_rows
from leanformer.tasks.base import Data
from leanformer.tasks.masked_token import MaskedTokenData
from leanformer.tasks.next_token import NextTokenData
from leanformer.tasks.tuning_part import TuningPart

WORDS = [f"text number {index} is {'good' if index % 2 else 'bad'} {'word ' * (index % 9)}" for index in range(200)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("\n\n".join(WORDS), encoding="utf-8")
    Path("labelled.csv").write_text(
        "text,label\n" + "".join(f"{word},{index % 2}\n" for index, word in enumerate(WORDS))
    )
    Path("texts").mkdir()
    for split in ("train", "eval", "test"):
        rows = "".join(f"{text} {split}\t{index % 3}\n" for index, text in enumerate(WORDS))
        Path(f"texts/{split}.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    return tmp_path


def trained_and_scored(data: Any) -> tuple[list[bytes], list[bytes]]:
    """Every sample before it is prepared."""
    if hasattr(data, "found") and hasattr(data.found.train, "texts"):
        return tuple([text.encode() for text in part.texts] for part in (data.found.train, data.found.held_out))  # type: ignore[return-value]
    parts = (data.images, data.held_out) if hasattr(data, "images") else (data.train, data.held_out)
    return tuple([row[0].numpy().tobytes() for row in part] for part in parts)  # type: ignore[return-value]


def check_parts(whole: Data, part: Data) -> None:
    trained, scored = trained_and_scored(part)
    assert sorted([*trained, *scored]) == sorted(trained_and_scored(whole)[0]), (
        "the training samples, each of them once"
    )
    assert (part.size, len(scored)) == (len(trained), part.contents().held_out)
    assert part.identity != whole.identity or not whole.identity


@pytest.mark.parametrize(
    "settings", [dict(kind="image-classes"), dict(kind="text-classes", dataset="labelled.csv", length=16)]
)
def test_it_is_scored_on_training_samples_that_it_is_not_trained_on(settings: dict[str, Any], here: Path) -> None:
    task = tasks.read(settings)
    check_parts(task.load(), TuningPart(of=task).load())


@pytest.mark.parametrize("kind", ["next-token", "masked-token"])
def test_texts_are_cut_in_two(kind: str, here: Path) -> None:
    settings = dict(
        kind=kind, dataset="words.txt", length=16, tokenizer="bytes" if kind == "next-token" else "wordpiece"
    )
    task = tasks.read(settings)
    whole, part = task.load(), TuningPart(of=task).load()
    assert isinstance(whole, NextTokenData | MaskedTokenData)
    assert isinstance(part, NextTokenData | MaskedTokenData)
    assert np.array_equal(np.concatenate([part.train.tokens, part.held_out.tokens]), whole.train.tokens)
    assert 0 < len(part.held_out.tokens) <= max(17, len(whole.held_out.tokens))
    assert part.size < whole.size
    assert part.identity != whole.identity


@pytest.mark.parametrize(
    "settings",
    [dict(kind="pixel-classes"), dict(kind="byte-classes", dataset="texts", length=24), dict(kind="farthest-point")],
)
def test_where_a_test_split_counts_it_is_hidden(settings: dict[str, Any], here: Path) -> None:
    task = tasks.read(settings)
    whole, part = task.load(), TuningPart(of=task).load()
    assert part.evaluate_final(torch.nn.Identity(), Share(), torch.device("cpu")) is None
    with pytest.raises(Exception):  # noqa: B017  no such model, but an evaluation is tried
        whole.evaluate_final(torch.nn.Identity(), Share(), torch.device("cpu"))


def test_a_record_gives_it_back_in_another_process() -> None:
    task = TuningPart(of=tasks.ImageClasses(dataset="digits", shift=1))
    assert tasks.read(task.to_dict()) == task
    assert task.to_dict() == {"kind": "tuning-part", "of": task.of.to_dict()}


@pytest.mark.parametrize(("size", "most", "scored"), [(1000, 500, 200), (1000, 50, 50), (2, 9, 1)])
def test_a_fifth_of_the_samples_and_no_more_than_are_held_out(size: int, most: int, scored: int) -> None:
    rest, part = tuning_rows(size, most)
    assert len(part) == scored
    assert sorted([*rest, *part]) == list(range(size))
    assert np.array_equal(tuning_rows(size, most)[1], part)


def test_too_few_samples_and_data_without_such_a_part_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be tuned on 1 training samples: needed are at least 2"):
        tuning_rows(1, 5)

    class Without(Data):
        source = "somewhere"

    Without.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError, match=r"somewhere has no part that settings can be tuned on: .*Without, needs a method"
    ):
        Without().for_tuning()  # type: ignore[abstract]


def test_a_task_of_ones_own_is_split_too() -> None:
    inputs, labels = torch.randn(50, 4), torch.randint(3, (50,))
    data = torch.utils.data.TensorDataset(inputs, labels)
    held_out = torch.utils.data.TensorDataset(inputs[:8] + 10, labels[:8])
    own = lf.task(train=data, held_out=held_out, loss="cross-entropy", metric="accuracy").load()
    assert (own.size, own.for_tuning().size) == (50, 42), "as many as are held out, since a fifth would be more"
    check_parts(own, own.for_tuning())
