"""κ against a float64 SVD: accuracy over shapes and dtypes, exact singularity, scale, and the words for bad input."""

import math
import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leanformer.conditioning.spectra import condition_number, conditioning

SHAPES = [
    (1, 1),
    (1, 7),
    (7, 1),
    (2, 2),
    (8, 8),
    (17, 64),
    (65, 192),
    (197, 768),
    (197, 1024),
    (1024, 64),
    (197, 197),
    (200, 3),
]


def with_kappa(shape: tuple[int, int], kappa: float, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A matrix whose singular values run from 1 down to 1/κ."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = shape
    side = min(shape)
    u = torch.linalg.qr(torch.randn(rows, side, generator=generator, dtype=torch.float64)).Q
    v = torch.linalg.qr(torch.randn(columns, side, generator=generator, dtype=torch.float64)).Q
    values = torch.logspace(0, -np.log10(kappa), side, dtype=torch.float64) if side > 1 else torch.ones(1)
    return (u * values) @ v.T.to(torch.float64) if dtype == torch.float64 else ((u * values) @ v.T).to(dtype)


def reference(matrices: torch.Tensor) -> np.ndarray:
    values = np.linalg.svd(matrices.double().numpy(), compute_uv=False)
    return values[..., 0] / values[..., -1]


@pytest.mark.parametrize("batch", [1, 12])
@pytest.mark.parametrize("kappa", [1.0, 30.0, 1e3, 1e5, 4e5, 6e5, 1e6, 1e7])
@pytest.mark.parametrize("shape", SHAPES)
def test_relative_error_below_a_thousandth(shape: tuple[int, int], kappa: float, batch: int) -> None:
    matrices = torch.stack([with_kappa(shape, kappa, seed) for seed in range(batch)])
    got = condition_number(matrices)
    assert got.dtype == torch.float64
    assert got.shape == (batch,)
    np.testing.assert_allclose(got.numpy(), reference(matrices), rtol=1e-3)


@pytest.mark.parametrize("shape", [(17, 64), (197, 768), (1024, 64)])
def test_at_least_as_accurate_as_torch(shape: tuple[int, int]) -> None:
    matrices = torch.stack([with_kappa(shape, 10**exponent, exponent) for exponent in range(7)])
    expected = reference(matrices)
    ours = np.abs(condition_number(matrices).numpy() / expected - 1)
    theirs = np.abs(torch.linalg.cond(matrices).double().numpy() / expected - 1)
    assert (ours <= theirs + 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(0, 7),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.integers(0, 1000),
)
def test_any_shape_and_dtype(rows: int, columns: int, exponent: float, dtype: torch.dtype, seed: int) -> None:
    matrices = torch.stack([with_kappa((rows, columns), 10**exponent, seed + i, dtype) for i in range(3)])
    got = conditioning(matrices)
    values = np.linalg.svd(matrices.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(got.sigma_max.numpy(), values[:, 0], rtol=1e-6)
    if (values[:, -1] > 1e-9 * values[:, 0]).all():
        np.testing.assert_allclose(got.kappa.numpy(), values[:, 0] / values[:, -1], rtol=1e-3)
    assert (got.kappa >= 1 - 1e-9).all()
    assert (got.stable_rank <= min(rows, columns) + 1e-6).all()
    assert (got.effective_rank <= min(rows, columns) + 1e-6).all()
    assert (got.rank <= min(rows, columns)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-3, 1e3), st.integers(2, 30), st.integers(2, 30))
def test_scale_transpose_and_rotation_change_nothing(seed: int, factor: float, rows: int, columns: int) -> None:
    matrix = with_kappa((rows, columns), 1e4, seed, torch.float64)
    rotation = torch.linalg.qr(torch.randn(columns, columns, dtype=torch.float64)).Q
    base = condition_number(matrix)
    for changed in (matrix * factor, matrix.T, matrix @ rotation, -matrix):
        torch.testing.assert_close(condition_number(changed.contiguous()), base, rtol=1e-6, atol=0)


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("shape", [(2, 2), (17, 64), (65, 192), (64, 1024)])
def test_singular_matrices_are_infinite(shape: tuple[int, int], count: int) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(count, *shape)
    matrices[:, 1] = matrices[:, 0]
    got = conditioning(matrices)
    assert torch.isinf(got.kappa).all()
    assert (got.rank == min(shape) - 1).all()
    zero = conditioning(torch.zeros(count, *shape))
    assert torch.isinf(zero.kappa).all()
    assert (zero.rank == 0).all()
    assert (zero.effective_rank == 0).all()


def test_one_singular_matrix_does_not_spoil_its_neighbours() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(20, 65, 192)
    expected = condition_number(matrices)
    matrices[7, 3] = 2 * matrices[7, 4]
    got = condition_number(matrices)
    assert torch.isinf(got[7])
    keep = torch.arange(20) != 7
    assert torch.equal(got[keep], expected[keep])


def test_ranks_of_known_matrices() -> None:
    got = conditioning(torch.diag(torch.tensor([2.0, 1.0, 1.0, 0.0])))
    assert got.rank == 3
    assert got.stable_rank.item() == pytest.approx(6 / 4)
    share = np.array([0.5, 0.25, 0.25])
    assert got.effective_rank.item() == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    assert conditioning(torch.eye(5)).effective_rank.item() == pytest.approx(5)


def test_rounding_does_not_count_as_rank() -> None:
    """A float32 product of rank 3 has tiny singular values beside its three; they are rounding, and flagged as such."""
    torch.manual_seed(0)
    product = torch.randn(8, 40, 3) @ torch.randn(8, 3, 60)
    got = conditioning(product)
    assert (got.rank == 3).all()
    assert got.limited_by_dtype.all()
    assert (conditioning(torch.randn(8, 40, 60)).rank == 40).all()


def test_forked_processes_start_their_own_threads() -> None:
    matrices = torch.randn(64, 65, 192)
    expected = condition_number(matrices)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert torch.equal(pool.apply_async(condition_number, (matrices,)).get(timeout=60), expected)


def test_batch_shapes_are_kept() -> None:
    matrices = torch.randn(2, 3, 5, 7)
    got = conditioning(matrices)
    assert got.kappa.shape == got.rank.shape == got.floor.shape == (2, 3)
    assert condition_number(torch.randn(4, 9)).shape == ()
    assert condition_number(torch.randn(0, 4, 9)).shape == (0,)
    assert len(got.flatten()) == 6


def test_layouts_are_not_assumed() -> None:
    base = torch.randn(6, 40, 30)
    expected = condition_number(base)
    torch.testing.assert_close(condition_number(base.permute(0, 2, 1)), expected)
    torch.testing.assert_close(condition_number(base.expand(2, 6, 40, 30))[1], expected)
    torch.testing.assert_close(condition_number(torch.randn(6, 40, 60, requires_grad=True)[:, :, ::2]).shape, (6,))


def test_huge_and_tiny_numbers() -> None:
    matrix = with_kappa((64, 200), 100.0, 0, torch.float64).expand(4, 64, 200)
    for factor in (1e200, 1e-200):
        torch.testing.assert_close(condition_number(matrix * factor), condition_number(matrix), rtol=1e-9, atol=0)
    single = with_kappa((64, 200), 100.0, 0).expand(4, 64, 200)
    torch.testing.assert_close(condition_number(single * 1e30), condition_number(single), rtol=1e-6, atol=0)


SCALES = [0, *(sign * exponent for exponent in (3, 37, 100, 154, 155, 160, 200, 290, 300) for sign in (1, -1))]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SCALES),
    st.sampled_from([torch.float64, torch.float32]),
    st.sampled_from([(3, 5), (12, 4), (40, 60), (65, 50)]),
    st.sampled_from([1.0, 30.0, 1e4, 1e9, math.inf]),
    st.integers(0, 100),
)
def test_every_number_is_scale_invariant(
    exponent: int, dtype: torch.dtype, shape: tuple[int, int], kappa: float, seed: int
) -> None:
    """From 1e-300 to 1e300: only the singular values themselves follow the scale."""
    exponent = exponent if dtype == torch.float64 else max(-20, min(20, exponent))  # float32 holds 1e-38 to 1e38
    scale = 2.0 ** round(exponent / math.log10(2))  # a power of two, so that the scaled numbers are exact
    base = torch.stack([with_kappa(shape, min(kappa, 1e9), seed + i, dtype) for i in range(2)])
    if kappa == math.inf:
        base[:, 1] = base[:, 0]
    expected, got = conditioning(base), conditioning(base * scale)
    for name in ("kappa", "effective_rank", "stable_rank", "floor"):
        torch.testing.assert_close(getattr(got, name), getattr(expected, name), rtol=1e-6, atol=0)
    assert torch.equal(got.rank, expected.rank)
    assert torch.equal(got.limited_by_dtype, expected.limited_by_dtype)
    torch.testing.assert_close(got.sigma_max, expected.sigma_max * scale, rtol=1e-9, atol=0)
    assert torch.equal(got.kappa, condition_number(base * scale))


