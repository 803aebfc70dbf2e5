"""Pathfinder: labels by flood fill, contours by their rules, no easier cue, and images that only the seed decides."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage
from sklearn.linear_model import LogisticRegression

from leanformer.data import pathfinder as pathfinder_data
from leanformer.data.pathfinder import (
    BORDER,
    RADIUS,
    SIDE,
    STEP,
    TURN,
    Labelled,
    PathfinderSettings,
    Scene,
    _distances,
    drawn,
    generate,
    scene,
    splits,
)

EASY = PathfinderSettings(dashes=6)
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE] + 0.5
CENTRES = COLUMNS + 1j * ROWS
"""Of all pixels, as places in a scene."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [scene(PathfinderSettings(), 3, index) for index in range(2400)]


@pytest.fixture(scope="module")
def images(scenes: list[Scene]) -> np.ndarray:
    return drawn(scenes)


@pytest.fixture(scope="module")
def labels(scenes: list[Scene]) -> np.ndarray:
    return np.array([found.label for found in scenes])


def same(one: Labelled, other: Labelled) -> bool:
    return np.array_equal(one.images, other.images) and np.array_equal(one.labels, other.labels)


def masks(found: Scene) -> np.ndarray:
    """Each contour without its gaps, bool (contours, height, width): an unbroken line of pixels."""
    pixels = CENTRES[..., None]
    return np.stack(
        [
            _distances(pixels, (corners[1:] + corners[:-1]) / 2, np.diff(corners) / 2).min(-1) <= 0.5 + 1e-9
            for corners in found.contours
        ]
    )


def line(corners: np.ndarray) -> np.ndarray:
    """Many places along a contour."""
    shares = np.linspace(0, 1, 9)
    return (corners[:-1, None] * (1 - shares) + corners[1:, None] * shares).reshape(-1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one[:, None] - other).min())


# Labels


@pytest.mark.parametrize("dashes", [6, 9, 14])
def test_a_flood_along_the_contours_finds_the_label(dashes: int) -> None:
    """From one disc, over pixels of any contour's unbroken line and their eight neighbours."""
    for index in range(150):
        found = scene(PathfinderSettings(dashes=dashes), 1, index)
        lines = masks(found).any(0)
        regions, _ = ndimage.label(lines, np.ones((3, 3)))
        flooded = [set(regions[lines & (abs(CENTRES - disc) < 1)].tolist()) for disc in found.discs]
        assert all(len(region) == 1 for region in flooded)
        assert (flooded[0] == flooded[1]) == bool(found.label)


def test_each_contour_is_a_region_of_its_own(scenes: list[Scene]) -> None:
    for found in scenes[:200]:
        contours = masks(found)
        assert len(contours) == len(found.contours)
        assert ndimage.label(contours.any(0), np.ones((3, 3)))[1] == len(contours)


def test_discs_sit_on_ends_of_long_contours(scenes: list[Scene]) -> None:
    for found in scenes:
        ends = [{complex(corners[0]), complex(corners[-1])} for corners in found.contours[:2]]
        on = [sum(disc in pair for disc in found.discs) for pair in ends]
        assert sorted(on) == ([0, 2] if found.label else [1, 1])


def test_every_two_images_have_one_of_each_label(labels: np.ndarray) -> None:
    pairs = labels.reshape(-1, 2)
    assert (pairs.sum(1) == 1).all()
    assert 0.4 < pairs[:, 0].mean() < 0.6


# Where contours run


@pytest.mark.parametrize(("dashes", "short", "count"), [(6, 2, 10), (9, 3, 6), (14, 4, 5)])
def test_two_long_contours_among_short_ones(dashes: int, short: int, count: int) -> None:
    counts = []
    for index in range(60):
        first, second, *rest = scene(PathfinderSettings(dashes=dashes), 2, index).contours
        assert len(first) == len(second) == dashes + 1
        assert all(len(corners) == short + 1 for corners in rest)
        counts.append(len(rest))
    assert max(counts) <= count
    assert np.mean(counts) > count / 2


def test_contours_are_smooth_and_inside(scenes: list[Scene]) -> None:
    for corners in itertools.chain(*(found.contours for found in scenes[:300])):
        steps = np.diff(corners)
        assert abs(steps) == pytest.approx(STEP, abs=1e-4)
        assert abs(np.angle(steps[1:] / steps[:-1])).max() <= TURN + 1e-4
        for side in (corners.real, corners.imag):
            assert side.min() >= BORDER - 1e-3
            assert side.max() <= SIDE - BORDER + 1e-3


def test_contours_keep_apart(scenes: list[Scene]) -> None:
    """Pixels of two lines are no neighbours when the lines are 1 + √2 apart; gaps between dashes are narrower."""
    for found in scenes[:300]:
        lines = [line(corners) for corners in found.contours]
        assert min(itertools.starmap(distance, itertools.combinations(lines, 2))) > 1 + 2**0.5
        for disc in found.discs:
            others = [other for other in lines if distance(other, np.array([disc])) > 1e-3]
            assert len(others) == len(lines) - 1
            assert min(distance(other, np.array([disc])) for other in others) > RADIUS + 1.5
        for corners in found.contours[:2]:
            assert min(abs(corners[first] - corners[first + 3 :]).min() for first in range(len(corners) - 3)) > 3.9


# Cues


def test_ink_and_contours_do_not_tell(scenes: list[Scene], images: np.ndarray, labels: np.ndarray) -> None:
    ink = images.reshape(len(images), -1).mean(1)
    contours = np.array([len(found.contours) for found in scenes])
    for cue in (ink, contours):
        assert abs(cue[labels == 1].mean() - cue[labels == 0].mean()) < 0.15 * cue.std()
    assert abs(ink[labels == 1].mean() / ink[labels == 0].mean() - 1) < 0.01


