"""Tangent kernels: closed forms against gradients, against simulation, and what the record says."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer.experiments import recipes
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.records.views import view_of
from leanformer.models import families
from leanformer.paper import ntk
from leanformer.paper.claims import judged
from leanformer.paper.evidence import Evidence

ROOT = Path(__file__).parents[2]


def test_the_kernel_of_a_model_is_that_of_its_gradients_by_autograd() -> None:
    """Against one gradient at a time, with fused attention, on a whole transformer."""
    torch.manual_seed(0)
    model = families.build(recipes.recipe("digits").original.resized(depth=2)).double().eval()
    inputs = torch.randn(4, 1, 8, 8, dtype=torch.float64)
    rows = []
    for sample, output in itertools.product(range(4), range(10)):
        gradients = torch.autograd.grad(model(inputs)[sample, output], list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in gradients]))
    jacobian = torch.stack(rows)
    expected = (jacobian @ jacobian.T).numpy()
    np.testing.assert_allclose(ntk.tangent_kernel(model, inputs), expected, rtol=1e-9, atol=1e-12 * expected.max())
    exact = float(torch.linalg.svdvals(jacobian)[0] / torch.linalg.svdvals(jacobian)[-1]) ** 2
    assert ntk.kappa(ntk.tangent_kernel(model, inputs)) == pytest.approx(exact, rel=1e-3), "rounding decides nothing"


def test_initial_weights_are_as_strong_as_in_vit_b() -> None:
    """A linear layer on normalised input: how much it amplifies is √width times the deviation of its weights."""
    original = recipes.recipe("digits").original
    vit_b = families.build(lf.architecture_of("vit_base_patch16_224", depth=1))
    wanted = math.sqrt(768) * vit_b.blocks[0].attn.qkv.weight.std().item()
    for start, factor in (("as drawn", math.sqrt(32 / 768)), ("as strong as in ViT-B", 1.0)):
        model = ntk.initial(original, start, seed=0)  # type: ignore[arg-type]
        amplified = math.sqrt(32) * float(model.blocks[0].attn.qkv.weight.std())
        assert amplified == pytest.approx(factor * wanted, rel=0.05)
    plain, strong = (ntk.initial(original, start, seed=0) for start in ntk.STARTS)
    assert torch.equal(plain.pos_embed, strong.pos_embed), "the same draw, but for the linear layers"


def test_the_closed_form_of_a_wide_mlp_is_its_kernel() -> None:
    points, width = ntk.sphere(6, seed=1), 40
    model = nn.Sequential(
        nn.Linear(ntk.POINT_DIM, width, bias=False), nn.ReLU(), nn.Linear(width, 1, bias=False)
    ).double()
    drawn = np.random.default_rng([1, width, 1]).standard_normal((ntk.POINT_DIM, width))
    with torch.no_grad():
        model[0].weight.copy_(torch.from_numpy(drawn.T))
        model[2].weight.copy_(torch.where(torch.arange(width) % 2 == 0, 1.0, -1.0)[None])
    expected = ntk.tangent_kernel(model, torch.from_numpy(points)) / width
    np.testing.assert_allclose(ntk.wide_mlp(points, width, seed=1), expected, rtol=1e-10)


def test_wide_mlps_approach_the_infinite_one() -> None:
    points = ntk.sphere(5, seed=0)
    limit = ntk.deep_mlp(points, 1, normalised=False)
    far = [np.abs(2 * ntk.wide_mlp(points, width, seed=0) - limit).max() for width in (100, 400_000)]
    assert far[1] < 0.02 < far[0], "the closed form has a diagonal of 2, the mean over hidden units of 1"


@pytest.mark.parametrize("normalised", [False, True])
def test_layers_of_infinite_width_against_gaussian_draws(normalised: bool) -> None:
    """The mean over Gaussian pairs of the activations' and the slopes' products, at one angle."""
    cosine = 0.3
    generator = np.random.default_rng(0)
    first, other = generator.standard_normal((2, 4_000_000))
    second = cosine * first + math.sqrt(1 - cosine**2) * other
    shift = 1 / math.sqrt(2 * math.pi) if normalised else 0.0
    scale = 1 / math.sqrt(0.5 - shift**2)
    active = np.mean((np.maximum(first, 0) - shift) * (np.maximum(second, 0) - shift)) * scale**2
    slopes = np.mean((first > 0) & (second > 0)) * scale**2
    points = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    found = ntk.deep_mlp(points, 1, normalised=normalised)
    assert found[0, 1] == pytest.approx(cosine * slopes + active, abs=3e-3)
    assert np.allclose(np.diag(found), 1 + 0.5 * scale**2), "slopes of one sample with itself are on half of the time"


def test_a_small_record_and_its_views(tmp_path: Path) -> None:
    seen: list[str] = []
    found = ntk.ntk(heads=(1, 8), samples=4, seeds=2, progress=seen.append)
    assert seen == [f"design {n} of 24" for n in range(1, 25)]
    assert {row.arm for row in found.transformers} == {"", "lean"}, "heads of the original are not asked for"
    assert all(len(row.attention) == 2 and min(row.attention) > 1 for row in found.transformers)
    assert [row.heads for row in found.of("split")[3]] == [1, 8]
    widths = {row.heads * row.head_dim for row in found.transformers if row.regime == "split"}
    assert widths == {32}
    for rows in found.of("fixed", equal_params=True).values():
        assert max(row.params for row in rows) / min(row.params for row in rows) < 1.02
    found.write(tmp_path / "paper" / "ntk.json")
    assert ntk.TangentKernels.read(tmp_path / "paper" / "ntk.json") == found
    view = view_of("tangent-kernels")
    assert view.table(found).row_count == len(ntk.WIDTHS) + 2 * len(ntk.DEPTHS) + 24
    assert len(view.figure(found, None).axes) == 6
    claims = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    assert claims["ntk-mlp-depth"].status == "holds"
    assert claims["ntk-heads"].parts[0].name == "3 layers as drawn"


def world(slopes: dict[tuple[str, int], float]) -> ntk.TangentKernels:
    """The committed record, but that κ of all transformers follows a given slope, by start and depth."""
    record = ntk.TangentKernels.read(ROOT / "results" / "paper" / "ntk.json")
    rows = [
        row.model_copy(
            update={"kappas": tuple(10 ** (9 + slope * math.log2(row.heads) + 0.001 * seed) for seed in range(3))}
        )
        for row in record.transformers
        for slope in [slopes[row.start, row.depth]]
    ]
    return record.changed(transformers=tuple(rows))


@pytest.mark.parametrize(
    ("slopes", "status"),
    [
        ((-0.1, -0.1, -0.1, -0.1), "holds"),
        ((0.1, 0.1, 0.1, 0.1), "does not hold here"),
        ((0.01, 0.001, 0.02, 0.01), "does not hold here"),
        ((0.01, -0.001, 0.02, 0.01), "cannot tell"),
        ((-0.1, 0.1, -0.1, 0.1), "cannot tell"),
        ((-0.1, -0.1, 0.1, 0.1), "cannot tell"),
    ],
)
def test_depths_and_initial_weights_have_to_agree(slopes: tuple[float, ...], status: str, tmp_path: Path) -> None:
    record = world(dict(zip(itertools.product(ntk.STARTS, (3, 6)), slopes, strict=True)))
    record.write(tmp_path / "paper" / "ntk.json")
    found = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    for name in ("ntk-heads", "ntk-heads-equal", "ntk-heads-split"):
        assert found[name].status == status
        assert len(found[name].parts) == 4


def test_designs_of_which_there_is_one_have_no_slope(tmp_path: Path) -> None:
    """16 heads alone exceed the parameters of the original, so that one number of heads is left at equal parameters."""
    record = world({(start, depth): -0.1 for start in ntk.STARTS for depth in (3, 6)})
    few = record.changed(transformers=tuple(row for row in record.transformers if row.heads in (1, 16)))
    few.write(tmp_path / "paper" / "ntk.json")
    found = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    assert found["ntk-heads"].status == "holds"
    assert found["ntk-heads-equal"].status == "cannot tell"


def test_another_recipe_is_another_claim(tmp_path: Path) -> None:
    record = world({(start, depth): -0.1 for start in ntk.STARTS for depth in (3, 6)})
    record.changed(recipe="fashion-mnist").write(tmp_path / "paper" / "ntk.json")
    found = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    assert found["ntk-heads"].status == "cannot tell"


def test_recipes_without_images_are_refused() -> None:
    with pytest.raises(ArgumentError, match="recipe must be one of images, got"):
        ntk.ntk(recipe="listops", samples=2)
