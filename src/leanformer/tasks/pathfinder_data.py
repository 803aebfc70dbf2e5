"""The images of Pathfinder-32: are two discs joined by one dashed contour, among other contours?

Every image has two long contours, short ones beside them, and two discs. Where the contours run does not depend on the
label: of two ends of one contour and two ends of both, which lie equally far apart, the label says which get the discs.
So ink, number of contours and distance of the discs say nothing. Image i of a seed is a function of the seed and i
alone. Imports base, and from listops_data the order and the cache.
"""

from __future__ import annotations

import cmath
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from leanformer.tasks.base import stream
from leanformer.tasks.listops_data import cached, in_order

SIDE = 32
STEP, DASH = 2.5, 1.0
"""Pixels from one dash's middle to the next, and a dash's length."""
WIDTH, RADIUS = 1.0, 1.5
"""A dash's width and a disc's radius."""
TURN, BEND = 0.7, 0.35
"""Largest angle between dashes that follow each other, in radians."""
MARGIN, CLEARANCE, BORDER = 3.0, 3.5, 1.67
"""Pixels that contours keep from each other, that ends with room for a disc keep from contours, and all from the edge.

The first two include what rounding to cells takes away, up to 0.75."""
CELLS = 3
"""Cells of the map of free room, per pixel."""
LATER = 3
"""So many dashes on, a contour keeps from itself too."""
ALIKE = 1.0
"""Pixels by which the two distances between discs, of either label, may differ."""
APART = 6.0
"""Pixels between discs, at least."""
TRIES, PATIENCE = 20, 12
"""Walks that are tried for a contour, and blocked ways before a walk steps back."""
CHUNK = 250
"""Images drawn at a time."""
VERSION = 1
"""Of the drawing, for the cache: to be raised with every change that draws other images."""


@dataclass(frozen=True, kw_only=True)
class Pathfinder:
    """Which images; by default those of the hard set."""

    dashes: int = 14
    """Of each long contour: 6, 9 and 14 are published. Short contours have a third as many."""
    distractor_dashes: int = 20
    """Of all short contours together, at most."""
    smooth: bool = True
    """Grey at the rims of dashes and discs, or black and white only."""

    def __post_init__(self) -> None:
        if not 3 <= self.dashes <= 16:
            raise ValueError(f"dashes must be from 3 to 16, got {self.dashes}: longer contours do not fit the image")
        if not 0 <= self.distractor_dashes <= 24:
            raise ValueError(f"distractor_dashes must be from 0 to 24, got {self.distractor_dashes}")

    @property
    def distractors(self) -> list[int]:
        """Dashes of each short contour."""
        return [self.dashes // 3] * (self.distractor_dashes // (self.dashes // 3))


@dataclass(frozen=True)
class Scene:
    """Where an image's contours run, in pixels from its upper left corner, as complex numbers right + down·i."""

    contours: tuple[np.ndarray, ...]
    """Corners of each; a dash lies in the middle between two neighbours. The first two are the long ones."""
    discs: tuple[complex, complex]
    label: int
    """1 if one contour joins the discs, else 0."""


@dataclass(frozen=True)
class Labelled:
    """Images and their labels."""

    images: np.ndarray
    """uint8 (samples, height, width)."""
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, start: int, stop: int) -> Labelled:
        return Labelled(self.images[start:stop], self.labels[start:stop])


def generate(settings: Pathfinder, count: int, seed: int, workers: int = 1) -> Labelled:
    """The first `count` images of a seed; of every two that follow each other, one has label 1."""
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    parts = list(in_order(functools.partial(_chunk, settings, seed), chunks, workers))
    images = np.concatenate([np.zeros((0, SIDE, SIDE), np.uint8), *(part.images for part in parts)])
    return Labelled(images, np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]))


def splits(
    settings: Pathfinder,
    train: int = 160_000,
    validation: int = 20_000,
    test: int = 20_000,
    seed: int = 0,
    workers: int = 1,
) -> tuple[Labelled, Labelled, Labelled]:
    """Training, validation and test images; from the cache where it holds them.

    Test and validation come first in the seed's order: they stay the same for any number of training images.
    """
    counts = {"train": train, "validation": validation, "test": test}
    if min(counts.values()) < 0:
        raise ValueError(f"a split cannot have fewer than 0 images, got {counts}")
    key = {"data": "pathfinder", "version": VERSION, "seed": seed, **asdict(settings), **counts}

    def make() -> dict[str, np.ndarray]:
        drawn = generate(settings, sum(counts.values()), seed, workers)
        return {"images": drawn.images, "labels": drawn.labels}

    found = Labelled(**cached("pathfinder", key, make))
    held_out = test + validation
    return found.rows(held_out, held_out + train), found.rows(test, held_out), found.rows(0, test)


