"""Plain values that may differ in the last digits, since another processor rounds sums in another order."""

from typing import Any

import pytest


def differing(found: Any, expected: Any, rel: float, place: str = "") -> list[str]:
    """The places at which two nested plain values differ by more than rounding."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [line for key in found for line in differing(found[key], expected[key], rel, f"{place}.{key}")]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for index, pair in pairs for line in differing(*pair, rel, f"{place}[{index}]")]
    if isinstance(found, float) and isinstance(expected, float):
        return [] if found == pytest.approx(expected, rel=rel) else [f"{place}: {found} is not {expected}"]
    return [] if found == expected else [f"{place}: {found!r} is not {expected!r}"]
