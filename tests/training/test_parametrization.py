"""CompleteP: the same training as with branches that the model itself multiplies, for every family that can."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer.experiments.recipes import recipe
from leanformer.models.families import family
from leanformer.training.optimizer import build_optimizer, decay_groups
from leanformer.training.parametrization import branch_outputs, scale_branches
from leanformer.training.settings import Training
from support.architectures import SMALL

SETTINGS = Training(steps=4, lr=1e-2, weight_decay=0.1, eps=1e-3, parametrization="completep", base_depth=6)
FACTOR = 3.0  # 6 layers, where the small models have 2
ABLE = ["vit", "crammed-bert", "story-gpt", "nystromformer"]


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int = 4) -> list[float]:
    """Losses of a few steps on one batch. The learning rate is set as the loop does it."""
    torch.manual_seed(1)
    inputs = family(lf.describe(model).family).example_inputs(lf.describe(model), 3)
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
    found = []
    for _ in range(count):
        for group in optimizer.param_groups:
            group["lr"] = SETTINGS.lr * group.get("lr_scale", 1.0)
        outputs = model(**inputs)
        logits = outputs if isinstance(outputs, torch.Tensor) else outputs.logits
        loss = (logits**2).mean() + logits[..., 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", ABLE)
def test_it_trains_as_a_model_whose_branches_are_multiplied(name: str) -> None:
    torch.manual_seed(0)
    ours = lf.build(SMALL[name]).double().eval()
    theirs = copy.deepcopy(ours)
    scale_branches(ours, SETTINGS)
    for layer in branch_outputs(theirs):
        layer.register_forward_hook(lambda layer, inputs, output: FACTOR * output)
    parts = family(lf.describe(theirs).family).parts(theirs)
    blocks = [theirs.get_submodule(part.path.rpartition(".")[0]) for part in parts]
    inside = {id(parameter) for block in blocks for parameter in block.parameters()}
    groups = [
        {
            "params": [p for p in group["params"] if (id(p) in inside) == within],
            "weight_decay": group["weight_decay"],
            "eps": SETTINGS.eps * (FACTOR if within else 1.0),
        }
        for group in decay_groups(theirs, SETTINGS.weight_decay)
        for within in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, SETTINGS.lr, betas=SETTINGS.betas)
    assert steps(ours, build_optimizer(ours, SETTINGS)) == pytest.approx(steps(theirs, optimizer), rel=1e-9)
    for mine, other in zip(branch_outputs(ours), branch_outputs(theirs), strict=True):
        torch.testing.assert_close(mine.weight, FACTOR * other.weight, rtol=1e-8, atol=1e-10)


def test_at_the_base_depth_nothing_changes() -> None:
    at_base = replace(SETTINGS, base_depth=2)
    torch.manual_seed(0)
    ours = lf.build(SMALL["vit"]).double()
    theirs = copy.deepcopy(ours)
    scale_branches(ours, at_base)
    plain = build_optimizer(theirs, replace(SETTINGS, parametrization="standard", base_depth=None))
    assert steps(ours, build_optimizer(ours, at_base)) == pytest.approx(steps(theirs, plain), rel=1e-12)


def test_other_families_and_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"completep is for .*story-gpt.*; not davit"):
        branch_outputs(lf.build(SMALL["davit"]))
    with pytest.raises(ValueError, match="parametrization must be one of standard, completep, got 'mup'"):
        Training(steps=1, parametrization="mup")
    with pytest.raises(ValueError, match=r"base_depth must be .* only with parametrization=completep, got 4"):
        Training(steps=1, base_depth=4)


def test_a_comparison_takes_the_originals_depth() -> None:
    chosen = recipe("digits")
    fitted = replace(chosen, training=replace(chosen.training, parametrization="completep")).fitted({})
    assert fitted.training.base_depth == chosen.original.depth
    assert chosen.fitted({}).training == chosen.training