def _chunk(settings: Pathfinder, seed: int, rows: range) -> Labelled:
    scenes = [scene(settings, seed, row) for row in rows]
    return Labelled(drawn(scenes, smooth=settings.smooth), np.array([found.label for found in scenes], np.int64))


# Where contours run


def scene(settings: Pathfinder, seed: int, index: int) -> Scene:
    """What is on image `index` of a seed."""
    label = int(stream(seed, index // 2).random() < 0.5) ^ (index % 2)  # one of each in every pair
    numbers = _numbers(stream(seed, index, 1))
    while True:
        room = Room(numbers)
        long = [room.contour(settings.dashes, ends=True) for _ in range(2)]
        if any(not contour for contour in long):
            continue
        pairs = _alike(*long)
        if not pairs:
            continue
        short = [room.contour(dashes) for dashes in settings.distractors]
        if any(not contour for contour in short):
            continue
        joined, apart = pairs[int(next(numbers) * len(pairs))]
        return Scene(tuple(map(np.array, long + short)), joined if label else apart, label)


def _alike(one: Sequence[complex], other: Sequence[complex]) -> list[tuple[tuple[complex, complex], ...]]:
    """Two ends of one contour with an end of each, where the two distances are about the same."""
    return [
        (joined, apart)
        for joined in ((one[0], one[-1]), (other[0], other[-1]))
        for apart in itertools.product((one[0], one[-1]), (other[0], other[-1]))
        if abs(abs(joined[0] - joined[1]) - abs(apart[0] - apart[1])) < ALIKE
        and min(abs(joined[0] - joined[1]), abs(apart[0] - apart[1])) > APART
    ]


def _numbers(draw: np.random.Generator) -> Iterator[float]:
    """Endless numbers from 0 to 1; asking NumPy for one at a time would take most of the time."""
    while True:
        yield from draw.random(256).tolist()


class Room:
    """What is still free of an image: a map of cells, each a bit of a large integer."""

    def __init__(self, numbers: Iterator[float]) -> None:
        self.numbers = numbers
        self.taken = self.near = _rim()
        """Cells too close to a contour for another one, and for an end that may get a disc."""

    def contour(self, dashes: int, ends: bool = False) -> list[complex]:
        """A new contour's corners, or none where room was not found; `ends` may get a disc."""
        for _ in range(TRIES):
            if corners := self._walk(dashes, ends):
                return corners
        return []

    def _walk(self, dashes: int, ends: bool) -> list[complex]:
        """From a random place on, turning by random angles, and back from where the way is blocked."""
        numbers, margin, clearance = self.numbers, _discs(MARGIN), _discs(CLEARANCE)
        start = complex(next(numbers) * SIDE, next(numbers) * SIDE)
        if (self.near if ends else self.taken) >> _cell(start) & 1:
            return []
        corners, headings, bends = [start], [next(numbers) * 2 * math.pi], [(2 * next(numbers) - 1) * TURN]
        taken = [(clearance if ends else margin)[_cell(start)]]  # by this contour, up to each corner
        blocked = 0
        while (done := len(corners) - 1) < dashes:
            bend = min(max(bends[-1] + (2 * next(numbers) - 1) * BEND, -TURN), TURN)
            heading = headings[-1] + bend
            ahead = cmath.rect(STEP / 3, heading)
            closed = self.taken | taken[done - LATER] if done >= LATER else self.taken
            here, grown = corners[-1], taken[-1]
            for _ in range(3):
                here += ahead
                cell = _cell(here)
                if closed >> cell & 1:
                    break
                grown |= margin[cell]
            else:
                if not ends or done + 1 < dashes or self._has_clearance(here, corners[:-LATER]):
                    corners.append(here)
                    headings.append(heading)
                    bends.append(bend)
                    taken.append(grown)
                    continue
            blocked += 1
            if blocked > PATIENCE:
                return []
            if blocked % 2 == 0:
                keep = done + 1 - min(blocked // 2, done)
                del corners[keep:], headings[keep:], bends[keep:], taken[keep:]
        self.taken |= taken[-1]
        if ends:
            self.taken |= clearance[_cell(corners[-1])]
            for first, second in itertools.pairwise(corners):
                for share in range(3):
                    self.near |= clearance[_cell(first + (second - first) * share / 3)]
            self.near |= clearance[_cell(corners[-1])]
        return corners

    def _has_clearance(self, end: complex, corners: Sequence[complex]) -> bool:
        """Whether a disc at a contour's end touches neither other contours nor the contour's own corners."""
        return not self.near >> _cell(end) & 1 and min(abs(end - corner) for corner in corners) > CLEARANCE


def _cell(place: complex) -> int:
    return int(place.imag * CELLS) * SIDE * CELLS + int(place.real * CELLS)


@functools.cache
def _discs(radius: float) -> list[int]:
    """For every cell, those that lie within the radius around it, as bits."""
    across = SIDE * CELLS
    reach = int(radius * CELLS)
    halves = [(down, math.isqrt(int((radius * CELLS) ** 2 - down**2))) for down in range(-reach, reach + 1)]

    def disc(row: int, column: int) -> int:
        bits = 0
        for down, half in halves:
            if 0 <= row + down < across:
                first, last = max(column - half, 0), min(column + half, across - 1)
                bits |= ((1 << (last - first + 1)) - 1) << ((row + down) * across + first)
        return bits

    return [disc(row, column) for row in range(across) for column in range(across)]


@functools.cache
def _rim() -> int:
    """The cells along the edge."""
    across, rim = SIDE * CELLS, int(BORDER * CELLS)
    inner = range(rim, across - rim)
    return sum(
        1 << (row * across + column)
        for row in range(across)
        for column in range(across)
        if row not in inner or column not in inner
    )


# Drawing


def drawn(scenes: Sequence[Scene], smooth: bool = True) -> np.ndarray:
    """The scenes as images, uint8 (scenes, height, width), white on black."""
    contours = [(number, corners) for number, found in enumerate(scenes) for corners in found.contours]
    images = np.zeros((len(scenes), SIDE, SIDE), np.float32)
    owners = np.repeat([number for number, _ in contours], [len(corners) - 1 for _, corners in contours])
    middles = np.concatenate([(corners[1:] + corners[:-1]) / 2 for _, corners in contours])
    halves = np.concatenate([np.diff(corners) for _, corners in contours]) * (DASH / STEP / 2)
    _stroke(images, owners, middles, halves, WIDTH / 2, smooth)
    discs = np.array([found.discs for found in scenes]).reshape(-1)
    _stroke(images, np.repeat(np.arange(len(scenes)), 2), discs, np.zeros_like(discs), RADIUS, smooth)
    return np.rint(images * 255).astype(np.uint8)


def _stroke(
    images: np.ndarray, owners: np.ndarray, middles: np.ndarray, halves: np.ndarray, radius: float, smooth: bool
) -> None:
    """Draw strokes with round ends, each on its owner's image, in a window around its middle."""
    reach = math.ceil(DASH / 2 + max(WIDTH / 2, RADIUS))
    window = np.arange(-reach, reach + 1)
    rows = np.floor(middles.imag).astype(np.int64)[:, None, None] + window[:, None]
    columns = np.floor(middles.real).astype(np.int64)[:, None, None] + window
    distances = _distances(columns + 0.5 + 1j * (rows + 0.5), middles[:, None, None], halves[:, None, None])
    ink = (np.clip(radius + 0.5 - distances, 0, 1) if smooth else distances <= radius).astype(np.float32)
    inside = (ink > 0) & (rows >= 0) & (rows < SIDE) & (columns >= 0) & (columns < SIDE)
    places = (owners[:, None, None] * SIDE + rows) * SIDE + columns
    np.maximum.at(images.reshape(-1), places[inside], ink[inside])


def _distances(pixels: np.ndarray, middles: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """From pixels to strokes, each from its middle minus a half to its middle plus a half."""
    across = pixels - middles
    along = (across * halves.conj()).real / np.maximum(np.abs(halves) ** 2, 1e-12)
    return np.abs(across - np.clip(along, -1, 1) * halves)


def masks(found: Scene) -> np.ndarray:
    """Each contour without its gaps, bool (contours, height, width): an unbroken line of pixels."""
    rows, columns = np.mgrid[:SIDE, :SIDE] + 0.5
    pixels = (columns + 1j * rows)[..., None]
    return np.stack(
        [
            _distances(pixels, (corners[1:] + corners[:-1]) / 2, np.diff(corners) / 2).min(-1) <= 0.5 + 1e-9
            for corners in found.contours
        ]
    )
