"""A user's functions by name: `file.py:name` or `package.module:name`, as the command line gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from leanformer.foundation.registry import is_reference, resolve


def train_in_place_of_recipe(arguments: Mapping[str, Any], usual: str) -> dict[str, Any]:
    """What of the arguments changes if `recipe` is a training function, or a reference to one.

    Args:
        arguments: of `leanformer.compare` or `leanformer.sweep`.
        usual: the recipe where none is named.
    """
    if arguments["train"] is not None or arguments["command"] is not None:
        return {}
    train = _training_function(arguments["recipe"])
    return {} if train is None else {"train": train, "recipe": usual}


def _training_function(given: Any) -> Callable[..., Any] | None:
    """A function of model, seed and folder; None for anything else."""
    found = named_or_given(given)
    if not inspect.isfunction(found) or _takes(found, 0):
        return None
    return found if _takes(found, 3) else None


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    return True


def named_or_given(given: Any) -> Any:
    """What a reference names; anything else, such as a function or the name of a known model, stays as it is."""
    return resolve(given) if is_reference(given) else given
