"""The images of Pathfinder-32: does one dashed contour join two discs, among other contours?

Every image has two long contours, two discs, and as many short contours as fit. The contours do not depend on the
label. In every image there are two pairs of ends: the two ends of one contour, and one end of each contour. Both pairs
are about equally far apart and equally far from the edge. The label decides which pair gets the discs. So the amount of
ink, the number of contours and the positions of the discs carry almost no information about the label. Image i of a
seed is a function of the seed and i alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from leanformer.data.cache import cached_arrays
from leanformer.data.order import stream
from leanformer.data.parallel import in_order

SIDE = 32
STEP, DASH, WIDTH, RADIUS = 2.6, 0.6, 1.0, 1.5
"""In pixels: the distance between dashes, a dash's length without its round ends, its width, and a disc's radius."""
RIM = 0.6
"""Pixels over which smooth dashes and discs fade out."""
TURN, SWAY = 0.6, 1.0
"""In radians: the largest angle between neighbouring dashes, and the largest change of that angle's phase."""
MARGIN, BORDER, APART = 3.0, 1.75, 6.0
"""Pixels between contours (rounding takes up to half of one), to the edge, and between discs."""
LATER, OWN = 3, 4.0
"""Parts of a contour that are at least LATER dashes apart keep OWN pixels apart."""
ALIKE, ALIKE_AT_EDGE = 1.0, 2.0
"""Pixels by which the two pairs of ends may differ: in their distance from each other, and from the edge."""
CELLS = 3
"""Cells per pixel and direction, in the map of free space."""
LONG_WALKS, SHORT_WALKS = 150, 750
"""Random walks drawn at once; most of them do not fit."""
CHUNK = 250
"""Images drawn at once."""
VERSION = 2
"""Version of the generator, part of the cache key. Raise it with every change that draws other images."""

Ends = tuple[complex, complex]
"""The positions of two discs, or of two ends that may get them."""


@dataclass(frozen=True, kw_only=True)
class PathfinderSettings:
    """Which images; by default those of the hard set."""

    dashes: int = 14
    """Dashes of each long contour: 6, 9 and 14 are published. Short contours have a third as many."""
    distractor_dashes: int = 20
    """Largest number of dashes of all short contours together."""
    smooth: bool = True
    """Whether dashes and discs have grey rims; otherwise images are black and white."""

    def __post_init__(self) -> None:
        if not 3 <= self.dashes <= 16:
            raise ValueError(f"dashes must be from 3 to 16, got {self.dashes}: longer contours do not fit the image")
        if self.distractor_dashes < 0:
            raise ValueError(f"distractor_dashes must not be negative, got {self.distractor_dashes}")

    @property
    def distractors(self) -> int:
        """Largest number of short contours."""
        return self.distractor_dashes // (self.dashes // 3)


@dataclass(frozen=True)
class Scene:
    """Where an image's contours run, in pixels from its upper left corner, as complex numbers right + down·i."""

    contours: tuple[np.ndarray, ...]
    """Corners of each; a dash lies in the middle between two neighbours. The first two are the long ones."""
    discs: Ends
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


def generate(settings: PathfinderSettings, count: int, seed: int, workers: int = 1) -> Labelled:
    """The first `count` images of a seed. In every pair of consecutive images one has label 1."""
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    parts = list(in_order(functools.partial(_chunk, settings, seed), chunks, workers))
    images = np.concatenate([np.zeros((0, SIDE, SIDE), np.uint8), *(part.images for part in parts)])
    return Labelled(images, np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]))


