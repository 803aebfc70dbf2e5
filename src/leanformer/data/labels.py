"""Labels as they come, in words or numbers, and as a classifier needs them: numbers from 0, with the classes' names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leanformer.data import checks
from leanformer.data.checks import BadData


def are_words(values: Sequence[Any]) -> bool:
    """Whether a column of labels holds texts."""
    return bool(len(values)) and all(isinstance(value, str) for value in values)


def as_word(value: Any) -> str | None:
    """A label as the name of a class; None for a missing one, and for what is neither a word nor a whole number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, bool, int)):
        return str(value).strip() or None
    return None


def class_names(words: Iterable[str]) -> tuple[str, ...]:
    """The classes, each once: numbers by size, words by the alphabet."""
    found = set(words)
    if all(_is_whole(word) for word in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))


def _is_whole(word: str) -> bool:
    digits = word.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 18


def numbered(words: Sequence[str], names: Sequence[str], where: checks.Where) -> np.ndarray:
    """The number of each label's class. A class without a number is an error."""
    number_of = {name: number for number, name in enumerate(names)}
    for row, word in enumerate(words):
        if word not in number_of:
            raise BadData(f"{where(row)}: the class {checks.shortened(word)} has no training samples")
    return np.array([number_of[word] for word in words], dtype=np.int64)