def test_numbers_so_small_that_they_lose_digits_are_flagged() -> None:
    """Below 1e-38 a float32 has fewer digits: κ of what is stored says little about the matrix."""
    matrices = torch.stack([with_kappa((40, 60), 1e4, seed) for seed in range(3)])
    assert not conditioning(matrices).limited_by_dtype.any()
    assert conditioning(matrices * 1e-42).limited_by_dtype.all()
    assert conditioning(matrices * 1e-42).floor.max() < 1e4


@pytest.mark.parametrize("shape", [(30, 30), (30, 31), (65, 192), (192, 65), (8, 200)])
def test_one_dependent_column_or_row_is_flagged(shape: tuple[int, int]) -> None:
    """Stored in float32, it shows a finite κ near the floor, whatever the shape."""
    torch.manual_seed(0)
    matrices = torch.randn(50, *shape, dtype=torch.float64)
    short = matrices if shape[0] <= shape[1] else matrices.mT
    short[:, 0] = (short[:, 1] + short[:, 2]) / math.sqrt(2)
    got = conditioning(matrices.float())
    assert got.limited_by_dtype.double().mean() >= 0.98
    assert 1 / 3 < got.kappa.median() / got.floor.median() < 3
    assert not conditioning(torch.randn(50, *shape)).limited_by_dtype.any()


