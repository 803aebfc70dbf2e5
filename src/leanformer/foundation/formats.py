"""How numbers are written for people: the one place that decides digits, units and plurals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

NOTHING = "–"
"""Shown in a table where a value is missing."""


def significant(value: float | None) -> str:
    """Three significant digits, as a person writes them."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "∞"
    if value >= 1e5:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def decimals(unit: str) -> int:
    """Digits of a score: hundredths of points, thousandths of anything else."""
    return 2 if unit == "%" else 3


def tenths(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def parameters(params: int | None) -> str:
    if params is None:
        return NOTHING
    return millions(params) if params >= 1e7 else f"{params:,}"


def millions(number: float) -> str:
    return f"{number / 1e6:.1f} M"


def gigabytes(number_of_bytes: float) -> str:
    """Without the unit."""
    return f"{number_of_bytes / 1e9:.1f}"


def size(number_of_bytes: float | None) -> str:
    if number_of_bytes is None:
        return NOTHING
    if number_of_bytes >= 1e9:
        return f"{gigabytes(number_of_bytes)} GB"
    return f"{number_of_bytes / 1e6:.1f} MB" if number_of_bytes >= 1e6 else f"{number_of_bytes / 1e3:.1f} kB"


def billions(macs: float) -> str:
    """Without the unit."""
    return f"{macs / 1e9:.2f}"


def large(number: float) -> str:
    """Millions or billions, by its size."""
    return f"{billions(number)} G" if number >= 1e8 else f"{number / 1e6:.2f} M"


def milliseconds(seconds: float | None) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds else NOTHING


def whole(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours."""
    if seconds is None:
        return NOTHING
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def counted(number: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def counted_range(numbers: Sequence[int], word: str) -> str:
    """3 seeds, or 2 to 3 seeds."""
    least, most = min(numbers), max(numbers)
    return counted(most, word) if least == most else f"{least} to {most} {word}s"


def in_words(parts: Sequence[str]) -> str:
    """One, one and two, or one, two and three."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def joined(values: Sequence[Any], separator: str = " ") -> str:
    """One value where all agree, else all of them."""
    return str(values[0]) if len(set(values)) == 1 else separator.join(map(str, values))
