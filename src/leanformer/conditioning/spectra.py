"""Condition numbers and ranks of batches of matrices: exact, in double precision, as fast as the Gram matrix allows.

κ = σ_1/σ_k with k = min(N, M), as in Definition 3.1 of the paper.

How: the eigenvalues of the smaller Gram matrix, formed in float64, are the squared singular values with an error of
about 1e-15·σ_1², so κ has a relative error near 1e-15·κ². That is more accurate than a float32 SVD, which is off by
6 % at κ = 10⁶, and takes a fraction of its time. Matrices whose κ exceeds 5·10⁵ are computed again, one by one, by a
float64 SVD. Each float64 matrix is first brought to the scale of 1 by a power of two, which is exact: squares of
numbers like 1e200 would overflow. Chunks of matrices go to one thread per core, each with one BLAS thread. NumPy
releases the interpreter lock in the products and, given enough rows at a time, in the eigenvalues.
"""

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray
from threadpoolctl import ThreadpoolController
from torch import Tensor

from leanformer.foundation.machine import cores

GRAM_LIMIT = 5e5
"""κ above which the Gram matrix is no longer trusted: its error of 1e-15·κ² would pass 2.5e-4."""
CHUNK_BYTES = 4_000_000
"""Double-precision bytes that one worker handles at a time; fits the caches."""
SMALL_SIDE = 48
"""Up to this side, one batched product is faster than a loop of symmetric ones."""
UNLOCKED_SIZE = 500
"""NumPy's eigenvalues release the interpreter lock only for more than this many rows at a time."""
FEW_OPERATIONS = 2e5
"""Below this many multiply-accumulates a plain SVD takes less time than dividing up the work."""


@dataclass(frozen=True)
class Conditioning:
    """Numbers of a batch of matrices, each a float64 tensor of the batch's shape."""

    kappa: Float64[Tensor, "*batch"]
    """σ_1/σ_k; infinite where σ_k is zero in double precision."""
    sigma_max: Float64[Tensor, "*batch"]
    sigma_min: Float64[Tensor, "*batch"]
    rank: Int64[Tensor, "*batch"]
    """Singular values that stand out from rounding."""
    effective_rank: Float64[Tensor, "*batch"]
    """exp of the entropy of σ/Σσ (Roy and Vetterli): how many directions carry the matrix."""
    stable_rank: Float64[Tensor, "*batch"]
    """Σσ²/σ_1²."""
    floor: Float64[Tensor, "*batch"]
    """The κ that a matrix with one dependent column or row shows, because its numbers are rounded."""

    @property
    def limited_by_dtype(self) -> Bool[Tensor, "*batch"]:
        """Where κ is above a third of that floor: the true value may be larger. Measure in a wider type."""
        return self.kappa > self.floor / 3

    def __len__(self) -> int:
        return self.kappa.numel()

    def flatten(self) -> "Conditioning":
        return Conditioning(*(getattr(self, item.name).flatten() for item in fields(self)))


@torch.no_grad()
def condition_number(
    matrices: Float[Tensor, "*batch rows columns"], name: str = "the batch"
) -> Float64[Tensor, "*batch"]:
    """κ of each matrix in a batch (…, rows, columns), as a float64 tensor of shape (…)."""
    values, _ = spectrum(_plain(matrices, name), name)
    return torch.from_numpy(_kappa(values, max(matrices.shape[-2:]))).reshape(matrices.shape[:-2])


