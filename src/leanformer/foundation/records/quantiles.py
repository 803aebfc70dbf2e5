"""Quantiles that several records hold; some of the values may be infinite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def quantiles(values: Sequence[float] | Any, shares: Sequence[float]) -> list[float]:
    """Quantiles between values; of the values themselves where some are infinite and there is no between."""
    import torch

    numbers = torch.as_tensor(values, dtype=torch.float64)
    method = "nearest" if numbers.isinf().any() else "linear"
    return torch.quantile(numbers, torch.tensor(shares, dtype=torch.float64), interpolation=method).tolist()
