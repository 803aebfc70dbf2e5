"""How much is tested: a seeded sample by default, everything with LEANFORMER_TEST=all (`make test-all`)."""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

COMPLETE = os.environ.get("LEANFORMER_TEST") == "all"


def some(items: Sequence[Item], count: int, seed: int = 0) -> list[Item]:
    """A seeded sample of so many of the items, in their order; all of them in a complete run."""
    if COMPLETE or count >= len(items):
        return list(items)
    chosen = random.Random(seed).sample(range(len(items)), count)
    return [items[index] for index in sorted(chosen)]


def in_turn(keys: Sequence[str], choices: Sequence[Item], each: int = 1) -> list[tuple[str, Item]]:
    """Every key with `each` of the choices in turn, so that all keys and all choices occur; every pair if complete."""
    each = len(choices) if COMPLETE else each
    return [
        (key, choices[(index * each + turn) % len(choices)]) for index, key in enumerate(keys) for turn in range(each)
    ]
