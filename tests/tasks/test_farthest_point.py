"""The farthest-point task: exact targets, a stream that never repeats, its model against PyTorch's own encoder."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.models import names as zoo
from leanformer.models.own.point_encoder import PointEncoderModel, closed_form
from leanformer.tasks import read
from leanformer.tasks.farthest_point import DISTRIBUTIONS, FarthestPoint, answers, baselines
from leanformer.training.loop import train
from leanformer.training.run import Run, write_run
from leanformer.training.settings import Training
from support.architectures import SMALL

# The task


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("target", ["farthest", "nearest"])
def test_targets_are_exact(distribution: str, target: str) -> None:
    task = FarthestPoint(dim=8, points=6, distribution=distribution, target=target, held_out=20)
    points, wanted = task.load().test
    for sample, answer in zip(points, wanted, strict=True):
        for i, point in enumerate(sample):
            others = [j for j in range(6) if target == "farthest" or j != i]
            products = [float(point @ sample[j]) for j in others]
            best = min(products) if target == "farthest" else max(products)
            assert float(point @ answer[i]) == pytest.approx(best, abs=1e-6)
            assert any(np.array_equal(answer[i], sample[j]) for j in others)


def test_on_the_sphere_the_smallest_product_is_the_largest_distance() -> None:
    points, wanted = FarthestPoint(held_out=50).load().test
    assert np.linalg.norm(points, axis=-1) == pytest.approx(1, abs=1e-6)
    distances = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    assert np.linalg.norm(points - wanted, axis=-1) == pytest.approx(distances.max(-1), abs=1e-6)


@given(st.integers(1, 6), st.integers(2, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_turning_all_points_turns_the_answers(dim: int, points: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    sample = draw.standard_normal((1, points, dim))
    turn = np.linalg.qr(draw.standard_normal((dim, dim)))[0]
    np.testing.assert_allclose(answers(sample @ turn), answers(sample) @ turn, atol=1e-9)


def test_the_shapes_of_the_other_distributions() -> None:
    antipodal, wanted = FarthestPoint(dim=8, points=6, distribution="antipodal", held_out=3).load().test
    np.testing.assert_array_equal(wanted, -antipodal)
    gaussian = FarthestPoint(dim=32, distribution="gaussian", held_out=200).load().test[0]
    assert (gaussian**2).sum(-1).mean() == pytest.approx(1, abs=0.02)


def test_no_sample_repeats_over_epochs_processes_or_seeds() -> None:
    """Every sample of 300 steps, three seeds, both shares of two processes, and both held-out parts: all different."""
    task = FarthestPoint(dim=4, points=3, held_out=64)
    data = task.load()
    seen: list[bytes] = []
    for seed in range(3):
        order = Order(seed, 32, data.size)
        for share in range(2):
            for points, _ in data.batches(order, range(300), Share(share, 2)):
                seen += [sample.numpy().tobytes() for sample in points]
    seen += [sample.tobytes() for held_out in (data.validation, data.test) for sample in held_out[0]]
    assert len(seen) == 3 * 300 * 32 + 128
    assert len(set(seen)) == len(seen)
    single = {point.tobytes() for sample in seen for point in np.frombuffer(sample, np.float32).reshape(3, 4)}
    assert len(single) == 3 * len(seen), "not even a point"


def test_a_step_is_the_same_for_every_number_of_processes_and_after_a_stop() -> None:
    data = FarthestPoint(dim=4, points=3, held_out=4).load()
    order = Order(5, 8, data.size)
    whole = list(data.batches(order, range(4), Share()))
    later = next(data.batches(order, range(3, 4), Share()))
    halves = [next(data.batches(order, range(3, 4), Share(index, 2))) for index in range(2)]
    for place in range(2):
        assert torch.equal(later[place], whole[3][place])
        assert torch.equal(torch.cat([half[place] for half in halves]), later[place])


def test_trivial_answers() -> None:
    points, wanted = FarthestPoint(held_out=4000).load().test
    found = list(baselines(points, wanted).values())
    assert found[0] == pytest.approx(1, abs=1e-6)
    errors = [((wanted + factor * points) ** 2).sum(-1).mean() for factor in np.linspace(0, 1, 101)]
    assert found[1] == pytest.approx(min(errors), abs=1e-4)
    assert 0.8 < found[1] < 0.84


@pytest.mark.parametrize("parts", [1, 3])
def test_the_error_is_the_mean_squared_error_times_the_dimension(parts: int) -> None:
    data = FarthestPoint(dim=8, points=5, held_out=50).load()

    class Constant(nn.Module):
        def forward(self, points: torch.Tensor) -> Any:
            return type("Output", (), {"logits": torch.full_like(points, 0.1)})()

    sums = [data.evaluate_final(Constant(), Share(index, parts), torch.device("cpu")) for index in range(parts)]
    total = data.score({key: sum(part[key] for part in sums if part) for key in ("error", "found", "count")})
    assert total["error"] == pytest.approx(8 * ((0.1 - data.test[1]) ** 2).mean(), rel=1e-5)
    batch = next(data.batches(Order(0, 4, None), range(1), Share()))
    assert data.loss(Constant(), batch).item() == pytest.approx(8 * (0.1 - batch[1]).square().mean().item())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(distribution="cube"), "distribution must be one of sphere, gaussian, antipodal, got 'cube'"),
        (dict(target="middle"), "target must be one of farthest, nearest, got 'middle'"),
        (dict(points=1), "points must be a whole number of at least 2, got 1"),
        (dict(points=8.5), "points must be a whole number of at least 2, got 8.5"),
        (dict(dim="x"), "dim must be a whole number of at least 1, got 'x'"),
        (dict(distribution="antipodal", points=5), "opposite pairs need an even number of points, got 5"),
    ],
)
def test_wrong_settings_are_reported(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FarthestPoint(**changes)


def test_the_task_is_read_back() -> None:
    task = FarthestPoint(dim=8, points=4, distribution="gaussian", target="nearest")
    assert read(task.to_dict()) == task


# The closed form


@pytest.mark.parametrize("dim", [16, 64])
@pytest.mark.parametrize("points", [4, 16, 64, 256, 1024])
def test_one_full_rank_head_solves_it_untrained_for_any_number_of_points(dim: int, points: int) -> None:
    data = FarthestPoint(dim=dim, points=points, held_out=max(2, 8192 // points)).load()
    found = data.score(data.evaluate_final(closed_form(dim), Share(), torch.device("cpu")) or {})
    assert found["error"] < 0.02
    assert found["found"] > 99


def test_the_closed_form_is_one_plain_layer_of_the_model() -> None:
    design = families.describe(closed_form(16))
    (stage,) = design.stages
    assert (design.depth, stage.heads, stage.head_dim, stage.width) == (1, 1, 16, 16)


# The model


def encoder_layer(model: PointEncoderModel, layer: int, heads: int) -> nn.TransformerEncoderLayer:
    """PyTorch's own layer with our weights."""
    block: Any = model.blocks[layer]
    width = block.attn.qkv.in_features
    theirs = nn.TransformerEncoderLayer(width, heads, block.mlp[0].out_features, dropout=0.0, batch_first=True)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": block.attn.qkv.weight,
            "self_attn.in_proj_bias": block.attn.qkv.bias,
            "self_attn.out_proj.weight": block.attn.proj.weight,
            "self_attn.out_proj.bias": block.bias,
            "linear1.weight": block.mlp[0].weight,
            "linear1.bias": block.mlp[0].bias,
            "linear2.weight": block.mlp[2].weight,
            "linear2.bias": block.mlp[2].bias,
            **{
                f"{name}.{key}": value
                for name in ("norm1", "norm2")
                for key, value in getattr(block, name).state_dict().items()
            },
        }
    )
    return theirs


