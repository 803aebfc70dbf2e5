"""Adversarial matrices: κ against a float64 SVD, or flagged as limited by the stored numbers."""

from __future__ import annotations

import random

import numpy as np
import torch

from fuzz.outcome import SILENT, WORKED, Wrong, one_line
from leanformer.conditioning.spectra import condition_number, conditioning

COUNT = 5_000
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _orthogonal(draw: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return np.linalg.qr(draw.standard_normal((max(rows, columns), min(rows, columns))))[0]


def _spectrum(draw: np.random.Generator, side: int) -> np.ndarray:
    """Singular values from 1 down to 10 to minus anything, in several shapes."""
    lowest = 10.0 ** -draw.uniform(0, 20)
    shape = draw.integers(5)
    if shape == 0:
        return np.geomspace(1, lowest, side)
    if shape == 1:
        return np.linspace(1, lowest, side)
    values = np.ones(side)
    if shape == 2:
        values[-1] = lowest
    elif shape == 3:
        values[1:] = lowest
    else:
        values[-max(1, side // 2) :] = 0
    return values


def _made(draw: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    kind, side = draw.integers(6), min(rows, columns)
    if kind == 0:
        made = draw.standard_normal((rows, columns))
    elif kind in (1, 2):
        left, right = _orthogonal(draw, rows, side), _orthogonal(draw, columns, side)
        made = (left * _spectrum(draw, side)) @ right.T
    elif kind == 3:
        made = draw.standard_normal((rows, columns))
        made[:, draw.integers(columns)] = made[:, draw.integers(columns)] * (1 + draw.choice([0, 1e-3, 1e-9, 1e-14]))
    elif kind == 4:
        made = draw.integers(-2, 3, (rows, columns)).astype(float)
    else:
        made = np.vander(draw.uniform(0.5, 1, rows), columns)
    if draw.random() < 0.3:  # columns and rows of very different sizes
        made = made * 10.0 ** draw.uniform(-6, 6, columns)
    if draw.random() < 0.1:
        made[draw.integers(rows)] = 0
    return made


def _spoilt(draw: np.random.Generator, batch: torch.Tensor) -> torch.Tensor:
    place = tuple(int(draw.integers(size)) for size in batch.shape)
    batch[place] = draw.choice([np.nan, np.inf, -np.inf])
    return batch


def trial(chosen: random.Random) -> tuple[str, str]:
    draw = np.random.default_rng(chosen.getrandbits(64))
    rows, columns = (int(draw.choice([1, 2, 3, 5, 8, 17, 33, 49, 64, 90])) for _ in range(2))
    count, dtype = int(draw.choice([1, 1, 2, 7])), DTYPES[draw.choice([0, 0, 1, 1, 1, 2, 3])]
    exponent = draw.choice([0, 0, 0, 30, -30, 150, -150, 160, -170, 290, -290])
    scale = 10.0**exponent if dtype == torch.float64 else 10.0 ** np.clip(exponent, -20, 20)
    stack = np.stack([_made(draw, rows, columns) for _ in range(count)])
    with np.errstate(all="ignore"):
        batch = torch.from_numpy(stack * scale).to(dtype)
    what = f"{count} of {rows} × {columns}, {dtype}, scale {scale:g}"
    if draw.random() < 0.05:
        batch = _spoilt(draw, batch)
    finite = bool(batch.isfinite().all())
    try:
        found, kappa = conditioning(batch, "layer 3"), condition_number(batch, "layer 3")
    except ValueError as error:
        if finite:
            raise Wrong(SILENT, f"finite matrices are refused: {error} ({what})") from error
        return one_line(error, "layer 3"), what
    if not finite:
        raise Wrong(SILENT, f"NaN or infinity passed: κ = {found.kappa.tolist()} ({what})")
    if not torch.equal(found.kappa, kappa):
        raise Wrong(SILENT, f"condition_number and conditioning differ ({what})")
    for index in range(count):
        _check(batch[index].double().numpy(), found, index, torch.finfo(dtype).tiny, what)
    return WORKED, what


def _check(matrix: np.ndarray, found: object, index: int, tiny: float, what: str) -> None:
    """Against LAPACK on the stored numbers, brought to the scale of 1."""
    largest = np.abs(matrix).max()
    values = np.linalg.svd(matrix / largest, compute_uv=False) if largest > 0 else np.zeros(min(matrix.shape))
    kappa, limited = float(found.kappa[index]), bool(found.limited_by_dtype[index])  # type: ignore[attr-defined]
    rank = int(found.rank[index])  # type: ignore[attr-defined]
    eps = np.finfo(np.float64).eps
    truth = values[0] / values[-1] if values[-1] > 0 else np.inf
    sure = 100 * max(matrix.shape) * eps * truth  # what a float64 SVD itself can say
    if np.isnan(kappa):
        raise Wrong(SILENT, f"κ is NaN where it is {truth:.3g} ({what})")
    if kappa != np.inf and not limited and abs(kappa / truth - 1) > 1e-3 + sure:
        raise Wrong(SILENT, f"κ is {kappa:.6g} where it is {truth:.6g} ({what})")
    if kappa == np.inf and truth < 0.01 / (max(matrix.shape) * eps):
        raise Wrong(SILENT, f"κ is infinite where it is {truth:.6g} ({what})")
    if (rank == 0 and largest > tiny) or (rank > 0 and largest == 0) or rank > min(matrix.shape):
        raise Wrong(SILENT, f"rank {rank} of a matrix of {matrix.shape} with largest entry {largest:g} ({what})")
    for name in ("effective_rank", "stable_rank", "sigma_max", "sigma_min"):
        value = float(getattr(found, name)[index])
        if not np.isfinite(value):
            raise Wrong(SILENT, f"{name} is {value} ({what})")
    if largest > 0 and abs(float(found.sigma_max[index]) / largest / values[0] - 1) > 1e-6:  # type: ignore[attr-defined]
        raise Wrong(SILENT, f"σ_1 is {float(found.sigma_max[index]):g} where it is {values[0] * largest:g} ({what})")  # type: ignore[attr-defined]
