"""What is held equal between arms: read from a text, and turned into steps."""

from dataclasses import replace

import pytest

from leanformer.costs.closed_forms import Setting, formula
from leanformer.experiments.budgets import Budget, steps_of
from support import tiny_run as trained
from support.tiny_run import recipe


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("steps", Budget(kind="steps")),
        ("steps=2000", Budget(kind="steps", amount=2000)),
        ("tokens=50M", Budget(kind="tokens", amount=50e6)),
        ("flops=1e15", Budget(kind="flops", amount=1e15)),
        ("time=1.5h", Budget(kind="time", amount=5400)),
        ("time=90", Budget(kind="time", amount=90)),
    ],
)
def test_budgets_are_read(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "days", "steps=", "steps=0", "time=10y", "flops=-1", "tokens=many"])
def test_wrong_budgets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'a budget is one of steps, epochs, tokens, flops, time, .* got "{text}"'):
        Budget.parse(text)


def test_what_is_held_equal_decides_the_steps() -> None:
    chosen, data = replace(recipe(), arms=("original", "lean")), trained.digits()
    designs = chosen.architectures()

    def steps(budget: str) -> dict[str, int]:
        return steps_of(Budget.parse(budget), designs, chosen.original, data, replace(chosen.training, steps=1000))

    assert steps("steps") == {"original": 1000, "lean": 1000}
    assert steps("steps=7") == {"original": 7, "lean": 7}
    assert steps("tokens=6400") == {"original": 100, "lean": 100}  # 16 images of 4 tokens a step
    equal = steps("flops")
    setting = Setting(batch=16)
    macs = {arm: formula(design, setting).cost(design, setting).forward_macs for arm, design in designs.items()}
    assert equal["original"] == 1000
    assert equal["lean"] * macs["lean"] == pytest.approx(1000 * macs["original"], rel=1e-3)
    timed = steps("time")
    assert timed["original"] == 1000
    assert timed["lean"] > 1000
    with pytest.raises(ValueError, match="the budget flops=10 is less than one step"):
        steps("flops=10")
