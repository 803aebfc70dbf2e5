"""What the shell completes: recipes, models, arms. Nothing here imports PyTorch: a person is waiting for a key."""

from __future__ import annotations

ARMS = ("original", "lean", "shallow", "wide")


def complete_recipes(incomplete: str) -> list[str]:
    from leanformer.experiments import recipes

    return [name for name in recipes.names() if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    from leanformer.models.catalogue import listed_names

    return [name for names in listed_names().values() for name in names if name.startswith(incomplete)]


def complete_arms(incomplete: str) -> list[str]:
    """Of a list with commas, the last name."""
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{arm}" for arm in ARMS if arm.startswith(last) and arm not in chosen]
