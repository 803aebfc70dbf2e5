"""Labelled sequences of token ids in memory: of any lengths, pixel by pixel, or in pairs.

Sequences are padded to one length and returned with their true lengths. A token that happens to be 0 is a token, not
padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class LabelledSequences(Protocol):
    """Sequences and their labels."""

    @property
    def labels(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids (rows, length) and true lengths (rows); for pairs, (rows, 2, length) and (rows, 2).

        A sequence that is longer than `length` is an error.
        """

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All that is in memory, labels included."""


@dataclass(frozen=True)
class RaggedSequences:
    """Sequences of any lengths, stored one after another."""

    flat: np.ndarray
    """Token ids, uint8."""
    offsets: np.ndarray
    """Where each sequence begins, and where the last one ends."""
    labels: np.ndarray
    shift: int = 0
    """Added to every id in `padded`, so that 0 is left for padding."""

    @classmethod
    def of_bytes(cls, texts: Sequence[bytes], labels: Sequence[int]) -> RaggedSequences:
        """Texts byte by byte. A byte's id is its value plus 1."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        flat = np.frombuffer(b"".join(texts), np.uint8)
        return cls(flat, offsets_of(lengths), np.array(labels, dtype=np.int64), shift=1)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def tokens(self, row: int) -> np.ndarray:
        """One sequence as it is stored."""
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.flat, self.offsets, self.labels, np.array(self.shift)

    def rows(self, start: int, stop: int) -> RaggedSequences:
        """Consecutive sequences."""
        offsets = self.offsets[start : stop + 1]
        flat = self.flat[offsets[0] : offsets[-1]]
        return RaggedSequences(flat, offsets - offsets[0], self.labels[start:stop], self.shift)

    def chosen(self, rows: np.ndarray) -> RaggedSequences:
        """Any sequences, in the given order."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = offsets_of(lengths)
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return RaggedSequences(self.flat[places], offsets, self.labels[rows], self.shift)

    def padded(self, rows: np.ndarray | Sequence[int], length: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids (rows, length), zeros after each sequence's end, and the true lengths."""
        chosen = self.chosen(np.asarray(rows, dtype=np.int64))
        lengths = chosen.lengths
        if len(chosen) and lengths.max() > length:
            raise ValueError(f"a sequence has {lengths.max()} tokens, and length is only {length}")
        ids = np.zeros((len(chosen), length), dtype=np.int64)
        ids[np.arange(length) < lengths[:, None]] = chosen.flat.astype(np.int64) + self.shift
        return ids, lengths


def joined(parts: Sequence[RaggedSequences]) -> RaggedSequences:
    """Several as one."""
    lengths = np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])
    flat = np.concatenate([np.zeros(0, np.uint8), *(part.flat for part in parts)])
    labels = np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)])
    return RaggedSequences(flat, offsets_of(lengths), labels, parts[0].shift if parts else 0)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Where sequences of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True)
class PixelSequences:
    """Images read pixel by pixel. Every value is a token."""

    pixels: np.ndarray
    """Bytes (samples, height × width)."""
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        if length != self.pixels.shape[1]:
            raise ValueError(f"an image has {self.pixels.shape[1]} pixels, and length is {length}")
        return self.pixels[rows].astype(np.int64), np.full(len(rows), length)

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.pixels, self.labels


@dataclass(frozen=True)
class PairedSequences:
    """Two sequences per sample, with one label for both."""

    first: RaggedSequences
    second: RaggedSequences

    @property
    def labels(self) -> np.ndarray:
        return self.first.labels

    def __len__(self) -> int:
        return len(self.first)

    def padded(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        both = [side.padded(rows, length) for side in (self.first, self.second)]
        return np.stack([ids for ids, _ in both], axis=1), np.stack([lengths for _, lengths in both], axis=1)

    def arrays(self) -> tuple[np.ndarray, ...]:
        return *self.first.arrays(), *self.second.arrays()
