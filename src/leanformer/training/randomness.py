"""Random generators: seeding them, keeping their states in checkpoints, and leaving a caller's as they were."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_everything(*key: int) -> None:
    """Seed the generators of Python, NumPy and torch; one number seeds torch as `torch.manual_seed` does."""
    words = np.random.SeedSequence(key).generate_state(2)
    random.seed(words.tobytes())
    np.random.seed(words)
    torch.manual_seed(key[0] if len(key) == 1 else int(words[0]))


@contextmanager
def process_state_kept() -> Iterator[None]:
    """Whatever happens inside, the generators and the number of CPU threads are as before afterwards."""
    state, threads = random_state(), torch.get_num_threads()
    try:
        yield
    finally:
        set_random_state(state)
        torch.set_num_threads(threads)


def random_state() -> dict[str, Any]:
    """The state of every generator that training draws from, as plain JSON."""
    kind, keys, *rest = np.random.get_state()
    version, words, gauss = random.getstate()
    found: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), *rest],
        "torch": _encoded(torch.get_rng_state()),
    }
    if torch.cuda.is_available():
        found["cuda"] = _encoded(torch.cuda.get_rng_state())
    if torch.backends.mps.is_available():
        found["mps"] = _encoded(torch.mps.get_rng_state())
    return found


def set_random_state(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(_decoded(state["torch"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(_decoded(state["cuda"]))
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(_decoded(state["mps"]))


def _encoded(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _decoded(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