def splits(
    settings: PathfinderSettings,
    train: int = 160_000,
    validation: int = 20_000,
    test: int = 20_000,
    seed: int = 0,
    workers: int = 1,
) -> tuple[Labelled, Labelled, Labelled]:
    """Training, validation and test images; from the cache if they are there.

    Test and validation come first in the seed's order, so they do not depend on the number of training images.
    """
    counts = {"train": train, "validation": validation, "test": test}
    if min(counts.values()) < 0:
        raise ValueError(f"a split cannot have fewer than 0 images, got {counts}")
    key = {"data": "pathfinder", "version": VERSION, "seed": seed, **asdict(settings), **counts}

    def make() -> dict[str, np.ndarray]:
        drawn = generate(settings, sum(counts.values()), seed, workers)
        return {"images": drawn.images, "labels": drawn.labels}

    found = Labelled(**cached_arrays("pathfinder", key, make))
    held_out = test + validation
    return found.rows(held_out, held_out + train), found.rows(test, held_out), found.rows(0, test)


def _chunk(settings: PathfinderSettings, seed: int, rows: range) -> Labelled:
    scenes = [scene(settings, seed, row) for row in rows]
    return Labelled(drawn(scenes, smooth=settings.smooth), np.array([found.label for found in scenes], np.int64))


# Where contours run


