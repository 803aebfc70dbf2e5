"""Outcomes of held-out samples: kept at the end of a run, whole over processes, and checked against the score."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import leanformer as lf
from leanformer.data.order import Share
from leanformer.experiments.plan import folder_of
from leanformer.tasks.base import HeldOutSums
from leanformer.training.outcomes import OUTCOMES, interleaved, read_outcomes
from leanformer.training.result import read_result
from support.tiny_run import recipe


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("outcomes") / "out"
    lf.compare(recipe(), arms=["original", "lean"], seeds=3, steps=4, out=out, jobs=1, report=False)
    return out


def test_the_mean_of_the_outcomes_is_the_score(out: Path) -> None:
    run = folder_of(out, "lean", 1)
    result = read_result(run)
    found = read_outcomes(run, result)
    assert set(np.unique(found)) <= {0.0, 1.0}
    assert 100 * found.mean() == pytest.approx(result.score)
    assert (run / OUTCOMES).stat().st_size < len(found) + 200, "a byte for every sample"


def test_comparisons_have_the_interval_for_other_samples(out: Path) -> None:
    record = lf.Comparison.read(out / "comparison.json")
    samples = record.verdict.lean["original"].samples
    results = {arm: [read_result(folder_of(out, arm, seed)) for seed in range(3)] for arm in ("lean", "original")}
    ours, theirs = (
        np.stack([read_outcomes(folder_of(out, arm, seed), results[arm][seed]) for seed in range(3)]) for arm in results
    )
    assert samples.samples == ours.shape[1]
    assert samples.gained == pytest.approx(((ours == 1) & (theirs == 0)).sum() / 3)
    assert samples.interval.half >= record.verdict.lean["original"].difference.t.half
    assert any("for other samples like these" in line for line in record.sentences())


def test_outcomes_that_do_not_fit_the_score_are_refused(out: Path, tmp_path: Path) -> None:
    result = read_result(folder_of(out, "lean", 0))
    assert read_outcomes(tmp_path, result) is None
    save_file({"outcomes": torch.zeros(360, dtype=torch.uint8)}, tmp_path / OUTCOMES)
    with pytest.raises(ValueError, match=r"outcomes.safetensors has a mean of 0, the run's result says .*: delete it"):
        read_outcomes(tmp_path, result)
    (tmp_path / OUTCOMES).write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"outcomes.safetensors is damaged.*: delete it to judge by the scores alone"):
        read_outcomes(tmp_path, result)
    (tmp_path / OUTCOMES).unlink()
    (tmp_path / OUTCOMES).symlink_to(OUTCOMES)
    with pytest.raises(ValueError, match=r"outcomes.safetensors is damaged \(it is not a plain file\): delete it"):
        read_outcomes(tmp_path, result)


def test_losses_become_parts_of_the_mean(out: Path, tmp_path: Path) -> None:
    result = read_result(folder_of(out, "lean", 0))
    loss = result.changed(metric=lf.Metric("loss", "nats", False))
    save_file({"outcomes": torch.tensor([10.0, 20.0, 30.0])}, tmp_path / OUTCOMES)
    found = read_outcomes(tmp_path, loss)
    assert found == pytest.approx(loss.score * np.asarray([0.5, 1.0, 1.5]))


def test_shares_of_processes_are_put_together_in_order() -> None:
    whole = torch.arange(7)
    assert interleaved([whole[0::3], whole[1::3], whole[2::3]]).tolist() == whole.tolist()
    assert interleaved([torch.empty(0)]) is None
    assert interleaved([whole, whole[:0]]) is None, "one process evaluated everything"


@pytest.mark.parametrize(
    ("loss", "metric", "targets", "right_or_wrong"),
    [
        ("cross-entropy", "accuracy", torch.arange(40) % 3, True),
        ("mse", "mae", torch.linspace(0, 1, 40)[:, None].expand(40, 3), False),
        ("mse", lambda outputs, wanted: (outputs - wanted).abs().amax(1), torch.rand(40, 3), False),
    ],
    ids=["classes", "numbers", "own metric"],
)
def test_tasks_of_ones_own_keep_them_too(loss: str, metric: Any, targets: Tensor, right_or_wrong: bool) -> None:
    inputs = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(inputs, targets)
    direction = {"higher_is_better": False} if callable(metric) else {}
    own = lf.task(train=data, held_out=data, loss=loss, metric=metric, evaluated=16, **direction).load()
    torch.manual_seed(0)
    sums = own.evaluate(nn.Linear(4, 3), Share(), torch.device("cpu"))
    assert isinstance(sums, HeldOutSums)
    parts = torch.cat(sums.parts)
    assert len(parts) == 40
    assert (parts.dtype == torch.bool) == right_or_wrong
    score, mean = own.score(sums)[own.metric.name], parts.double().mean().item()
    if right_or_wrong:
        assert score == pytest.approx(100 * mean)
    else:
        assert score == pytest.approx(mean if callable(metric) else mean / 3, rel=1e-5)