def test_one_group_with_layer_norm_is_pytorchs_encoder() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["point-encoder"].with_options(norm="layer"))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    x = torch.randn(3, 7, 32)
    expected = x
    for layer in range(2):
        expected = encoder_layer(model, layer, heads=4)(expected)
    torch.testing.assert_close(model(points=x).logits, expected, rtol=1e-4, atol=1e-5)


def test_groups_are_averaged_and_points_scaled_to_one_length() -> None:
    """Two groups of two heads of 4 in width 8, by nn.MultiheadAttention."""
    torch.manual_seed(0)
    model = families.build(zoo.architecture_of("farthest-point", width=8, heads=4, head_dim=4, mlp_dim=16))
    block: Any = model.blocks[0]
    nn.init.constant_(block.norm1.length, 0.7)
    nn.init.normal_(block.attn.qkv.bias)
    biases = torch.randn(2, 8)  # one of each group; ours is their mean
    block.bias.data = biases.mean(0)
    x = torch.randn(3, 5, 8)
    query, key, value = block.attn.qkv.weight.chunk(3)
    query_bias, key_bias, value_bias = block.attn.qkv.bias.chunk(3)
    attended = 0
    for group in range(2):
        rows = slice(8 * group, 8 * group + 8)
        mine = nn.MultiheadAttention(8, 2, batch_first=True)
        mine.in_proj_weight.data = torch.cat([query[rows], key[rows], value[rows]])
        mine.in_proj_bias.data = torch.cat([query_bias[rows], key_bias[rows], value_bias[rows]])
        mine.out_proj.bias.data = biases[group]
        mine.out_proj.weight.data = block.attn.proj.weight[:, rows]
        attended = attended + mine(x, x, x)[0] / 2
    middle = 0.7 * F.normalize(x + attended, dim=-1)
    expected = F.normalize(middle + block.mlp(middle), dim=-1)
    torch.testing.assert_close(model(points=x).logits, expected, rtol=1e-5, atol=1e-6)


