"""The expressions of ListOps, drawn as the Long-Range Arena draws them.

Trees grow many at a time, level by level, as counts of arguments; only those of a wanted length are given digits and
operators, are written out and evaluated, in whole arrays. Every chunk of trees is a function of the settings, the seed
and its own number, so that any number of processes draws the same data. Imports base and cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from leanformer.data.cache import cached, in_order
from leanformer.data.order import stream

WORDS = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
"""What each token id stands for; 0 is padding."""
DIGIT, OPERATOR, CLOSE = WORDS.index("0"), WORDS.index("[MIN"), WORDS.index("]")
VERSION = 1
"""Of the drawing, for the cache: to be raised with every change that draws other expressions."""
TREES = 1024
"""Trees grown at a time, wanted or not."""
PATIENCE = 200
"""Chunks in a row that may bring nothing new."""


@dataclass(frozen=True, kw_only=True)
class ListOpsSettings:
    """Which expressions; by default those of the Long-Range Arena."""

    min_length: int = 500
    """Expressions have more tokens than this …"""
    max_length: int = 2000
    """… and fewer than this."""
    max_depth: int = 10
    """The root is at depth 1; at this depth there are only digits."""
    max_arguments: int = 10
    """An operator has from 2 to so many."""
    probability: float = 0.25
    """That an argument is an operator."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability must be from 0 to 1, got {self.probability}")
        for name in ("max_depth", "max_arguments"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, got {getattr(self, name)}")
        if self.max_length - self.min_length < 2 or self.max_length <= 4:
            raise ValueError(
                f"no expression has more than {self.min_length} and fewer than {self.max_length} tokens; "
                f"the shortest, such as [MAX 2 9 ], has 4"
            )
        # Of all trees, that of operators only is the longest: a + 2 tokens for one of depth 2, a times that + 2, …
        longest = functools.reduce(
            lambda length, _: min(self.max_arguments * length + 2, 1 << 62), range(1, self.max_depth), 1
        )
        if longest <= self.min_length:
            raise ValueError(
                f"no expression has more than {self.min_length} tokens: with max_depth {self.max_depth} and "
                f"max_arguments {self.max_arguments} the longest has {longest}"
            )


@dataclass(frozen=True)
class Sequences:
    """Labelled sequences of any lengths, one after the other."""

    flat: np.ndarray
    """Token ids, uint8."""
    offsets: np.ndarray
    """Where each begins, and where the last ends."""
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def tokens(self, row: int) -> np.ndarray:
        """Token ids of one sequence."""
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    def rows(self, start: int, stop: int) -> Sequences:
        """Sequences that stand side by side."""
        offsets = self.offsets[start : stop + 1]
        return Sequences(self.flat[offsets[0] : offsets[-1]], offsets - offsets[0], self.labels[start:stop])

    def chosen(self, rows: np.ndarray) -> Sequences:
        """Any sequences, in the order asked for."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = _offsets(lengths)
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Sequences(self.flat[places], offsets, self.labels[rows])

    def padded(self, rows: np.ndarray | Sequence[int], length: int) -> tuple[np.ndarray, np.ndarray]:
        """Token ids (rows, length), zeros after each sequence's end, and the lengths."""
        chosen = self.chosen(np.asarray(rows, dtype=np.int64))
        lengths = chosen.lengths
        if len(chosen) and lengths.max() > length:
            raise ValueError(f"a sequence has {lengths.max()} tokens, and length is only {length}")
        ids = np.zeros((len(chosen), length), dtype=np.int64)
        ids[np.arange(length) < lengths[:, None]] = chosen.flat
        return ids, lengths


def joined(parts: Sequence[Sequences]) -> Sequences:
    """Several as one."""
    lengths = np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])
    flat = np.concatenate([np.zeros(0, np.uint8), *(part.flat for part in parts)])
    return Sequences(flat, _offsets(lengths), np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]))


def text(tokens: np.ndarray) -> str:
    """An expression as it is published, "[MAX 2 9 [MIN 4 7 ] 0 ]"."""
    return " ".join(WORDS[token] for token in tokens)


def generate(settings: ListOpsSettings, count: int, seed: int, workers: int = 1) -> Sequences:
    """The first `count` expressions of a seed; they may repeat."""
    return _taken(settings, count, seed, workers, distinct=False)


def splits(
    settings: ListOpsSettings,
    train: int = 96_000,
    validation: int = 2_000,
    test: int = 2_000,
    seed: int = 0,
    workers: int = 1,
) -> tuple[Sequences, Sequences, Sequences]:
    """Training, validation and test expressions, no two of them the same; from the cache where it holds them.

    Test and validation come first in the seed's order: they stay the same for any number of training expressions.
    """
    counts = {"train": train, "validation": validation, "test": test}
    if min(counts.values()) < 0:
        raise ValueError(f"a split cannot have fewer than 0 expressions, got {counts}")
    key = {"data": "listops", "version": VERSION, "seed": seed, **asdict(settings), **counts}

    def make() -> dict[str, np.ndarray]:
        drawn = _taken(settings, sum(counts.values()), seed, workers, distinct=True)
        return {"flat": drawn.flat, "offsets": drawn.offsets, "labels": drawn.labels}

    found = Sequences(**cached("listops", key, make))
    held_out = test + validation
    return found.rows(held_out, held_out + train), found.rows(test, held_out), found.rows(0, test)


