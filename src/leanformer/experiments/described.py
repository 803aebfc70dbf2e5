"""The settings of a recipe, each with its value, its type and a line of explanation, for people.

Explanations are the texts beneath the fields in the source, so that there is one place for them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from leanformer.experiments.recipe import Recipe
from leanformer.tasks.own import OwnTask
from leanformer.tasks.settings import NAMES


@dataclass(frozen=True)
class Setting:
    """One setting as it is shown."""

    name: str
    """As it is set: training.lr, task.flip."""
    value: Any
    type: str
    explanation: str


def settings_of(recipe: Recipe) -> list[Setting]:
    """Every setting of the training and of the task that can be changed by name."""
    return [*_of("training", recipe.training), *([] if isinstance(recipe.task, OwnTask) else _of("task", recipe.task))]


def _of(where: str, holder: Any) -> Iterator[Setting]:
    kind: Any = type(holder)
    texts, hints = explanations(kind), get_type_hints(kind)
    for item in fields(holder):
        value = getattr(holder, item.name)
        yield Setting(f"{where}.{item.name}", value, in_words(hints[item.name]), texts.get(item.name, ""))


def in_words(hint: Any) -> str:
    """A type, as people say it."""
    if get_origin(hint) in (Union, UnionType):
        words = [in_words(member) for member in get_args(hint) if member is not NoneType]
        return " or ".join([*words, *(["null"] if NoneType in get_args(hint) else [])])
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) in (tuple, list):
        return (
            f"a list of {', '.join(dict.fromkeys(in_words(member).removeprefix('a ') for member in get_args(hint)))}s"
        )
    return NAMES.get(hint) or str(getattr(hint, "__name__", hint))


@functools.cache
def explanations(holder: Any) -> dict[str, str]:
    """The text beneath each field of a dataclass and of those that it extends, in one line."""
    found: dict[str, str] = {}
    for each in reversed(holder.__mro__[:-1]):
        try:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        except (OSError, TypeError):  # made where there is no source
            continue
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found
