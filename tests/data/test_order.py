"""The order of samples."""

import numpy as np

from leanformer.data.order import ALIKE, Order


def test_a_ramp_grows_batches_piece_by_piece() -> None:
    order = Order(seed=0, batch=32, size=1000, pieces=4, ramp=8)
    sizes = [len(order.indices(step)) for step in range(12)]
    assert sizes == [8, 8, 16, 16, 24, 24, 32, 32, 32, 32, 32, 32]
    seen = np.concatenate([order.indices(step) for step in range(12)])
    assert len(set(seen.tolist())) == len(seen) == sum(sizes), "no sample is shown twice in an epoch"


def test_batches_of_like_length_have_the_same_samples_and_less_padding() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, size=2000)
    order = Order(seed=5, batch=16, size=2000)
    steps = range(ALIKE, 2 * ALIKE)
    usual = [order.indices(step) for step in steps]
    alike = [order.of_like_length(step, lengths) for step in steps]
    assert sorted(np.concatenate(usual)) == sorted(np.concatenate(alike))
    assert sum(lengths[rows].max() for rows in alike) < 0.62 * sum(lengths[rows].max() for rows in usual)
    widths = [lengths[rows].max() for rows in alike]
    assert widths != sorted(widths)  # short and long ones are mixed
    assert [rows.tolist() for rows in alike] != [
        Order(seed=6, batch=16, size=2000).of_like_length(step, lengths).tolist() for step in steps
    ]


def test_growing_batches_are_left_as_they_are() -> None:
    order, lengths = Order(seed=0, batch=32, size=1000, pieces=4, ramp=8), np.arange(1000)
    assert all((order.of_like_length(step, lengths) == order.indices(step)).all() for step in range(ALIKE))
