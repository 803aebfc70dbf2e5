"""The global random generators, seeded for a sample: augmentation draws from them, and must not depend on what was
drawn before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def generators_kept() -> Iterator[None]:
    """Whatever is drawn inside, Python's, NumPy's and torch's CPU generators are as before afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def seed_generators(*key: int) -> None:
    """Seed the three generators from a key. The GPU's is left alone: the model draws from it."""
    words = np.random.SeedSequence(key).generate_state(4)
    np.random.seed(words)
    random.seed(words.tobytes())
    torch.default_generator.manual_seed(int(words[0]))
