"""Random draws of samples: the global generators are seeded for each sample, so that augmentation, which draws from
them, does not depend on what was drawn before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from leanformer.data.order import Order, Share

Key = tuple[int, ...]
"""What the generators are seeded with."""


@dataclass(frozen=True)
class Keys:
    """What to read for each step: samples by number, each with the key of its random draws."""

    order: Order
    steps: range
    share: Share

    def __iter__(self) -> Iterator[list[tuple[int, Key]]]:
        for step in self.steps:
            yield [(int(row), (self.order.seed, step, int(row))) for row in self.share.of(self.order.indices(step))]


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Inside, the key seeds the generators; afterwards they are as before."""
    with generators_kept():
        seed_generators(*key)
        yield


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
