"""How numbers are written for people: the one place that decides digits and units."""

from collections.abc import Mapping
from typing import Any

from leanformer.records.files import number

Record = Mapping[str, Any]


def significant(value: Any) -> str:
    """Three significant digits, as a person writes them."""
    value = number(value)
    if value == float("inf"):
        return "∞"
    if value >= 1e5:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def parameters(params: int) -> str:
    return f"{params / 1e6:.1f} M" if params >= 1e7 else f"{params:,}"


def size(number_of_bytes: float) -> str:
    return f"{number_of_bytes / 1e9:.1f} GB" if number_of_bytes >= 1e9 else f"{number_of_bytes / 1e6:.1f} MB"


def score(estimate: Record | None, metric: Record) -> str:
    if estimate is None:
        return "–"
    places = 2 if metric["unit"] == "%" else 3
    if estimate["t"] is None:
        return f"{estimate['mean']:.{places}f} (1 seed)"
    half = (estimate["t"]["high"] - estimate["t"]["low"]) / 2
    return f"{estimate['mean']:.{places}f} ± {half:.{places}f}"


def signed(difference: Record | None, metric: Record) -> str:
    if difference is None:
        return ""
    places = 2 if metric["unit"] == "%" else 3
    shown = f"{difference['mean']:+.{places}f}"
    if difference["t"] is None:
        return shown
    return f"{shown} [{difference['t']['low']:+.{places}f}, {difference['t']['high']:+.{places}f}]"


def metric_with_unit(record: Record) -> str:
    """The metric with its unit."""
    metric = record["metric"]
    return f"{metric['name']}, {metric['unit']}" if metric["unit"] else metric["name"]