def _taken(settings: ListOpsSettings, count: int, seed: int, workers: int, *, distinct: bool) -> Sequences:
    """As many expressions as asked for, in the seed's order."""
    parts: list[Sequences] = []
    missing, idle = count, 0
    seen: set[bytes] = set()
    with contextlib.closing(in_order(functools.partial(_chunk, settings, seed), itertools.count(), workers)) as chunks:
        while missing > 0 and idle < PATIENCE:
            part = _unseen(next(chunks), seen) if distinct else next(chunks)
            idle = 0 if len(part) else idle + 1
            parts.append(part.rows(0, min(missing, len(part))))
            missing -= len(parts[-1])
    if missing > 0:
        raise ValueError(
            f"{PATIENCE * TREES:,} trees in a row brought no {'new ' if distinct else ''}expression of more than "
            f"{settings.min_length} and fewer than {settings.max_length} tokens, and {missing:,} of {count:,} are "
            f"missing; allow more lengths, or change max_depth, max_arguments or probability"
        )
    return joined(parts)


def _unseen(part: Sequences, seen: set[bytes]) -> Sequences:
    """Those that were not seen before, and are from now on; known by digests, since all of them together are large."""
    fresh = []
    for row in range(len(part)):
        digest = hashlib.blake2b(part.tokens(row).tobytes(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            fresh.append(row)
    return part.chosen(np.array(fresh, np.int64))


# Drawing


@dataclass(frozen=True)
class Level:
    """All nodes at one depth: tree by tree, arguments of one operator side by side."""

    is_operator: np.ndarray
    arguments: np.ndarray
    """How many each of the operators has."""

    @property
    def starts(self) -> np.ndarray:
        """Where in the next level each operator's arguments begin."""
        return np.cumsum(self.arguments) - self.arguments


def _chunk(settings: ListOpsSettings, seed: int, number: int) -> Sequences:
    """The expressions of wanted length among one chunk of trees."""
    draw = stream(seed, number)
    levels, lengths = _grown(settings, draw)
    offsets = _offsets(lengths)
    tokens, sizes, values = _evaluated(levels, draw)
    flat = np.empty(offsets[-1], np.uint8)
    places = offsets[:-1]
    for level, token, size, below in zip(levels, tokens, sizes, [*sizes[1:], None], strict=True):
        flat[places] = token
        if below is not None:
            operators = places[level.is_operator]
            flat[operators + size[level.is_operator] - 1] = CLOSE
            before = np.cumsum(below) - below  # tokens of all earlier nodes; less those before the first sibling
            places = before + np.repeat(operators + 1 - before[level.starts], level.arguments)
    return Sequences(flat, offsets, values.astype(np.int64))


def _grown(settings: ListOpsSettings, draw: np.random.Generator) -> tuple[list[Level], np.ndarray]:
    """The shapes of those trees that have a wanted length, level by level, and their lengths."""
    trees = owners = np.arange(TREES)
    is_operator = np.ones(TREES, dtype=bool)
    lengths = np.full(TREES, 2)  # an operator and its end
    grown = []
    for depth in range(2, settings.max_depth + 1):
        arguments = draw.integers(2, settings.max_arguments + 1, len(owners))
        grown.append((trees, is_operator, owners, arguments))
        trees = np.repeat(owners, arguments)
        lengths += np.bincount(trees, minlength=TREES)
        is_operator = np.zeros(len(trees), dtype=bool)
        if depth < settings.max_depth:
            is_operator = draw.random(len(trees), np.float32) < settings.probability
            is_operator &= (lengths < settings.max_length)[trees]  # what is too long already need not grow on
        owners = trees[is_operator]
        lengths += np.bincount(owners, minlength=TREES)
        if not len(owners):
            break
    grown.append((trees, is_operator, owners, np.zeros(0, np.int64)))
    wanted = (lengths > settings.min_length) & (lengths < settings.max_length)
    levels = [
        Level(is_operator[wanted[trees]], arguments[wanted[owners]]) for trees, is_operator, owners, arguments in grown
    ]
    return levels, lengths[wanted]


def _evaluated(
    levels: Sequence[Level], draw: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Each node's token and its size in tokens, by level, and the values of the roots; from the leaves upwards."""
    tokens, sizes = [], []
    size = value = np.zeros(0, np.int32)
    for level in reversed(levels):
        digits = draw.integers(0, 10, len(level.is_operator), np.uint8)
        token, new_size, new_value = digits + DIGIT, np.ones(len(digits), np.int32), digits.astype(np.int32)
        if len(level.arguments):
            kinds = draw.integers(0, 4, len(level.arguments), np.uint8)
            token[level.is_operator] = kinds + OPERATOR
            new_size[level.is_operator] = 2 + np.add.reduceat(size, level.starts)
            new_value[level.is_operator] = _applied(kinds, value, level)
        size, value = new_size, new_value
        tokens.append(token)
        sizes.append(size)
    return tokens[::-1], sizes[::-1], value


def _applied(kinds: np.ndarray, values: np.ndarray, level: Level) -> np.ndarray:
    """What each operator makes of its arguments."""
    starts, counts = level.starts, level.arguments
    ordered = np.sort(values + 16 * np.repeat(np.arange(len(counts), dtype=np.int32), counts)) % 16
    # Of the two middle arguments, half the sum, rounded down as the published int(median) does
    medians = (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) // 2
    sums = np.add.reduceat(values, starts) % 10
    return np.choose(kinds, [ordered[starts], ordered[starts + counts - 1], medians, sums])


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