def test_every_group_is_drawn_as_pytorch_draws_it() -> None:
    model = families.build(zoo.architecture_of("farthest-point", width=64, heads=16, head_dim=64))
    theirs = nn.MultiheadAttention(64, 1)
    attention: Any = model.blocks[0].attn  # type: ignore[union-attr]
    assert attention.qkv.weight.std().item() == pytest.approx(theirs.in_proj_weight.std().item(), rel=0.05)
    assert attention.proj.weight.std().item() == pytest.approx(theirs.out_proj.weight.std().item(), rel=0.05)
    assert not attention.qkv.bias.any()
    assert not model.blocks[0].bias.any()  # type: ignore[union-attr, operator]
    assert model.blocks[0].mlp[0].weight.abs().max().item() <= 1 / math.sqrt(64)  # type: ignore[union-attr, index]


@pytest.mark.parametrize("positions", ["add", "append"])
def test_positions(positions: str) -> None:
    width = 8 if positions == "add" else 12
    design = zoo.architecture_of(
        "farthest-point", width=width, heads=2, head_dim=4, mlp_dim=16, positions=positions, point_dim=8
    )
    model = families.build(design)
    assert families.describe(model) == design
    x = torch.randn(2, 16, 8)
    out = model(points=x).logits
    assert out.shape == x.shape
    turned = model(points=x.flip(1)).logits.flip(1)
    assert not torch.allclose(out, turned, atol=1e-4), "without positions these would be equal"
    with pytest.raises(ValueError, match="17"):
        model(points=torch.randn(1, 17, 8))


def test_without_positions_the_order_does_not_matter_and_there_is_no_longest_sample() -> None:
    model = families.build(SMALL["point-encoder"]).eval()
    x = torch.randn(2, 300, 32)
    torch.testing.assert_close(model(points=x).logits, model(points=x.flip(1)).logits.flip(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (dict(width=8, point_dim=6), 'width must be point_dim 6 where positions="none", got 8'),
        (
            dict(width=8, point_dim=8, positions="append"),
            'must be more than point_dim 8 where positions="append", got 8',
        ),
    ],
)
def test_widths_that_do_not_fit_are_reported(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        zoo.architecture_of("farthest-point", heads=1, head_dim=8, mlp_dim=8, **sizes)


def test_a_run_learns_and_keeps_its_baselines(tmp_path: Path) -> None:
    design = zoo.architecture_of("farthest-point", width=4, heads=1, head_dim=4, mlp_dim=16)
    task = FarthestPoint(dim=4, points=4, held_out=200)
    training = Training(steps=150, batch=64, lr=0.02, weight_decay=0.0, evaluations=1, probe=2)
    write_run(Run(name="x", architecture=design, task=task, training=training), tmp_path)
    result = train(tmp_path)
    assert result.final["error"] < result.evaluations[0].scores["error"] / 2
    assert result.baselines["the origin"] == pytest.approx(1, abs=1e-6)
    assert len(result.baselines) == 2