def test_low_precision_storage_is_flagged() -> None:
    """bfloat16 reads about 1e4 where float32 reads 1e6; the flag says that the type, not the matrix, set the value."""
    matrices = torch.stack([with_kappa((65, 192), 1e6, seed) for seed in range(8)])
    low = conditioning(matrices.bfloat16())
    assert (low.kappa < 1e5).all()
    assert low.limited_by_dtype.all()
    assert not conditioning(matrices).limited_by_dtype.any()
    assert not conditioning(torch.stack([with_kappa((65, 192), 30.0, 1)]).bfloat16()).limited_by_dtype.any()


@pytest.mark.parametrize("shape", [(3, 4), (64, 256)])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_name_the_layer(value: float, shape: tuple[int, int]) -> None:
    matrices = torch.randn(5, *shape)
    matrices[2, 1, 1] = value
    with pytest.raises(ValueError, match=r"blocks\.3\.attn: 1 of 5 matrices hold NaN or infinity"):
        condition_number(matrices, name="blocks.3.attn")
    with pytest.raises(ValueError, match="1 of 5"):
        condition_number(matrices.double())


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (torch.randn(5), r"needs matrices \(…, rows, columns\).*got \(5,\)"),
        (torch.randn(3, 0, 5), "rows and columns"),
        (torch.ones(2, 2, dtype=torch.int64), "floating-point matrices, got torch.int64"),
    ],
)
def test_bad_input(matrices: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        condition_number(matrices)


def test_neither_timm_nor_transformers_is_needed() -> None:
    code = (
        "import sys, torch, leanformer.conditioning as conditioning\n"
        "print(conditioning.condition_number(torch.eye(3)).dtype, {'timm', 'transformers'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.stdout == "torch.float64 set()\n", shown.stderr


def test_threads_do_not_change_results() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(40, 65, 192)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = condition_number(matrices)
        torch.set_num_threads(2)
        assert torch.equal(condition_number(matrices), one)
    finally:
        torch.set_num_threads(before)