def test_places_of_the_discs_do_not_tell(scenes: list[Scene], labels: np.ndarray) -> None:
    discs = np.array([found.discs for found in scenes])
    distances = abs(discs[:, 0] - discs[:, 1])
    edges = np.minimum.reduce([discs.real, discs.imag, SIDE - discs.real, SIDE - discs.imag])
    for cue in (distances, edges.min(1), edges.max(1)):
        ranks = cue.argsort().argsort() / len(
            cue
        )  # their mean over one label is the area under the ROC curve, rescaled
        assert abs(ranks[labels == 1].mean() - ranks[labels == 0].mean()) < 0.05
    assert distances.min() > 6


def test_a_linear_probe_stays_near_chance(images: np.ndarray, labels: np.ndarray) -> None:
    pixels = images.reshape(len(images), -1) / 255
    for strength in (0.001, 0.1):
        probe = LogisticRegression(C=strength, max_iter=200).fit(pixels[:1600], labels[:1600])
        assert probe.score(pixels[1600:], labels[1600:]) < 0.57


# Drawing


def test_images_show_the_scene(scenes: list[Scene], images: np.ndarray) -> None:
    assert images.shape == (len(scenes), SIDE, SIDE)
    assert images.dtype == np.uint8
    dashes, gaps = [], []
    for found, image in zip(scenes[:200], images, strict=False):
        lines = np.concatenate([line(corners) for corners in found.contours])
        to_line = abs(CENTRES[..., None] - lines).min(-1)
        to_disc = np.min([abs(CENTRES - disc) for disc in found.discs], axis=0)
        assert not image[(to_line > 1) & (to_disc > RADIUS + 0.5)].any()
        assert (image[to_disc < RADIUS - 0.5] == 255).all()
        away = to_disc > RADIUS + 1
        for corners in found.contours:
            for places, seen in ((_middles(corners), dashes), (corners[1:-1], gaps)):
                pixels = np.floor(places.imag).astype(int), np.floor(places.real).astype(int)
                seen.extend(image[pixels][away[pixels]])
    assert np.mean(gaps) < 0.4 * np.mean(dashes)


@pytest.mark.parametrize("smooth", [False, True])
def test_every_dash_can_be_seen(smooth: bool, scenes: list[Scene]) -> None:
    for found, image in zip(scenes[:200], drawn(scenes[:200], smooth), strict=True):
        middles = np.concatenate([_middles(corners) for corners in found.contours])
        close = abs(CENTRES[..., None] - middles) < 0.75
        assert (image[..., None] * close).max((0, 1)).min() > 100


def _middles(corners: np.ndarray) -> np.ndarray:
    return (corners[1:] + corners[:-1]) / 2


def test_plain_images_are_black_and_white() -> None:
    plain, smooth = (generate(PathfinderSettings(dashes=6, smooth=smooth), 20, seed=0) for smooth in (False, True))
    assert set(np.unique(plain.images)) == {0, 255}
    assert len(np.unique(smooth.images)) > 50
    assert np.array_equal(plain.labels, smooth.labels)
    assert (abs(plain.images.astype(int) - smooth.images) < 160).all()


def test_no_distractors() -> None:
    assert all(len(scene(PathfinderSettings(distractor_dashes=0), 0, index).contours) == 2 for index in range(10))


# Seeds, workers, splits, the cache


def test_an_image_depends_on_seed_and_index_alone(scenes: list[Scene], images: np.ndarray) -> None:
    data = generate(PathfinderSettings(), 300, seed=3)
    assert np.array_equal(data.images, images[:300])
    assert np.array_equal(drawn([scene(PathfinderSettings(), 3, 217)])[0], images[217])
    assert not (generate(PathfinderSettings(), 20, seed=4).images == images[:20]).all((1, 2)).any()
    assert len(np.unique(images, axis=0)) == len(images)
    assert len(generate(PathfinderSettings(), 0, seed=3)) == 0


def test_workers_change_nothing() -> None:
    assert same(generate(EASY, 700, seed=4, workers=1), generate(EASY, 700, seed=4, workers=2))


def test_splits() -> None:
    train, validation, test = splits(EASY, 60, 20, 10, seed=1)
    assert [len(part) for part in (train, validation, test)] == [60, 20, 10]
    assert all(part.labels.mean() == 0.5 for part in (train, validation, test))
    whole = generate(EASY, 90, seed=1)
    assert same(test, whole.rows(0, 10))
    assert same(validation, whole.rows(10, 30))
    assert same(train, whole.rows(30, 90))
    with pytest.raises(ValueError, match=r"a split cannot have fewer than 0 images, got .*'test': -1"):
        splits(EASY, 1, 1, -1)


@pytest.mark.parametrize("damaged", [False, True])
def test_the_cache(damaged: bool, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = splits(EASY, 60, 20, 10, seed=1)
    splits(EASY, 6, 2, 2, seed=2)
    assert len(list(cache.iterdir())) == 2
    path = max(cache.iterdir(), key=lambda file: file.stat().st_size)
    whole = path.read_bytes()
    if damaged:
        path.write_bytes(whole[: len(whole) // 2])
    else:
        monkeypatch.setattr(pathfinder_data, "generate", None)  # nothing is drawn again
    assert all(same(one, other) for one, other in zip(fresh, splits(EASY, 60, 20, 10, seed=1), strict=True))
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(dashes=2), "dashes must be from 3 to 16, got 2"),
        (dict(dashes=17), "longer contours do not fit the image"),
        (dict(distractor_dashes=-1), "distractor_dashes must not be negative, got -1"),
    ],
)
def test_settings_without_images(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PathfinderSettings(**settings)
