"""Condition numbers and ranks of batches of matrices: exact, in double precision, as fast as the Gram matrix allows.

κ = σ_1/σ_k with k = min(N, M), as in Definition 3.1 of the paper.

How: the eigenvalues of the smaller Gram matrix, formed in float64, are the squared singular values with an error of
about 1e-15·σ_1², so κ has a relative error near 1e-15·κ². That is more accurate than a float32 SVD, which is off by
6 % at κ = 10⁶, and takes a fraction of its time. Matrices whose κ exceeds 5·10⁵ are computed again, one by one, by a
float64 SVD. Chunks of matrices go to one thread per core, each with one BLAS thread. NumPy releases the interpreter
lock in the products and, given enough rows at a time, in the eigenvalues.
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
    """Singular values that stand out from the rounding of the stored numbers."""
    effective_rank: Float64[Tensor, "*batch"]
    """exp of the entropy of σ/Σσ (Roy and Vetterli): how many directions carry the matrix."""
    stable_rank: Float64[Tensor, "*batch"]
    """Σσ²/σ_1²."""
    floor: Float64[Tensor, "*batch"]
    """The κ that a singular matrix of this size and scale shows because its stored numbers are rounded."""

    @property
    def limited_by_dtype(self) -> Bool[Tensor, "*batch"]:
        """Where κ is within a factor 3 of that floor: the true value may be larger. Measure in a wider type."""
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
    values = singular_values(_plain(matrices, name), name)
    return torch.from_numpy(_kappa(values, max(matrices.shape[-2:]))).reshape(matrices.shape[:-2])


@torch.no_grad()
def conditioning(matrices: Float[Tensor, "*batch rows columns"], name: str = "the batch") -> Conditioning:
    """Numbers from the singular values of each matrix in a batch (…, rows, columns) of any floating dtype.

    Args:
        matrices: the batch, on any device; the work is done on the CPU.
        name: what to call the batch in an error, such as the layer that it came from.
    """
    values = singular_values(_plain(matrices, name), name)
    top, bottom, short_side, long_side = values[:, 0], values[:, -1], values.shape[1], max(matrices.shape[-2:])
    total, squares = values.sum(axis=1, keepdims=True), (values**2).sum(axis=1)
    share = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    entropy = -np.sum(share * np.log(share, out=np.zeros_like(share), where=share > 0), axis=1)
    # Rounding adds noise of about eps/√12 of an entry's size; its smallest singular value is a Gaussian matrix's.
    noise = torch.finfo(matrices.dtype).eps / np.sqrt(12) * np.sqrt(squares / (long_side * short_side))
    lowest = noise * (np.sqrt(long_side) - np.sqrt(short_side - 1))
    highest = np.maximum(4 * noise * (np.sqrt(long_side) + np.sqrt(short_side)), _tolerance(values, long_side))

    def shaped(array: ndarray) -> Tensor:
        return torch.from_numpy(array).reshape(matrices.shape[:-2])

    return Conditioning(
        kappa=shaped(_kappa(values, long_side)),
        sigma_max=shaped(top.copy()),
        sigma_min=shaped(bottom.copy()),
        rank=shaped(np.sum(values > highest[:, None], axis=1)),
        effective_rank=shaped(np.where(top > 0, np.exp(entropy), 0.0)),
        stable_rank=shaped(np.divide(squares, top**2, out=np.zeros_like(top), where=top > 0)),
        floor=shaped(np.divide(top, lowest, out=np.full_like(top, np.inf), where=lowest > 0)),
    )


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


def singular_values(
    matrices: Float[Tensor, "matrices rows columns"], name: str = "the batch"
) -> Float64[ndarray, "matrices side"]:
    """All singular values of matrices of float32 or float64, largest first; `side` is the shorter of the two."""
    count, rows, columns = matrices.shape
    short_side, long_side = min(rows, columns), max(rows, columns)
    work = count * short_side * short_side * long_side
    if work < FEW_OPERATIONS:
        return _small_svd(matrices, name)
    plain, scale = matrices.numpy(), None
    if plain.dtype == np.float64:  # squares of numbers like 1e200 would overflow: bring each matrix to the scale of 1
        scale = np.abs(plain).max(axis=(1, 2), keepdims=True)
        scale[~((scale > 0) & np.isfinite(scale))] = 1
        plain = plain / scale
    workers = min(torch.get_num_threads(), cores())
    chunk = max(UNLOCKED_SIZE // short_side + 1, min(CHUNK_BYTES // (8 * rows * columns), -(-count // workers)))
    values = np.empty((count, short_side))
    with _blas().limit(limits=1, user_api="blas"):
        if workers == 1 or chunk >= count:
            _fill(plain, values, 0, count)
        else:
            list(_pool(workers).map(lambda start: _fill(plain, values, start, start + chunk), range(0, count, chunk)))
    _check_finite(np.isfinite(values[:, -1]), name)
    return values if scale is None else values * scale[:, :, 0]


def _small_svd(matrices: Float[Tensor, "matrices rows columns"], name: str) -> Float64[ndarray, "matrices side"]:
    """A few small matrices: only calling overhead counts, and LAPACK's SVD is fastest on tall ones."""
    tall = matrices if matrices.shape[1] >= matrices.shape[2] else matrices.mT
    try:
        values = torch.linalg.svdvals(tall.double()).numpy()
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # LAPACK's answer to NaN
        values = np.full((len(matrices), 1), np.nan)
    if not np.isfinite(values).all():
        _check_finite(matrices.isfinite().all(dim=2).all(dim=1).numpy(), name)
    return values


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
    part, out = matrices[start:stop], values[start:stop]
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
