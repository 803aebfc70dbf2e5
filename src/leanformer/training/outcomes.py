"""The outcome of every held-out sample at the end of a run (outcomes.safetensors): right or wrong, or its loss.

From these of several seeds follows what other samples would have said. A bit per sample is kept as a byte, a loss as
float32.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from leanformer.foundation.records.files import replacing, with_usual_mode
from leanformer.training.result import Result

OUTCOMES = "outcomes.safetensors"
_NAME = "outcomes"


def interleaved(shares: Sequence[Shaped[Tensor, " samples"]]) -> Shaped[Tensor, " all"] | None:
    """The samples of all processes in their own order: each process has every so many-th of them."""
    lengths = [len(share) for share in shares]
    if not sum(lengths) or max(lengths) - min(lengths) > 1:
        return None
    whole = torch.empty(sum(lengths), dtype=shares[0].dtype)
    for index, share in enumerate(shares):
        whole[index :: len(shares)] = share
    return whole


def write_outcomes(folder: Path, outcomes: Shaped[Tensor, " samples"]) -> None:
    kept = outcomes.to(torch.uint8) if outcomes.dtype == torch.bool else outcomes.to(torch.float32)
    with replacing(folder / OUTCOMES) as aside:
        save_file({_NAME: kept.contiguous()}, aside)
        with_usual_mode(aside)


def read_outcomes(folder: Path, result: Result) -> Float[ndarray, " samples"] | None:
    """Outcomes whose mean is the run's score (or 1/100 of it, in %); None if the run has none."""
    file = folder / OUTCOMES
    if not os.path.lexists(file):
        return None
    if not os.path.isfile(file):  # a pipe could be read without end
        raise ValueError(f"{file} is damaged (it is not a plain file): delete it to judge by the scores alone")
    try:
        found = load_file(file)[_NAME]
    except (SafetensorError, KeyError, OSError) as error:
        raise ValueError(
            f"{file} is damaged ({type(error).__name__}): delete it to judge by the scores alone"
        ) from error
    values = found.double().numpy()
    score = result.score / (100 if result.metric.unit == "%" else 1)
    if found.dtype == torch.uint8:
        if not np.isclose(values.mean(), score, rtol=0, atol=1e-6):
            raise ValueError(f"{file} has a mean of {values.mean():.6g}, the run's result says {score:.6g}: delete it")
        return values
    if not np.isfinite(values).all() or values.sum() == 0 or score == 0:
        return None
    return values * (score / values.mean())  # a sum over a sample's elements becomes its part of the mean
