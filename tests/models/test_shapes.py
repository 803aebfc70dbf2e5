"""The shapes that annotations state are those that models see: every small model runs with the annotations checked."""

import importlib
import inspect
from collections.abc import Callable, Iterator

import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped
from torch import nn

from leanformer.models import families
from leanformer.models.own import nystromformer
from support.architectures import SMALL

OWN = ("base", "crammed_bert", "story_gpt", "nystromformer", "point_encoder")
TIMM = ("davit", "tnt", "volo", "xcit")
MODULES = [*(f"leanformer.models.own.{name}" for name in OWN), *(f"leanformer.models.timm.{name}" for name in TIMM)]


def annotated(module) -> Iterator[tuple[object, str, Callable]]:
    """The functions of a module whose annotations state shapes, with their owner and name."""
    classes = [found for found in vars(module).values() if isinstance(found, type) and issubclass(found, nn.Module)]
    for owner in (module, *(found for found in classes if found.__module__ == module.__name__)):
        for name, found in vars(owner).items():
            mine = inspect.isfunction(found) and found.__module__ == module.__name__
            if mine and any("[Tensor" in str(stated) for stated in found.__annotations__.values()):
                yield owner, name, found


FUNCTIONS = {
    f"{name}.{function.__qualname__}" for name in MODULES for _, _, function in annotated(importlib.import_module(name))
}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Check the annotations of every such function; returns the names of those that were called."""
    called: set[str] = set()

    def watched(function: Callable, name: str) -> Callable:
        checking = jaxtyped(typechecker=beartype)(function)

        def call(*args, **kwargs):
            called.add(name)
            return checking(*args, **kwargs)

        call.__signature__ = inspect.signature(function)  # transformers looks at the arguments of forward
        return call

    for module in map(importlib.import_module, MODULES):
        for owner, name, function in list(annotated(module)):
            monkeypatch.setattr(owner, name, watched(function, f"{module.__name__}.{function.__qualname__}"))
    return called


def run(key: str) -> None:
    """Forward passes in both modes, with all that the model takes."""
    architecture = SMALL[key]
    inputs = families.example_inputs(architecture)
    ids = inputs.get("input_ids")
    for heads in (architecture.stages[0].heads, 8):
        model = families.build(architecture.resized(heads=heads))
        for training in (True, False):
            model.train(training)(**inputs)
        if "lengths" in inputs:
            model(input_ids=ids)
            model(**inputs, labels=torch.zeros(len(ids), dtype=torch.long))
        elif ids is not None:
            model(**inputs, attention_mask=torch.ones_like(ids))
            model.set_attn_implementation("eager")
            model(**inputs, labels=ids)
        if key == "story-gpt":
            model.generate(ids[:, :5], max_new_tokens=3, do_sample=False)


def test_annotated_shapes_hold(checked: set[str]) -> None:
    for key in SMALL:
        run(key)
    ids = torch.zeros(2, 7, dtype=torch.long)
    families.build(SMALL["crammed-bert"].with_options(num_labels=1))(ids, labels=torch.ones(2))
    families.build(SMALL["story-gpt"].with_options(num_labels=2))(ids, torch.ones_like(ids), labels=ids[:, 0])
    assert checked == FUNCTIONS, "every annotated function ran"


def test_wrong_shapes_are_noticed(checked: set[str]) -> None:
    """The checks are on: what does not fit the annotations is refused."""
    story, points = families.build(SMALL["story-gpt"]), families.build(SMALL["point-encoder"])
    with pytest.raises(TypeCheckError):
        story(torch.zeros(7, dtype=torch.long))
    with pytest.raises(TypeCheckError):
        story(torch.zeros(2, 7))
    with pytest.raises(TypeCheckError):
        points(torch.zeros(2, 7, 32, dtype=torch.long))
    query, key = torch.randn(2, 4, 16, 8), torch.randn(2, 4, 15, 8)
    with pytest.raises(TypeCheckError):
        nystromformer.nystrom_attention(query, key, key)
