"""What one device holds of a model that is divided among several."""

from dataclasses import replace

import pytest

from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.models.names import architecture_of

LLAMA = architecture_of("llama", width=64, depth=6, heads=4, head_dim=16, mlp_dim=128, vocab_size=100)
WHOLE = Setting(batch=4, tokens=32)


def held(**changes: object):
    setting = replace(WHOLE, **changes)
    return formula(LLAMA, setting).cost(LLAMA, setting).held


def test_the_state_is_divided_and_activations_are_not() -> None:
    params = formula(LLAMA, WHOLE).parameters(LLAMA).total
    one, eight = held(), held(shard="full", devices=8)
    assert (one.parameters, one.gradients, one.optimizer, one.gathered) == (4 * params, 4 * params, 8 * params, 0)
    assert (eight.parameters, eight.gradients, eight.optimizer) == tuple(-(-n * params // 8) for n in (4, 4, 8))
    assert eight.activations == one.activations
    layer = (params - 2 * 100 * 64 - 64) // 6
    assert eight.gathered == layer * 16 + 8 * (2 * 100 * 64 + 64)
    assert held(shard="full", devices=1) == held(devices=8) == one, "there is nothing to divide it among"


def test_a_divided_model_keeps_no_low_precision_copies_of_its_layers() -> None:
    """Autocast keeps a copy of each weight matrix; layers that are gathered in bfloat16 need none."""
    one, two = held(precision="bfloat16"), held(precision="bfloat16", shard="full", devices=2)
    stage = LLAMA.stages[0]
    matrices = 4 * stage.width * stage.inner_width + 3 * stage.width * stage.mlp_dim
    assert one.activations - two.activations == 2 * 6 * matrices


def test_the_peak_falls_with_devices() -> None:
    peaks = [held(shard="full", devices=devices).peak for devices in (2, 4, 8, 64)]
    assert peaks == sorted(peaks, reverse=True)
    with pytest.raises(ValueError, match="devices must be at least 1, got 0"):
        Setting(devices=0)
    with pytest.raises(ValueError, match="shard must be one of none, full, got 'half'"):
        Setting(shard="half")  # type: ignore[arg-type]
