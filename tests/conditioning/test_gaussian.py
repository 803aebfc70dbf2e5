"""Formulas against exact sampling, sampling against real Gaussian matrices, and the theorem's limits."""

import math

import numpy as np
import pytest

from leanformer.architecture import Stage
from leanformer.conditioning.gaussian import (
    CLIFF,
    cliff_factor,
    edge_kappa,
    expected_log_kappa,
    finite_kappa,
    safe_heads,
    sample,
)

SHAPES = [
    (197, 768),
    (197, 64),
    (768, 197),
    (49, 256),
    (16, 64),
    (17, 20),
    (197, 192),
    (128, 138),
    (197, 210),
    (64, 65),
]
VIT_B = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)


@pytest.mark.parametrize("shape", [(16, 64), (20, 17), (12, 12), (1, 9), (9, 1)])
def test_sampling_agrees_with_drawn_matrices(shape: tuple[int, int]) -> None:
    drawn = np.log(np.linalg.cond(np.random.default_rng(7).standard_normal((4000, *shape))))
    simulated = sample(*shape, samples=4000)
    error = math.hypot(drawn.std() / math.sqrt(4000), simulated.mean_log_error)
    assert abs(simulated.mean_log - drawn.mean()) < 4 * error + 1e-12
    np.testing.assert_allclose(
        [simulated.lower_quartile, simulated.median, simulated.upper_quartile],
        np.exp(np.quantile(drawn, [0.25, 0.5, 0.75])),
        rtol=0.08,
    )
    assert simulated.interval[0] <= simulated.median <= simulated.interval[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_closed_form_is_within_three_percent(shape: tuple[int, int]) -> None:
    simulated = sample(*shape, samples=3000)
    error = abs(expected_log_kappa(*shape) - simulated.mean_log)
    assert error < 0.03 + 3 * simulated.mean_log_error


@pytest.mark.parametrize("side", [17, 64, 197])
def test_the_square_case_is_edelmans(side: int) -> None:
    simulated = sample(side, side, samples=3000)
    assert expected_log_kappa(side, side) == pytest.approx(math.log(side) + 1.537, abs=0.12)
    assert abs(expected_log_kappa(side, side) - simulated.mean_log) < 0.03 + 3 * simulated.mean_log_error
    assert edge_kappa(side, side) == math.inf
    assert math.isfinite(finite_kappa(side, side))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if min(shape) >= 64])
def test_the_rule_of_thumb(shape: tuple[int, int]) -> None:
    simulated = sample(*shape, samples=2000)
    assert 0.97 < finite_kappa(*shape) / simulated.median < 1.25


def test_rows_and_columns_are_alike() -> None:
    for tokens, columns in SHAPES:
        assert edge_kappa(tokens, columns) == edge_kappa(columns, tokens)
        assert expected_log_kappa(tokens, columns) == expected_log_kappa(columns, tokens)


def test_the_theorems_two_limits() -> None:
    """κ → 1 for D ≫ N, and for fixed d as h → ∞; more slowly than the statement suggests."""
    assert edge_kappa(16, 16 * 10**6) == pytest.approx(1, abs=0.003)
    by_h = [edge_kappa(197, 64 * heads) for heads in (4, 8, 16, 64, 1024, 10**6)]
    assert by_h == sorted(by_h, reverse=True)
    assert by_h[-1] == pytest.approx(1, abs=0.01)
    assert edge_kappa(197, 64 * 16) > 2.5  # the paper's lean ViT-B is far from the limit


def test_lemma_3_3_full_rank() -> None:
    for shape in ((8, 64), (30, 31), (20, 20)):
        assert sample(*shape, samples=2000).smallest_sigma > 0


def expected(stage: Stage, tokens: int = 197) -> float:
    return math.exp(expected_log_kappa(tokens, stage.inner_width))


def test_only_the_fixed_regime_is_promised_a_gain() -> None:
    """With `split`, h·d stays the same, so the prediction does: the theorem promises nothing there."""
    heads = (12, 16, 24, 48)
    fixed = [VIT_B.resized(heads=count, keep="fixed") for count in heads]
    split = [VIT_B.resized(heads=count, keep="split") for count in heads]
    kappas = [expected(stage) for stage in fixed]
    assert kappas == sorted(kappas, reverse=True)
    assert kappas[-1] < kappas[0]
    assert len({expected(stage) for stage in split}) == 1
    assert [stage.head_dim for stage in split] == [64, 48, 32, 16]


def test_the_cliff() -> None:
    kappas = {heads: expected(VIT_B.resized(heads=heads)) for heads in range(1, 19)}
    assert max(kappas, key=kappas.__getitem__) == 3  # 3 · 64 = 192 columns beside 197 tokens
    assert cliff_factor(197, 192) > 20
    assert cliff_factor(197, 768) < 2
    assert safe_heads(197, 64) == 5
    assert cliff_factor(197, 4 * 64) > CLIFF >= cliff_factor(197, 5 * 64)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="tokens must be at least 1, got 0"):
        edge_kappa(0, 5)
    with pytest.raises(ValueError, match="columns must be at least 1, got -2"):
        expected_log_kappa(4, -2)
    with pytest.raises(ValueError, match="samples must be at least 2"):
        sample(4, 4, samples=1)
