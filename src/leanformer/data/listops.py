"""The expressions of ListOps, drawn as the Long-Range Arena draws them.

Many trees grow at once, level by level, as counts of arguments. Only trees of a wanted length get digits and operators
and are written out and evaluated. Every chunk of trees is a function of the settings, the seed and its own number: any
number of processes draws the same data.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from leanformer.data.cache import cached_arrays
from leanformer.data.order import stream
from leanformer.data.parallel import in_order
from leanformer.data.sequences import RaggedSequences, joined, offsets_of

WORDS = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
"""What each token id stands for; 0 is padding."""
DIGIT, OPERATOR, CLOSE = WORDS.index("0"), WORDS.index("[MIN"), WORDS.index("]")
VERSION = 1
"""Version of the generator, part of the cache key. Raise it with every change that draws other expressions."""
TREES = 1024
"""Trees per chunk, before those of other lengths are dropped."""
PATIENCE = 200
"""Chunks in a row that may contain nothing new."""


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
    """Largest number of arguments; the smallest is 2."""
    probability: float = 0.25
    """Probability that an argument is an operator."""

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
        # The longest tree has operators only: a + 2 tokens at depth 2, a · (a + 2) + 2 at depth 3, …
        longest = functools.reduce(
            lambda length, _: min(self.max_arguments * length + 2, 1 << 62), range(1, self.max_depth), 1
        )
        if longest <= self.min_length:
            raise ValueError(
                f"no expression has more than {self.min_length} tokens: with max_depth {self.max_depth} and "
                f"max_arguments {self.max_arguments} the longest has {longest}"
            )


def text(tokens: np.ndarray) -> str:
    """An expression as it is published, "[MAX 2 9 [MIN 4 7 ] 0 ]"."""
    return " ".join(WORDS[token] for token in tokens)


def generate(settings: ListOpsSettings, count: int, seed: int, workers: int = 1) -> RaggedSequences:
    """The first `count` expressions of a seed; they may repeat."""
    return _taken(settings, count, seed, workers, distinct=False)


def splits(
    settings: ListOpsSettings,
    train: int = 96_000,
    validation: int = 2_000,
    test: int = 2_000,
    seed: int = 0,
    workers: int = 1,
) -> tuple[RaggedSequences, RaggedSequences, RaggedSequences]:
    """Training, validation and test expressions, all different; from the cache if they are there.

    Test and validation come first in the seed's order, so they do not depend on the number of training expressions.
    """
    counts = {"train": train, "validation": validation, "test": test}
    if min(counts.values()) < 0:
        raise ValueError(f"a split cannot have fewer than 0 expressions, got {counts}")
    key = {"data": "listops", "version": VERSION, "seed": seed, **asdict(settings), **counts}

    def make() -> dict[str, np.ndarray]:
        drawn = _taken(settings, sum(counts.values()), seed, workers, distinct=True)
        return {"flat": drawn.flat, "offsets": drawn.offsets, "labels": drawn.labels}

    arrays = cached_arrays("listops", key, make)
    found = RaggedSequences(arrays["flat"], arrays["offsets"], arrays["labels"])
    held_out = test + validation
    return found.rows(held_out, held_out + train), found.rows(test, held_out), found.rows(0, test)


def _taken(settings: ListOpsSettings, count: int, seed: int, workers: int, *, distinct: bool) -> RaggedSequences:
    """The first `count` expressions, in the seed's order."""
    parts: list[RaggedSequences] = []
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
            f"{PATIENCE * TREES:,} trees in a row gave no {'new ' if distinct else ''}expression of more than "
            f"{settings.min_length} and fewer than {settings.max_length} tokens; {missing:,} of {count:,} are "
            f"missing. Allow more lengths, or change max_depth, max_arguments or probability"
        )
    return joined(parts)


def _unseen(part: RaggedSequences, seen: set[bytes]) -> RaggedSequences:
    """The expressions that are not in `seen`, which then has them. It keeps digests, to save memory."""
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
    """All nodes at one depth: tree by tree, with the arguments of one operator side by side."""

    is_operator: np.ndarray
    arguments: np.ndarray
    """The number of arguments of each operator."""

    @property
    def starts(self) -> np.ndarray:
        """Where in the next level each operator's arguments begin."""
        return np.cumsum(self.arguments) - self.arguments


def _chunk(settings: ListOpsSettings, seed: int, number: int) -> RaggedSequences:
    """The expressions of wanted length among one chunk of trees."""
    draw = stream(seed, number)
    levels, lengths = _grown(settings, draw)
    offsets = offsets_of(lengths)
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
    return RaggedSequences(flat, offsets, values.astype(np.int64))


def _grown(settings: ListOpsSettings, draw: np.random.Generator) -> tuple[list[Level], np.ndarray]:
    """The trees of a wanted length, level by level, and their lengths."""
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
            is_operator &= (lengths < settings.max_length)[trees]  # a tree that is too long already is dropped later
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
    """Each node's token and its size in tokens, by level, and the values of the roots; computed from the leaves up."""
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
    """The value of each operator."""
    starts, counts = level.starts, level.arguments
    ordered = np.sort(values + 16 * np.repeat(np.arange(len(counts), dtype=np.int32), counts)) % 16
    # Half the sum of the two middle arguments, rounded down, as the published int(median) does
    medians = (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) // 2
    sums = np.add.reduceat(values, starts) % 10
    return np.choose(kinds, [ordered[starts], ordered[starts + counts - 1], medians, sums])
