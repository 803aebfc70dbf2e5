"""The paper-scale recipes have the settings of the code that the papers cite."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from leanformer.data.order import Order
from leanformer.experiments import recipes
from leanformer.models.published import VISION
from leanformer.paper.cited import CITED, cited_for, cited_settings, departures
from leanformer.paper.record import Scorecard
from leanformer.tasks.image_classes import ImageClasses, timm_preparation
from leanformer.training.settings import Training

MADE = {name: recipes.recipe(name) for name in recipes.names()}
FOLLOWED = [name for name, recipe in MADE.items() if cited_for(recipe)]


def test_every_source_is_followed_by_a_recipe_and_every_recipe_of_the_papers_has_a_source() -> None:
    assert {setting for cited in CITED for setting in cited.settings} == {
        setting for name in FOLLOWED for setting in cited_for(MADE[name])
    }
    of_the_papers = {name for name in recipes.names() if name.startswith(("imagenet-", "glue-"))}
    of_the_papers |= {name for name in recipes.names() if name.endswith("-paper")}
    assert of_the_papers - set(FOLLOWED) == {"farthest-length-paper", "farthest-dimension-paper"}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_recipe_has_the_cited_settings(name: str) -> None:
    recipe = MADE[name]
    assert departures(recipe) == []
    assert name.startswith(("glue-", "farthest-")) or "What differs" in recipes.description(name)
    changed = replace(recipe, training=replace(recipe.training, lr=7.0))
    assert departures(changed) == [f"training.lr is 7.0, cited is {recipe.training.lr!r}"]


def test_the_recorded_settings_are_todays() -> None:
    recorded = Scorecard.read(Path(__file__).parents[2] / "results" / "paper" / "scorecard.json")
    assert recorded.settings == cited_settings()
    assert all(row.same for row in recorded.settings)


def test_crammed_berts_schedule_is_a_triangle_over_the_budget() -> None:
    """cramming's get_budget_triangle(falloff=0.25, base_percentage=0.25), with samples in the place of hours."""
    training = recipes.recipe("crammed-bert-paper").training
    order = training.order(seed=0, size=None)
    whole = order.first(training.steps)
    assert (order.batch_at(0), order.batch_at(training.steps - 1)) == (128, 8192)
    for step in range(0, training.steps, 501):
        done = order.first(step) / whole
        wanted = min(0.25 + done * 0.75 / 0.75, 1 / 0.25 - done / 0.25)
        assert training.lr_at(step) / training.lr == pytest.approx(wanted, abs=2e-3)
        assert order.batch_at(step) == pytest.approx(min(1.0, done / 0.6) * 8192, abs=130)


def test_a_ramp_over_samples_takes_as_many_steps_as_asked_and_no_sample_twice() -> None:
    for pieces, steps, share in ((4, 12, 0.5), (64, 1000, 0.6), (3, 2, 1.0), (1, 5, 0.6)):
        order = Order(seed=0, batch=8 * pieces, size=None, pieces=pieces, ramp_share=share, steps=steps)
        taken = [order.indices(step) for step in range(steps)]
        assert torch.equal(torch.cat([torch.from_numpy(rows) for rows in taken]), torch.arange(order.first(steps)))
        sizes = [len(rows) for rows in taken]
        assert sizes == sorted(sizes)
        assert order.batch_at(steps + 3) == 8 * pieces


def test_one_cycle_moves_the_momentum_as_torch_does() -> None:
    settings = Training(steps=40, lr=0.3, schedule="one-cycle", warmup=8, cycle_momentum=True, betas=(0.9, 0.97))
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=0.3, betas=(0.9, 0.97))
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.3, total_steps=40, pct_start=8 / 40, anneal_strategy="linear"
    )
    for step in range(40):
        assert settings.betas_at(step) == pytest.approx(optimizer.param_groups[0]["betas"], rel=1e-9), step
        optimizer.step()
        if step < 39:
            cycle.step()
    with pytest.raises(ValueError, match="cycle_momentum must be true or false, and true only with schedule=one-cycle"):
        Training(steps=1, cycle_momentum=True)


def test_settings_of_older_folders_mean_what_they_did() -> None:
    """What is new has a default that changes nothing."""
    old = Training.from_dict({"steps": 10, "batch": 8, "accumulate": 4, "ramp": 0.5, "betas": [0.9, 0.95]})
    assert old.order(1, 99) == Order(1, 8, 99, 4, 5)
    assert {old.betas_at(step) for step in range(10)} == {(0.9, 0.95)}
    assert (old.decay, old.schedule_over, old.cycle_momentum) == ("matrices", "steps", False)


@pytest.mark.parametrize("row", VISION[::2], ids=lambda row: row.model)
def test_images_are_prepared_as_timm_says_of_each_model(row) -> None:  # type: ignore[no-untyped-def]
    import timm

    stated = timm.get_pretrained_cfg(row.base)
    found = timm_preparation(row.base)
    assert (found["mean"], found["crop_pct"]) == (list(stated.mean), stated.crop_pct)
    recipe = next(r for r in MADE.values() if getattr(r.task, "prepared_as", "") == row.base)
    assert isinstance(recipe.task, ImageClasses)
    with pytest.raises(ValueError, match="prepared_as must be the name of a timm model, got 'nothing'"):
        timm_preparation("nothing")
