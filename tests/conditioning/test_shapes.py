"""Shapes as the annotations say: the modules are loaded once more with every call checked."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from jaxtyping import TypeCheckError, install_import_hook
from torch import nn

from leanformer.models import families
from support.architectures import SMALL

CHECKED = ("spectra", "gaussian", "probing", "query_key")


@pytest.fixture(scope="module")
def checked() -> Iterator[dict[str, ModuleType]]:
    """Copies of the modules whose arguments and results are checked; the ordinary ones come back afterwards."""
    package = "leanformer.conditioning"
    before = {name: module for name, module in sys.modules.items() if name.startswith(package)}
    for name in before:
        del sys.modules[name]
    try:
        with install_import_hook(package, "beartype.beartype"):
            yield {name: importlib.import_module(f"{package}.{name}") for name in CHECKED}
    finally:
        for name in [name for name in sys.modules if name.startswith(package)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


@pytest.mark.parametrize("shape", [(3, 4, 7), (2, 3, 30, 40), (5, 5), (64, 65, 192), (0, 4, 9)])
def test_matrices(checked: dict[str, ModuleType], shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        values = checked["spectra"].conditioning(torch.randn(shape).to(dtype))
        assert values.limited_by_dtype.shape == values.kappa.shape == shape[:-2]


@pytest.mark.parametrize("key", SMALL)
def test_every_family_is_probed_in_the_shapes_annotated(checked: dict[str, ModuleType], key: str) -> None:
    model, inputs = families.build(SMALL[key]), families.example_inputs(SMALL[key])
    assert checked["probing"].measure(model, inputs).summaries()
    checked["query_key"].query_key_ranks(model)


def test_modules_of_pytorchs_own(checked: dict[str, ModuleType]) -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 1, enable_nested_tensor=False)
    assert checked["probing"].measure(model, torch.randn(5, 2, 16)).summaries()[0].tokens == 5
    assert checked["query_key"].query_key_ranks(model)[0].head_dim == 8


def test_samples(checked: dict[str, ModuleType]) -> None:
    assert checked["gaussian"].sample(9, 1, samples=3).median == 1


def test_a_wrong_shape_is_caught(checked: dict[str, ModuleType]) -> None:
    spectra = checked["spectra"]
    good = spectra.conditioning(torch.randn(3, 4, 5))
    with pytest.raises(TypeCheckError):
        spectra.Conditioning(
            good.kappa,
            good.sigma_max[:2],
            *(getattr(good, name) for name in ("sigma_min", "rank", "effective_rank", "stable_rank", "floor")),
        )
    with pytest.raises(TypeCheckError):
        checked["query_key"]._product(torch.randn(2, 3, 4).double(), torch.randn(2, 3, 5).double())
