"""What training functions return."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from leanformer.experiments.own_loop.returned import BadScore, Returned


@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), {"accuracy": 0.5}, {"score": 0.5, "note": "x", "bad": math.nan}]
)
def test_a_score_is_a_number_or_in_a_mapping(value: Any) -> None:
    assert Returned.of(value, "accuracy").final == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "train returned None, where a number is needed"),
        (math.nan, "train returned nan, where a finite number is needed"),
        (-math.inf, "train returned -inf, where a finite number is needed"),
        ("0.5", "train returned '0.5', where a number is needed"),
        (True, "train returned True, where a number is needed"),
        (torch.tensor(0.5), "train returned a Tensor, where a number is needed; .item() makes a number of a tensor"),
        ({"score": [1]}, "train returned 'score': [1], where a number is needed"),
        ({"accuracy": math.nan, "score": 1}, "train returned 'accuracy': nan"),
        ({"loss": 1}, "train returned a mapping without 'accuracy' and without 'score'; it has 'loss'"),
        ([0.5] * 99, "…, where a number is needed"),
    ],
)
def test_anything_else_is_refused(value: Any, message: str) -> None:
    with pytest.raises(BadScore, match=re.escape(message)):
        Returned.of(value, "accuracy")


def test_curves_come_as_pairs_or_as_the_trainers_log() -> None:
    history = [{"loss": 2.0, "step": 5}, {"eval_loss": 1.5, "step": 5}, {"eval_loss": 1.0, "step": 10}, {"epoch": 1}]
    logged = Returned.of({"eval_loss": 1.0, "epoch": 2.0, "curve": history}, "eval_loss")
    assert (logged.curve, logged.losses) == ([(5, 1.5), (10, 1.0)], [(5, 2.0)])
    assert logged.final == {"epoch": 2.0, "eval_loss": 1.0}
    assert [point.step for point in logged.evaluations("eval_loss", 10, None, None)] == [5, 10]
    paired = Returned.of({"score": 3, "curve": [(1, 2.0), "xy", (2, math.nan)], "losses": [[1, 9]]}, "score")
    assert (paired.curve, paired.losses) == ([(1, 2.0)], [(1, 9.0)])
    assert paired.notes == ["curve holds points that are not (step, value); they are left out"]
    assert [(point.step, point.scores) for point in paired.evaluations("score", 7, None, None)] == [
        (1, {"score": 2.0}),
        (7, {"score": 3.0}),
    ]
