"""What the papers and the repositories that they cite say about training, in one table, and how our recipes compare.

A value stands here as its source has it. `departures` names every setting in which a recipe differs. What no setting
expresses (wall clock as a budget, interpolation, precision) is stated in the recipe's own docstring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from leanformer.experiments import recipes
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes.imagenet import IMAGES, recipe_name
from leanformer.models.published import TABLE_6, VISION
from leanformer.paper.record import CitedSetting

MAGNITUDE, DEVIATION = TABLE_6.rand_augment


@dataclass(frozen=True)
class Cited:
    """What one source says."""

    source: str
    recipes: str
    """Which recipes follow it: names, separated by |, with * for any text."""
    settings: Mapping[str, Any]
    """By name: "training.lr", "task.length", or "option.dropout" of the original."""

    def followed_by(self, name: str) -> bool:
        """Whether a recipe of that name follows the source."""
        return any(fnmatch(name, pattern) for pattern in self.recipes.split("|"))


CITED = (
    *(
        Cited(
            "Leaner Transformers, Table 6",
            "|".join(recipe_name(row.model) for row in VISION[::2] if row.table == table),
            {"training.batch": batch, "training.steps": TABLE_6.epochs * IMAGES // batch},
        )
        for table, batch in TABLE_6.batch.items()
    ),
    Cited(
        "Leaner Transformers, Table 6",
        "imagenet-*",
        {
            "training.lr": TABLE_6.lr,
            "training.weight_decay": TABLE_6.weight_decay,
            "training.warmup": TABLE_6.warmup_epochs / TABLE_6.epochs,
            "training.warmup_lr": TABLE_6.warmup_lr,
            "task.label_smoothing": TABLE_6.label_smoothing,
            "task.mixup": TABLE_6.mixup,
            "task.cutmix": TABLE_6.cutmix,
            "task.auto_augment": f"rand-m{MAGNITUDE}-mstd{DEVIATION}",
            "option.drop_path_rate": TABLE_6.drop_path,
        },
    ),
    Cited(
        "cramming, config/train and config/arch/crammed-bert; Leaner Transformers, Appendix B.2",
        "crammed-bert-paper",
        {
            "training.lr": 1e-3,
            "training.betas": (0.9, 0.98),
            "training.eps": 1e-12,
            "training.weight_decay": 0.01,
            "training.clip": 0.5,
            "training.batch": 8192,
            "training.accumulate": 8192 // 128,
            "training.ramp": 0.6,
            "training.schedule": "triangle",
            "training.schedule_over": "samples",
            "training.warmup": 0.75,
            "training.warmup_lr": 0.25 * 1e-3,
            "task.length": 128,
            "task.share": 0.25,
            "task.tokenizer": "wordpiece:32768",
        },
    ),
    Cited(
        "cramming, config/eval/GLUE_sane",
        "glue-*",
        {
            "training.batch": 16,
            "training.lr": 4e-5,
            "training.schedule": "cosine",
            "training.warmup": 0.1,
            "training.weight_decay": 0.0,
            "training.clip": None,
            "training.betas": (0.9, 0.98),
            "training.eps": 1e-6,
            "task.length": 128,
            "task.two_ends": True,
            "option.hidden_dropout": 0.1,
            "option.attention_dropout": 0.1,
        },
    ),
    Cited(
        "Nyströmformer, LRA/code/run_tasks.py and model.py",
        "*-paper",
        {
            "training.lr": 1e-4,
            "training.schedule": "one-cycle",
            "training.cycle_momentum": True,
            "training.betas": (0.9, 0.999),
            "training.eps": 1e-6,
            "training.weight_decay": 0.0,
            "training.clip": None,
            "option.pool_by": "padded",
            "option.dropout": 0.1,
            "option.mlp_dropout": 0.1,
        },
    ),
    *(
        Cited(
            "Nyströmformer, LRA/code/lra_config.py",
            f"{task}-paper",
            {"training.batch": batch, "training.warmup": warmup, "training.steps": steps},
        )
        for task, batch, warmup, steps in (
            ("listops", 32, 1000, 5000),
            ("text", 32, 8000, 20_000),
            ("retrieval", 32, 800, 30_000),
            ("image", 256, 175, 35_000),
            ("pathfinder", 256, 312, 62_400),
        )
    ),
    Cited(
        "Tiny-Stories-GPT, gpt.py",
        "tinystories-paper",
        {
            "training.batch": 128,
            "training.steps": 2000,
            "training.lr": 3e-4,
            "training.schedule": "constant",
            "training.warmup": 0,
            "training.weight_decay": 0.01,
            "training.decay": "all",
            "training.clip": None,
            "task.length": 64,
            "task.stream": 12_000,
            "task.held_out": 0.1,
            "task.windows": "random",
            "task.tokenizer": "gpt2",
        },
    ),
    Cited(
        "Quality over Quantity, Appendix B, and attention-formers",
        "farthest-paper",
        {
            "training.lr": 0.01,
            "training.batch": 256,
            "training.steps": 100_000,
            "training.betas": (0.9, 0.95),
            "training.weight_decay": 0.0,
            "training.schedule": "cosine",
            "training.warmup": 0.05,
            "task.dim": 64,
            "task.points": 16,
        },
    ),
)
"""Every source, in the order of the papers. The Nyströmformer's settings are those of its recipes alone."""


def cited_for(recipe: Recipe) -> dict[str, Any]:
    """All that is cited for a recipe, by setting."""
    found: dict[str, Any] = {}
    for cited in CITED:
        of_another = cited.recipes == "*-paper" and recipe.original.family != "nystromformer"
        if cited.followed_by(recipe.name) and not of_another:
            found |= cited.settings
    return found


def value_of(recipe: Recipe, name: str) -> Any:
    """A recipe's own value of a cited setting."""
    where, _, key = name.partition(".")
    return recipe.original.options.get(key) if where == "option" else getattr(getattr(recipe, where), key)


def cited_settings() -> tuple[CitedSetting, ...]:
    """Every cited setting, and whether all recipes that follow its source have it."""
    made = {name: recipes.recipe(name) for name in recipes.names() if any(c.followed_by(name) for c in CITED)}
    found = []
    for cited in CITED:
        followers = [recipe for recipe in made.values() if cited.settings.items() <= cited_for(recipe).items()]
        for setting, value in cited.settings.items():
            same = bool(followers) and all(value_of(recipe, setting) == value for recipe in followers)
            found.append(
                CitedSetting(source=cited.source, recipes=cited.recipes, setting=setting, cited=f"{value}", same=same)
            )
    return tuple(found)


def departures(recipe: Recipe) -> list[str]:
    """In words, the cited settings in which a recipe differs from its source."""
    return [
        f"{name} is {value_of(recipe, name)!r}, cited is {value!r}"
        for name, value in cited_for(recipe).items()
        if value_of(recipe, name) != value
    ]