def scene(settings: PathfinderSettings, seed: int, index: int) -> Scene:
    """The content of image `index` of a seed: of many random walks, the first that fit."""
    label = int(stream(seed, index // 2, 0).integers(2)) ^ (index % 2)  # one of each in every pair of images
    draw = stream(seed, index, 1)
    space, long, places = _long_contours(draw, settings.dashes)
    short = _short_contours(draw, settings.dashes // 3, settings.distractors, space)
    joined, apart = places[draw.integers(len(places))]
    return Scene((*long, *short), joined if label else apart, label)


def _long_contours(
    draw: np.random.Generator, dashes: int
) -> tuple[FreeSpace, list[np.ndarray], list[tuple[Ends, Ends]]]:
    """The space that two contours leave, the contours, and pairs of ends as `_alike` finds them."""
    while True:
        walks = _walks(draw, LONG_WALKS, dashes)
        points = _points(walks, discs=True)
        for one in range(walks.shape[1]):
            space = FreeSpace()
            space.take(points[:, one])
            for other in np.flatnonzero(space.has(points)):
                if places := _alike(walks[:, one], walks[:, other]):
                    space.take(points[:, other])
                    return space, [walks[:, one], walks[:, other]], places


def _short_contours(draw: np.random.Generator, dashes: int, count: int, space: FreeSpace) -> list[np.ndarray]:
    """As many as fit, up to `count`."""
    walks = _walks(draw, SHORT_WALKS, dashes)
    points = _points(walks, discs=False)
    found: list[np.ndarray] = []
    while len(found) < count and (free := space.has(points)).any():
        walks, points = walks[:, free], points[:, free]
        space.take(points[:, 0])
        found.append(walks[:, 0])
    return found


def _alike(one: np.ndarray, other: np.ndarray) -> list[tuple[Ends, Ends]]:
    """Pairs of the two ends of one contour, each with a pair of one end of each contour that has similar distances."""
    tips: list[Ends] = [(complex(corners[0]), complex(corners[-1])) for corners in (one, other)]
    twins: list[Ends] = [(end, other_end) for end in tips[0] for other_end in tips[1]]
    joined, apart = ([(*_looks(pair), pair) for pair in pairs] for pairs in (tips, twins))
    return [
        (pair, twin)
        for distance, near, far, pair in joined
        for twin_distance, twin_near, twin_far, twin in apart
        if abs(distance - twin_distance) < ALIKE
        and abs(near - twin_near) < ALIKE_AT_EDGE
        and abs(far - twin_far) < ALIKE_AT_EDGE
        and min(distance, twin_distance) > APART
    ]


def _looks(ends: Ends) -> tuple[float, float, float]:
    """The distance of two ends from each other, and from the edge; the nearer end first."""
    nearer, farther = sorted(min(end.real, end.imag, SIDE - end.real, SIDE - end.imag) for end in ends)
    return abs(ends[0] - ends[1]), nearer, farther


def _walks(draw: np.random.Generator, count: int, dashes: int) -> np.ndarray:
    """Corners of random contours (dashes + 1, walks) that fit into the image and do not come close to themselves."""
    start, heading, right, down = draw.random((4, count), np.float32)
    sway = SWAY * (2 * draw.random((dashes, count), np.float32) - 1)
    turns = TURN * np.sin(2 * math.pi * start + np.cumsum(sway, axis=0))
    headings = 2 * math.pi * heading + np.cumsum(turns, axis=0)
    first, later = _later(dashes + 1)
    sides = []
    fits = np.ones(count, dtype=bool)
    apart = np.zeros((len(first), count), np.float32)
    for steps, share in ((np.cos(headings), right), (np.sin(headings), down)):
        side = np.cumsum(np.concatenate([np.zeros((1, count), np.float32), STEP * steps]), axis=0)
        low = side.min(0)
        slack = SIDE - 2 * BORDER - (side.max(0) - low)
        fits &= slack > 0
        sides.append(side + (BORDER - low + slack * share))
        apart += (side[first] - side[later]) ** 2
    fits &= (apart > OWN**2).all(0)
    return (sides[0] + 1j * sides[1])[:, fits]


@functools.cache
def _later(corners: int) -> tuple[np.ndarray, ...]:
    return np.triu_indices(corners, LATER)


def _points(walks: np.ndarray, discs: bool) -> np.ndarray:
    """Points along each walk, less than a pixel apart, and around its ends if they may get a disc."""
    steps = np.diff(walks, axis=0)
    found = [walks[:-1], walks[:-1] + steps * np.float32(1 / 3), walks[:-1] + steps * np.float32(2 / 3), walks[-1:]]
    if discs:
        rim = (RADIUS - WIDTH / 2) * np.exp(0.25j * math.pi * np.arange(8)).astype(np.complex64)[:, None]
        found += [walks[0] + rim, walks[-1] + rim]
    return np.concatenate(found)


class FreeSpace:
    """The free space of an image: a map of cells with a rim, so that taken cells may lie beyond the edge."""

    reach = math.ceil(MARGIN * CELLS)
    across = SIDE * CELLS + 2 * reach
    down, right = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = (down * across + right)[down**2 + right**2 <= (MARGIN * CELLS) ** 2]
    """Offsets from a cell to all cells within the margin."""

    def __init__(self) -> None:
        self.taken = np.zeros(self.across**2, dtype=bool)

    def take(self, points: np.ndarray) -> None:
        self.taken[self._cells(points)[:, None] + self.disc] = True

    def has(self, points: np.ndarray) -> np.ndarray:
        """Whether all points of each column are free."""
        return ~self.taken[self._cells(points)].any(0)

    def _cells(self, points: np.ndarray) -> np.ndarray:
        rows, columns = ((part * CELLS).astype(np.int32) + self.reach for part in (points.imag, points.real))
        return rows * self.across + columns


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
    reach = math.ceil(max(DASH / 2 + WIDTH / 2, RADIUS) + RIM / 2)
    window = np.arange(-reach, reach + 1)
    rows = np.floor(middles.imag).astype(np.int64)[:, None, None] + window[:, None]
    columns = np.floor(middles.real).astype(np.int64)[:, None, None] + window
    distances = _distances(columns + 0.5 + 1j * (rows + 0.5), middles[:, None, None], halves[:, None, None])
    if smooth:
        ink = np.clip(0.5 + (radius - distances) / RIM, 0, 1).astype(np.float32)
    else:
        ink = (distances <= radius + 0.05).astype(np.float32)  # a dash between four pixels is 0.54 from each
    inside = (ink > 0) & (rows >= 0) & (rows < SIDE) & (columns >= 0) & (columns < SIDE)
    places = (owners[:, None, None] * SIDE + rows) * SIDE + columns
    np.maximum.at(images.reshape(-1), places[inside], ink[inside])


def _distances(pixels: np.ndarray, middles: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """From pixels to strokes, each from its middle minus a half to its middle plus a half."""
    across = pixels - middles
    along = (across * halves.conj()).real / np.maximum(np.abs(halves) ** 2, 1e-12)
    return np.abs(across - np.clip(along, -1, 1) * halves)
