"""What the counts of tokens alone say about a class: a linear model that knows nothing of the order of a sequence.

A model that scores no better has not learned to relate tokens to each other.
"""

from __future__ import annotations

import numpy as np

from leanformer.data.sequences import LabelledSequences

MOST = 20_000
"""Training samples that the linear model is fitted to."""
AT_ONCE = 1_000
"""Samples that are padded and counted at a time."""
ALONE = "a linear model of token counts and the first token"


def score(train: LabelledSequences, held_out: LabelledSequences, length: int) -> float:
    """Accuracy in percent on the held-out samples."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).permutation(len(train))[:MOST]
    if len(np.unique(train.labels[rows])) < 2:
        return float(100 * np.mean(held_out.labels == train.labels[rows[0]]))
    ids = 1 + max(_largest_id(train, rows, length), _largest_id(held_out, np.arange(len(held_out)), length))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(_features(train, rows, length, ids), train.labels[rows])
    return float(100 * model.score(_features(held_out, np.arange(len(held_out)), length, ids), held_out.labels))


def _chunks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]


def _largest_id(part: LabelledSequences, rows: np.ndarray, length: int) -> int:
    return max(int(part.padded(some, length)[0].max(initial=0)) for some in _chunks(rows))


def _features(part: LabelledSequences, rows: np.ndarray, length: int, ids: int) -> np.ndarray:
    return np.concatenate([_counted(*part.padded(some, length), ids) for some in _chunks(rows)])


def _counted(tokens: np.ndarray, lengths: np.ndarray, ids: int) -> np.ndarray:
    """Of each sample the logarithm of its counts, and its first token; of pairs both sides and how they differ."""
    if tokens.ndim == 3:
        first, second = (_counted(tokens[:, side], lengths[:, side], ids) for side in (0, 1))
        return np.concatenate([first, second, np.abs(first - second)], axis=1)
    samples, width = tokens.shape
    cells = tokens.astype(np.int64) + ids * np.arange(samples)[:, None]
    true = np.arange(width) < lengths[:, None]
    counts = np.bincount(cells[true], minlength=samples * ids).reshape(samples, ids)
    return np.concatenate([np.log1p(counts), np.eye(ids)[tokens[:, 0]]], axis=1)
