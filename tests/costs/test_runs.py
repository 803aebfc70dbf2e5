"""What whole runs cost."""

import pytest

import leanformer as lf
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost


def test_a_whole_run() -> None:
    """ImageNet at 300 epochs: 384 M images of ViT-B, three passes of 17.56 G MACs each."""
    base, setting = lf.architecture_of("vit_base_patch16_224"), Setting(batch=128)
    cost = formula(base, setting).cost(base, setting)
    run = run_cost(cost, setting, WholeRun(samples=384_000_000, device="a100", devices=8, utilisation=0.35))
    assert run.flops == pytest.approx(6 * 17.56e9 * 384e6, rel=1e-3)
    assert run.device_hours == pytest.approx(run.flops / (156e12 * 0.35) / 3600)
    assert run.wall_hours == pytest.approx(run.device_hours / 8)
    assert run.energy_kwh == pytest.approx(run.device_hours * 0.4)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(samples=1, device="abacus"), "device must be one of a100, h100, .*, got 'abacus'"),
        (dict(samples=1, utilisation=2), "utilisation must be above 0 and at most 1, got 2"),
        (dict(samples=1, devices=0), "devices must be at least 1, got 0"),
        (dict(samples=0), "samples must be at least 1, got 0"),
    ],
)
def test_impossible_runs(choices: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WholeRun(**choices)
