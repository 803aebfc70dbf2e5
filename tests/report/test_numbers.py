"""Numbers as a person writes them."""

import math

import pytest

from leanformer.foundation.formats import significant


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1"), (3.456, "3.46"), (123.4, "123"), (54_321, "54,321"), (7.2e6, "7.2·10⁶"), (math.inf, "∞"), (None, "–")],
)
def test_three_significant_digits(value: float | None, words: str) -> None:
    assert significant(value) == words
