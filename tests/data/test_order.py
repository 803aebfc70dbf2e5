"""The order of samples."""

import numpy as np

from leanformer.data.order import Order


def test_a_ramp_grows_batches_piece_by_piece() -> None:
    order = Order(seed=0, batch=32, size=1000, pieces=4, ramp=8)
    sizes = [len(order.indices(step)) for step in range(12)]
    assert sizes == [8, 8, 16, 16, 24, 24, 32, 32, 32, 32, 32, 32]
    seen = np.concatenate([order.indices(step) for step in range(12)])
    assert len(set(seen.tolist())) == len(seen) == sum(sizes), "no sample is shown twice in an epoch"
