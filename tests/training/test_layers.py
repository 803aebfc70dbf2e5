"""How layers are run: computed again, compiled, or refused."""

from pathlib import Path

import pytest
from torch import nn

from leanformer.models import families
from leanformer.training.layers import set_layers
from leanformer.training.loop import train
from support import tiny_run
from support.architectures import SMALL


@pytest.mark.parametrize("setting", ["checkpointing", "compile"])
def test_the_curve_and_the_model_stay_the_same(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, dropout and κ included. The compiler's own rounding is left out: layers are only captured."""
    compiled, compiling = [], nn.Module.compile

    def captured(module: nn.Module) -> None:
        compiled.append(module)
        compiling(module, backend="eager")

    monkeypatch.setattr(nn.Module, "compile", captured)
    choices = dict(steps=6, evaluations=2, options={"proj_drop_rate": 0.1})
    plain = train(tiny_run.described(tmp_path / "plain", **choices))
    found = train(tiny_run.described(tmp_path / "set", **choices, **{setting: True}))
    assert found.losses == plain.losses
    assert found.evaluations == plain.evaluations
    assert found.model_sums == plain.model_sums
    assert len(compiled) == (2 if setting == "compile" else 0)


def test_a_language_model_is_saved_with_its_cache_on() -> None:
    model = families.build(SMALL["llama"]).train()
    before = model.config.use_cache
    set_layers(model, tiny_run.training(checkpointing=True))
    assert model.config.use_cache == before
    assert model.is_gradient_checkpointing
    assert model(**families.example_inputs(SMALL["llama"])).past_key_values is None


def test_what_layers_cannot_do_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run the batch norms of .*xcit.* twice per step.*set checkpointing=false"):
        set_layers(families.build(SMALL["xcit"]), tiny_run.training(checkpointing=True))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match=r"compile=true needs a C\+\+ compiler .*or set compile=false"):
        set_layers(families.build(SMALL["vit"]), tiny_run.training(compile=True))