@torch.no_grad()
def conditioning(
    matrices: Float[Tensor, "*batch rows columns"], name: str = "the batch", rounding: float = 1.0
) -> Conditioning:
    """Numbers from the singular values of each matrix in a batch (…, rows, columns) of any floating dtype.

    Args:
        matrices: the batch, on any device; the work is done on the CPU.
        name: what to call the batch in an error, such as the layer that it came from.
        rounding: how many times as large as the rounding of the stored numbers the error of the entries is. It is 1 for
            numbers that were only stored, and more for numbers that were computed in their own precision.
    """
    values, exponent = spectrum(_plain(matrices, name), name)
    top, bottom, short_side, long_side = values[:, 0], values[:, -1], values.shape[1], max(matrices.shape[-2:])
    total, squares = values.sum(axis=1, keepdims=True), (values**2).sum(axis=1)
    share = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    entropy = -np.sum(share * np.log(share, out=np.zeros_like(share), where=share > 0), axis=1)
    noise = rounding * _noise(torch.finfo(matrices.dtype), squares / (long_side * short_side), exponent)
    # The direction of a dependent column sees noise from the long_side − short_side + 1 dimensions that others leave.
    lowest = noise * np.sqrt(long_side - short_side + 1)
    highest = np.maximum(4 * noise * (np.sqrt(long_side) + np.sqrt(short_side)), _tolerance(values, long_side))

    def shaped(array: ndarray) -> Tensor:
        return torch.from_numpy(array).reshape(matrices.shape[:-2])

    return Conditioning(
        kappa=shaped(_kappa(values, long_side)),
        sigma_max=shaped(np.ldexp(top, exponent)),
        sigma_min=shaped(np.ldexp(bottom, exponent)),
        rank=shaped(np.sum(values > highest[:, None], axis=1)),
        effective_rank=shaped(np.where(top > 0, np.exp(entropy), 0.0)),
        stable_rank=shaped(np.divide(squares, top**2, out=np.zeros_like(top), where=top > 0)),
        floor=shaped(np.divide(top, lowest, out=np.full_like(top, np.inf), where=(lowest > 0) & (top > 0))),
    )


def _noise(
    dtype: torch.finfo, mean_square: Float64[ndarray, " matrices"], exponent: Int64[ndarray, " matrices"]
) -> Float64[ndarray, " matrices"]:
    """The rounding error of an entry: its size times eps/√12, or the step of the type's smallest numbers over √12."""
    smallest_step = np.ldexp(dtype.smallest_normal * dtype.eps, -exponent)
    return np.maximum(dtype.eps * np.sqrt(mean_square), smallest_step) / np.sqrt(12)


def _plain(matrices: Float[Tensor, "*batch rows columns"], name: str) -> Float[Tensor, "matrices rows columns"]:
    """The batch as one list of matrices of float32 or float64 on the CPU."""
    if matrices.ndim < 2 or 0 in matrices.shape[-2:]:
        raise ValueError(
            f"{name}: needs matrices (…, rows, columns) with rows and columns, got {tuple(matrices.shape)}"
        )
    if not matrices.is_floating_point():
        raise ValueError(f"{name}: needs floating-point matrices, got {matrices.dtype}")
    plain = matrices.detach().cpu()
    if plain.dtype not in (torch.float32, torch.float64):
        plain = plain.float()
    return plain.reshape(-1, *matrices.shape[-2:])


def _tolerance(values: Float64[ndarray, "matrices side"], long_side: int) -> Float64[ndarray, " matrices"]:
    """Below this a singular value counts as zero in double precision."""
    return long_side * np.finfo(np.float64).eps * values[:, 0]


def _kappa(values: Float64[ndarray, "matrices side"], long_side: int) -> Float64[ndarray, " matrices"]:
    top, bottom = values[:, 0], values[:, -1]
    return np.divide(top, bottom, out=np.full_like(top, np.inf), where=bottom > _tolerance(values, long_side))


def spectrum(
    matrices: Float[Tensor, "matrices rows columns"], name: str = "the batch"
) -> tuple[Float64[ndarray, "matrices side"], Int64[ndarray, " matrices"]]:
    """All singular values of matrices of float32 or float64, largest first; `side` is the shorter of the two.

    Those of each matrix are divided by a power of two, so that the largest is between a half and 1. The second result
    holds the exponents. Sums of squares then neither overflow nor vanish, and no digit changes.
    """
    scaled, exponent = _at_scale_one(matrices)
    values = _singular_values(scaled, name)
    _, more = np.frexp(values[:, 0])
    return np.ldexp(values, -more[:, None]), exponent + more


