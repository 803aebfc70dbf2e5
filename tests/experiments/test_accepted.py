"""The arguments that type checkers see are those that the functions have."""

import inspect
from typing import Any

import pytest

import leanformer as lf
from leanformer.experiments.accepted import OfCompare, OfSweep
from leanformer.experiments.grid import SIZES


def accepted(kind: Any) -> dict[str, str]:
    """By name, the type as it is written."""
    return {name: written.__forward_arg__ for name, written in kind.__annotations__.items()}


@pytest.mark.parametrize(("function", "kind", "more"), [(lf.compare, OfCompare, ()), (lf.sweep, OfSweep, SIZES)])
def test_both_state_the_same_arguments(function: Any, kind: Any, more: tuple[str, ...]) -> None:
    parameters = inspect.signature(function).parameters
    stated = {name: str(parameter.annotation) for name, parameter in parameters.items()}
    for name in ("recipe", "dry_run", "plan_only", "sizes"):
        stated.pop(name, None)
    typed = accepted(kind)
    assert {name: type_ for name, type_ in typed.items() if name not in more} == stated
    assert set(more) <= typed.keys()


def test_help_shows_every_argument_and_both_results() -> None:
    for function, record in ((lf.compare, "Comparison"), (lf.sweep, "Sweep")):
        signature = inspect.signature(function)
        assert signature.return_annotation == f"{record} | Forecast | Status"
        assert len(signature.parameters) > 35
