"""The one check of a task's settings: types first, then ranges."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
"""Types of settings, in words."""


def check(
    task: Any,
    *,
    least: Mapping[str, int] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
    shares: Sequence[str] = (),
) -> None:
    """Raise a `ValueError` for the first setting of the wrong type or range.

    Args:
        task: a dataclass whose fields are numbers, texts, booleans, or one of these and None.
        least: the smallest value of a number, by setting.
        choices: all values of a text, by setting.
        shares: settings that lie between 0 and 1.
    """
    bounds, allowed = least or {}, choices or {}
    for name, kinds in _kinds(task.__class__).items():
        value, kind = getattr(task, name), kinds[0]
        if value is None and NoneType in kinds:
            continue
        in_range = name not in bounds or (_is(value, float) and value >= bounds[name])
        if not (_is(value, kind) and in_range and (name not in allowed or value in allowed[name])):
            words = NAMES[kind] + (f" of at least {bounds[name]}" if name in bounds else "")
            words = f"one of {', '.join(allowed[name])}" if name in allowed else words
            raise ValueError(f"{name} must be {words}{' or none' if NoneType in kinds else ''}, got {value!r}")
        if name in shares and not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")


@functools.cache
def _kinds(task: Any) -> dict[str, tuple[type, ...]]:
    """The types that each setting may have; settings of other types are the task's own to check."""
    hints = get_type_hints(task)
    kinds = {item.name: _members(hints[item.name]) for item in fields(task)}
    return {name: found for name, found in kinds.items() if all(kind in (*NAMES, NoneType) for kind in found)}


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a type: true is not a number, and a number is finite."""
    if kind is bool or isinstance(value, bool):
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, kind)
