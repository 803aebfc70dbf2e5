"""Labelled sequences: padding, true lengths, and errors for sequences that are too long."""

import numpy as np
import pytest

from leanformer.data.sequences import PixelSequences, RaggedSequences, joined


def test_short_sequences_are_padded_and_long_ones_refused() -> None:
    split = RaggedSequences.of_bytes([b"abcd", b"a", b""], [0, 1, 0])
    ids, lengths = split.padded(np.array([0, 1, 2]), 4)
    assert ids.tolist() == [[98, 99, 100, 101], [98, 0, 0, 0], [0, 0, 0, 0]]
    assert lengths.tolist() == [4, 1, 0]
    with pytest.raises(ValueError, match="a sequence has 4 tokens, and length is only 3"):
        split.padded(np.array([1, 0]), 3)


def test_parts_of_sequences_keep_their_ids() -> None:
    split = RaggedSequences.of_bytes([b"ab", b"", b"cde"], [0, 1, 2])
    whole, _ = split.padded(np.arange(3), 3)
    for part, rows in ((split.rows(1, 3), [1, 2]), (split.chosen(np.array([2, 0])), [2, 0])):
        ids, lengths = part.padded(np.arange(2), 3)
        assert ids.tolist() == whole[rows].tolist()
        assert lengths.tolist() == split.lengths[rows].tolist()
        assert part.labels.tolist() == rows
    again, _ = joined([split.rows(0, 1), split.rows(1, 3)]).padded(np.arange(3), 3)
    assert again.tolist() == whole.tolist()


def test_pixels_have_one_length() -> None:
    split = PixelSequences(np.arange(8, dtype=np.uint8).reshape(2, 4), np.array([0, 1]))
    ids, lengths = split.padded(np.array([1]), 4)
    assert (ids.tolist(), lengths.tolist()) == ([[4, 5, 6, 7]], [4])
    with pytest.raises(ValueError, match="an image has 4 pixels, and length is 3"):
        split.padded(np.array([0]), 3)
