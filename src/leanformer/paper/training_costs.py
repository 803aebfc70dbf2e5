"""What one training run of a published row takes at the paper's scale, by the cost model."""

from __future__ import annotations

import functools

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost
from leanformer.experiments import recipes
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import imagenet
from leanformer.models.published import TABLE_6
from leanformer.paper.record import TrainingCost

TABLES = {"Tab. 1": "crammed-bert-paper", "Tab. 2": "tinystories-paper"}
DEVICES = {"Tab. 1": "a6000", "Tab. 2": "a6000", "Tab. 3": "a6000", "Tab. 4": "a100", "Tab. 5": "a100"}
"""What the paper trained on (Appendix B)."""
STATES = 16
"""Bytes per parameter in float32: the parameter, its gradient, and AdamW's two averages."""


def recipe_of(table: str, model: str) -> str | None:
    """The recipe that trains a row at the paper's scale; None for Figure 3's."""
    if table == "Tab. 3":
        return f"{model.rpartition(', ')[2].lower()}-paper"
    if table in ("Tab. 4", "Tab. 5"):
        return imagenet.recipe_name(model)
    return TABLES.get(table)


def training_cost(table: str, model: str, design: Architecture) -> TrainingCost | None:
    """Hours on the paper's device, and memory at the recipe's batch; None for rows without a recipe."""
    name = recipe_of(table, model)
    if name is None:
        return None
    device = DEVICES[table]
    if table in TABLE_6.batch:  # the recipe need not be built, which would take longer than the count
        samples, batch, tokens = TABLE_6.epochs * imagenet.IMAGES, TABLE_6.batch[table] // 8, None
    else:
        made = _recipe(name)
        samples = made.training.order(0, None).first(made.training.steps)
        batch, tokens = made.training.batch // made.training.accumulate, tokens_of(made)
    setting = Setting(batch=batch, tokens=tokens, attention="explicit")
    cost = formula(design, setting).cost(design, setting)
    memory = (cost.saved_bytes + STATES * cost.params.total) / 1e9
    hours = run_cost(cost, setting, WholeRun(samples=samples, device=device)).device_hours
    return TrainingCost(recipe=name, device=device, hours=hours, memory_gb=memory)


def tokens_of(recipe: Recipe) -> int | None:
    """Tokens of a sample, which tasks call by several names; None where the model's images say it."""
    named = (getattr(recipe.task, name, None) for name in ("length", "max_length"))
    known = next((int(found) for found in named if found is not None), None)
    return 32 * 32 if known is None and recipe.original.family == "nystromformer" else known


@functools.cache
def _recipe(name: str) -> Recipe:
    return recipes.recipe(name)
