"""Which layers stay: rules on what a model does, and numbers that people give."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leanformer.conditioning.inputs import Inputs
from leanformer.inheriting.calibration import Calibration, Loss
from leanformer.inheriting.selection import Selection, check_given, given_layers
from leanformer.models import families
from support.architectures import SMALL
from support.trained import shaken


class Known:
    """A calibration whose results are known: what is lost is the sum of the worth of the layers that are missing."""

    def __init__(self, influences: list[float], worth: list[float], pairs: dict[frozenset[int], float]) -> None:
        self.known, self.worth, self.pairs = influences, worth, pairs

    def influences(self) -> list[float]:
        return self.known

    def without(self, layers: list[int]) -> Loss:
        together = sum(extra for pair, extra in self.pairs.items() if pair <= set(layers))
        return Loss("loss", sum(self.worth[layer] for layer in layers) + together)


def chosen(rule: str, keep: list[int], stages: list[int], known: Known) -> list[int]:
    return Selection(stages, keep).chosen(rule, known, lambda text: None)  # type: ignore[arg-type]


def test_rules_choose_what_they_say() -> None:
    known = Known([0.5, 0.1, 0.4, 0.2, 0.9, 0.3], [9, 1, 2, 3, 8, 7], {frozenset({1, 2}): 10.0})
    stages = [0] * 6
    assert chosen("first", [3], stages, known) == [0, 1, 2]
    assert chosen("even", [3], stages, known) == [0, 2, 4]
    assert chosen("even", [4], stages, known) == [0, 1, 3, 4]
    assert chosen("influence", [3], stages, known) == [0, 2, 4]
    assert chosen("ablation", [3], stages, known) == [0, 4, 5]
    assert chosen("ablation", [4], stages, known) == [0, 3, 4, 5], "1 and 2 are each missed little"
    assert chosen("greedy", [4], stages, known) == [0, 2, 4, 5], "without 1, layer 2 is missed more than 3"


def test_the_greedy_rule_says_in_which_order_layers_went() -> None:
    known = Known([0.1] * 4, [4, 1, 3, 2], {})
    selection = Selection([0] * 4, [1])
    assert selection.chosen("greedy", known, lambda text: None) == [0]  # type: ignore[arg-type]
    assert [(row.layer, row.removed, row.kept) for row in selection.scores([0])] == [
        (0, None, True), (1, 1, False), (2, 3, False), (3, 2, False),
    ]  # fmt: skip


@given(st.data())
def test_every_stage_keeps_as_many_as_were_asked_for(data: st.DataObject) -> None:
    depths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    keep = [data.draw(st.integers(1, depth)) for depth in depths]
    stages = [stage for stage, depth in enumerate(depths) for _ in range(depth)]
    numbers = st.lists(st.floats(0, 1), min_size=len(stages), max_size=len(stages))
    known = Known(data.draw(numbers), data.draw(numbers), {})
    for rule in ("first", "even", "influence", "ablation", "greedy"):
        kept = chosen(rule, keep, stages, known)
        assert kept == sorted(set(kept))
        assert [sum(stages[layer] == stage for layer in kept) for stage in range(len(depths))] == keep


@pytest.mark.parametrize(
    ("text", "layers"), [("influence", None), ("0,2,4", [0, 2, 4]), ([1, 3], [1, 3]), (np.array([1, 3]), [1, 3])]
)
def test_layers_are_read(text: object, layers: list[int] | None) -> None:
    assert given_layers(text) == layers  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["best", "", "0;2", [0.5], ["a"], 3, None])
def test_other_layers_are_refused(wrong: object) -> None:
    with pytest.raises(
        ValueError, match="layers takes one of influence, ablation, greedy, first, even, or the numbers"
    ):
        given_layers(wrong)  # type: ignore[arg-type]


def test_layers_by_hand_must_fit() -> None:
    with pytest.raises(ValueError, match="there is no layer 6; the trained model has 6 layers, 0 to 5"):
        check_given([0, 6], [0] * 6, None)
    with pytest.raises(ValueError, match="layer 2 is given twice"):
        check_given([2, 2], [0] * 6, None)
    with pytest.raises(ValueError, match="layers names 2 layers and depth asks for 3: give one of the two"):
        check_given([0, 1], [0] * 6, [3])
    with pytest.raises(ValueError, match="stage 2 keeps no layer"):
        check_given([0, 1], [0, 0, 1], None)
    with pytest.raises(ValueError, match="layers of a stage stand before those of the next one"):
        check_given([2, 0], [0, 0, 1], [1, 1])
    check_given([1, 0, 2], [0, 0, 1], [2, 1])


@pytest.mark.parametrize("key", ["vit", "tnt", "volo", "gpt2", "bert", "qwen3"])
def test_influence_is_one_minus_the_cosine(key: str) -> None:
    design = SMALL[key]
    model, inputs = shaken(design), families.example_inputs(design)
    seen: list[float] = []

    def see(module: torch.nn.Module, args: tuple, kwargs: dict, output: object) -> None:
        before = (args or tuple(kwargs.values()))[1 if key == "tnt" else 0]
        after = output if isinstance(output, torch.Tensor) else output[1 if key == "tnt" else 0]  # type: ignore[index]
        x, y = (tensor.detach().double().numpy() for tensor in (before, after))
        cosine = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
        seen.append(1 - cosine.mean())

    for path in families.of(model).layer_paths(model):
        model.get_submodule(path).register_forward_hook(see, with_kwargs=True)
    with torch.no_grad():
        model(**inputs)
    assert Calibration(model, Inputs(inputs, "")).influences() == pytest.approx(seen[: design.depth], abs=1e-9)


def test_padding_does_not_count() -> None:
    design = SMALL["bert"]
    model, ids = shaken(design), families.example_inputs(design, 1, 6)["input_ids"]
    padded = {
        "input_ids": torch.cat([ids, torch.zeros_like(ids)], dim=1),
        "attention_mask": torch.tensor([[1] * 6 + [0] * 6]),
    }
    alone, beside = (Calibration(model, Inputs(batch, "")).influences() for batch in ({"input_ids": ids}, padded))
    assert alone == pytest.approx(beside, abs=1e-6)


def test_the_model_is_left_as_it_was() -> None:
    design = SMALL["vit"]
    model, inputs = shaken(design).train(), families.example_inputs(design)
    state = torch.get_rng_state()
    calibration = Calibration(model, Inputs(inputs, ""))
    calibration.influences(), calibration.without([0]), calibration.activity()
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())
