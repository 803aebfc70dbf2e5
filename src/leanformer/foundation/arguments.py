"""Arguments as people give them: a number or a text such as "50%", "24GB" or "2,4,8-10", and errors that name them.

Python functions and commands take the same values under the same names, so a value is read here and nowhere else. An
error names the argument; the command line puts its option in that place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class ArgumentError(ValueError):
    """An argument that cannot be used.

    >>> raise ArgumentError("{depth} goes with {heads}, got {given!r}", given=7)

    Args:
        template: the message. A name in braces is an argument, unless `values` has it.
        values: what is put into the message as it is.
    """

    def __init__(self, template: str, **values: Any) -> None:
        self.template, self.values = template, values
        super().__init__(self.worded(lambda argument: argument))

    def worded(self, name: Callable[[str], str]) -> str:
        """The message, with every argument called as `name` says."""
        return self.template.format_map(_Words(self.values, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueError, (str(self),)


class _Words(dict[str, Any]):
    def __init__(self, values: Mapping[str, Any], name: Callable[[str], str]) -> None:
        super().__init__(values)
        self.name = name

    def __missing__(self, argument: str) -> str:
        return self.name(argument)


def size(argument: str, given: str | float, whole: float | None = None, unit: str = "") -> int:
    """A size as a whole number.

    Args:
        argument: what it is called.
        given: a number; or a text, with K, M, G or T for thousands, and the unit if there is one; or a share, with %.
        whole: what a share is a share of; None if a share makes no sense.
        unit: "B" for bytes.
    """
    try:
        found = int(_amount(given, whole, unit))
    except (ValueError, OverflowError):  # also NaN and infinity
        found = 0
    if found < 1:
        share, example = ("a share or a size", '"50%", ') if whole is not None else ("a size", "")
        raise ArgumentError(
            f'{{{argument}}} takes {share}, such as {example}"{"24GB" if unit else "40M"}", got "{{given}}"',
            given=given,
        )
    return found


def _amount(given: str | float, whole: float | None, unit: str) -> float:
    if isinstance(given, Real) and not isinstance(given, bool):
        return float(given)
    typed = given.strip().upper() if isinstance(given, str) else ""
    if typed.endswith("%") and whole is not None:
        return float(typed[:-1]) / 100 * whole
    typed = typed.removesuffix(unit)
    return float(typed[:-1]) * UNITS[typed[-1]] if typed[-1:] in UNITS else float(typed)


def numbers(argument: str, given: str | int | Iterable[int]) -> list[int]:
    """Whole numbers from 1 on: one of them, several, or a text such as "2,4,8-10"."""
    try:
        found = _read_numbers(given) if isinstance(given, str) else _listed(given)
    except (ValueError, TypeError):
        found = []
    if not found or min(found) < 1:
        raise ArgumentError(
            f'{{{argument}}} takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "{{given}}"', given=given
        )
    return found


def _read_numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _listed(given: Any) -> list[int]:
    listed = [given] if isinstance(given, Integral) else list(given)
    if not all(isinstance(number, Integral) and not isinstance(number, bool) for number in listed):
        raise TypeError
    return [int(number) for number in listed]


def at_least(least: int, **given: int | Sequence[int]) -> None:
    """Refuse numbers that are too small, and lists that are empty or hold one."""
    for name, value in given.items():
        if not isinstance(value, Sequence):
            if value < least:
                raise ArgumentError(f"{{{name}}} must be at least {least}, got {{given}}", given=value)
        elif not value or min(value) < least:
            raise ArgumentError(f"{{{name}}} must be numbers of at least {least}, got {{given}}", given=list(value))


def names(given: str | Iterable[str] | None) -> list[str] | None:
    """A list of names, or the same as a text, "a, b"; None stays None."""
    if given is None:
        return None
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)


def texts(given: str | Iterable[str]) -> list[str]:
    """A list of texts; a single one stands for itself."""
    return [given] if isinstance(given, str) else list(given)


def writable(folder: Path, argument: str = "out") -> Path:
    """The folder, if results can be written to it. Nobody should learn after hours of work that they cannot."""
    made: list[Path] = []
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: the name holds a null character
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"{{folder}} cannot be written to: {{reason}}; name another folder by {{{argument}}}",
            folder=folder,
            reason=reason,
        ) from error
    finally:
        for place in made:
            with suppress(OSError, ValueError):
                place.rmdir()
    return folder


# Types


def check_types(arguments: Mapping[str, Any], **others: tuple[Callable[[Any], bool], str]) -> None:
    """Refuse arguments of a wrong type, before anything is done. One argument means the same in every function.

    Args:
        arguments: what was given, by name; None and names that are not listed here are passed over.
        others: by name, what holds of the right values, and what they are in words.
    """
    for name, (holds, words) in {**TYPES, **others}.items():
        value = arguments.get(name)
        if value is not None and not holds(value):
            raise ArgumentError(f"{{{name}}} must be {{words}}, got {{value!r:.80}}", words=words, value=value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    listed = isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping))
    return isinstance(value, str) or (listed and all(isinstance(item, str) for item in value))


def _are_axes(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return _are_texts(value)
    return all(isinstance(values, Iterable) and not isinstance(values, (str, bytes)) for values in value.values())


TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "out": (_is_path, "a path"),
    "data": (_is_path, "a path"),
    "start": (_is_path, "a path"),
    "checkpoint": (_is_path, "a path"),
    "images": (_is_path, "a path"),
    "text": (_is_path, "a path"),
    "jobs": (_is_count, "a whole number"),
    "max_seeds": (_is_count, "a whole number"),
    "margin": (_is_number, "a number"),
    "budget": (lambda value: isinstance(value, str), 'a text, such as "steps" or "time=10m"'),
    "arms": (_are_texts, 'names, such as ["original", "lean"]'),
    "arm": (
        lambda value: isinstance(value, Mapping) or _are_texts(value),
        'arms by name, such as {"narrow": {"heads": 2}} or ["narrow:heads=2"]',
    ),
    "settings": (
        lambda value: isinstance(value, Mapping) or _are_texts(value),
        'settings by name, such as {"training.clip": 0.5} or ["training.clip=0.5"]',
    ),
    "vary": (_are_axes, 'axes with their values, such as {"heads": [1, 2, 4]} or ["heads=1,2,4"]'),
}
"""By argument: what holds of its values, and what they are in words."""
