"""Options in upstream's own words that are sizes: their type and their range, checked before a model is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

LEAST: dict[str, int] = {
    **dict.fromkeys(("num_classes",), 0),
    **dict.fromkeys(("num_labels", "in_chans", "vocab_size", "type_vocab_size", "point_dim"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "landmarks", "class_heads", "kv_groups"), 1),
}
"""Options that are whole numbers, and the least that each may be. Without classes, timm's models have no head."""
SIDES = ("img_size", "patch_size")
"""Options that are one whole number from 1 on, or two: height and width."""
LARGEST = 1 << 40
"""Beyond it, products of sizes leave the range of machine numbers."""


def check_options(options: Mapping[str, Any], name: str) -> None:
    """Raise a `ValueError` that names the option if one is not a size.

    Args:
        options: by name; those that are no sizes are left to upstream.
        name: of the model.
    """
    for option, value in options.items():
        if option in LEAST:
            _check(f"{name}: {option}", [value], LEAST[option], value)
        elif option in SIDES:
            sides = value if isinstance(value, (list, tuple)) else [value]
            _check(f"{name}: {option}", sides if len(sides) in (1, 2) else [None], 1, value)


def _check(what: str, numbers: Sequence[Any], least: int, value: Any) -> None:
    several = ", or two of them" if what.endswith(SIDES) else ""
    if not all(isinstance(number, Integral) and not isinstance(number, bool) for number in numbers):
        raise ValueError(f"{what} must be a whole number of at least {least}{several}, got {value!r:.60}")
    if not all(least <= int(number) <= LARGEST for number in numbers):
        raise ValueError(f"{what} must be at least {least} and at most {LARGEST:,}, got {value!r:.60}")