def _at_scale_one(
    matrices: Float[Tensor, "matrices rows columns"],
) -> tuple[Float[Tensor, "matrices rows columns"], Int64[ndarray, " matrices"]]:
    """Each float64 matrix, with its largest entry between a half and 1, and the exponent taken out.

    The square of a float32 number fits a float64, so float32 matrices stay as they are.
    """
    if matrices.dtype != torch.float64 or not len(matrices):
        return matrices, np.zeros(len(matrices), np.int64)
    plain = matrices.numpy()
    largest = np.abs(plain).max(axis=(1, 2))
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 0))
    return torch.from_numpy(np.ldexp(plain, -exponent[:, None, None])), exponent.astype(np.int64)


def _singular_values(matrices: Float[Tensor, "matrices rows columns"], name: str) -> Float64[ndarray, "matrices side"]:
    count, rows, columns = matrices.shape
    short_side, long_side = min(rows, columns), max(rows, columns)
    work = count * short_side * short_side * long_side
    if work < FEW_OPERATIONS:
        return _small_svd(matrices, name)
    plain = matrices.numpy()
    workers = min(torch.get_num_threads(), cores())
    chunk = max(UNLOCKED_SIZE // short_side + 1, min(CHUNK_BYTES // (8 * rows * columns), -(-count // workers)))
    values = np.empty((count, short_side))
    with _blas().limit(limits=1, user_api="blas"):
        if workers == 1 or chunk >= count:
            _fill(plain, values, 0, count)
        else:
            list(_pool(workers).map(lambda start: _fill(plain, values, start, start + chunk), range(0, count, chunk)))
    _check_finite(np.isfinite(values[:, -1]), name)
    return values


def _small_svd(matrices: Float[Tensor, "matrices rows columns"], name: str) -> Float64[ndarray, "matrices side"]:
    """A few small matrices: only calling overhead counts, and LAPACK's SVD is fastest on tall ones."""
    _check_finite(matrices.isfinite().all(dim=2).all(dim=1).numpy(), name)  # LAPACK would complain to the terminal
    tall = matrices if matrices.shape[1] >= matrices.shape[2] else matrices.mT
    return torch.linalg.svdvals(tall.double()).numpy()


def _check_finite(finite: Bool[ndarray, " matrices"], name: str) -> None:
    if not finite.all():
        raise ValueError(f"{name}: {np.sum(~finite)} of {len(finite)} matrices hold NaN or infinity")


def _fill(
    matrices: Float[ndarray, "matrices rows columns"],
    values: Float64[ndarray, "matrices side"],
    start: int,
    stop: int,
) -> None:
    """Singular values of matrices[start:stop] into values[start:stop]; NaN where a matrix is not finite."""
    with np.errstate(invalid="ignore"):
        _fill_part(matrices[start:stop], values[start:stop])


def _fill_part(part: Float[ndarray, "matrices rows columns"], out: Float64[ndarray, "matrices side"]) -> None:
    count, rows, columns = part.shape
    side = min(rows, columns)
    if side <= SMALL_SIDE:
        wide = part.astype(np.float64)
        wide = wide if rows <= columns else wide.transpose(0, 2, 1)
        gram = wide @ wide.transpose(0, 2, 1)
    else:
        gram = np.empty((count, side, side))
        for index in range(count):
            wide = part[index].astype(np.float64)
            wide = wide if rows <= columns else wide.T
            np.dot(wide, wide.T, out=gram[index])  # NumPy sees the transpose and does half the work
    finite = np.isfinite(gram[:, range(side), range(side)]).all(axis=1)
    gram[~finite] = 0
    squares = np.linalg.eigvalsh(gram)[:, ::-1] if side > 1 else gram[:, 0]
    out[:] = np.sqrt(np.maximum(squares, 0))
    for index in map(int, np.flatnonzero(squares[:, -1] <= squares[:, 0] / GRAM_LIMIT**2)):
        out[index] = np.linalg.svd(part[index].astype(np.float64), compute_uv=False) if squares[index, 0] > 0 else 0
    out[~finite] = np.nan


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="conditioning")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
