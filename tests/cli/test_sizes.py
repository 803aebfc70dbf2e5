"""Sizes as people type them."""

import pytest

from leanformer.cli.sizes import size


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("50%", "", 500), ("40M", "", 40_000_000), ("24GB", "B", 24_000_000_000), ("8g", "", 8 * 10**9), (" 7 ", "", 7)],
)
def test_sizes(text: str, unit: str, value: int) -> None:
    assert size("--params", text, 1000, unit) == value


@pytest.mark.parametrize("text", ["", "x", "-5%", "0", "5Q", "%", "nan", "inf", "24GB"])
def test_wrong_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=f'--params takes a share or a size, such as "50%", "40M", got "{text}"'):
        size("--params", text, 1000)


def test_a_share_of_nothing() -> None:
    with pytest.raises(ValueError, match='--samples takes a size, such as "40M", got "50%"'):
        size("--samples", "50%")
