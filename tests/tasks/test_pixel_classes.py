"""Classes of images read pixel by pixel."""

from leanformer.data.order import Order, Share
from leanformer.tasks.pixel_classes import PixelClasses


def test_pixels_are_tokens_and_black_ones_too() -> None:
    data = PixelClasses(dataset="digits").load()
    assert (data.length, data.size, len(data.validation), len(data.test)) == (64, 1295, 143, 359)
    ids, lengths, _ = next(data.batches(Order(0, 32, data.size), range(1), Share()))
    assert (lengths == 64).all()
    assert (ids == 0).any(1).all(), "black pixels are there, and inside the length"
