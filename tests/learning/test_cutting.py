"""How shards are cut, and how many blocks a few samples lie in."""

from __future__ import annotations

import pytest

from littoral.learning.assembly import Assembly
from littoral.learning.cutting import block_count, samples_per_block, share_touched
from littoral.learning.learner import Orders
from littoral.learning.leases import Span


def test_block_sizes() -> None:
    assert samples_per_block(10**9) == 16
    assert [block_count(size, 16) for size in (0, 1, 16, 17)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("size", "per_block", "samples"), [(2000, 50, 8), (2000, 50, 100), (600, 400, 2), (90, 400, 1)]
)
def test_the_share_that_samples_touch_is_what_orders_give_on_average(size: int, per_block: int, samples: int) -> None:
    """The simulation expects what a worker's orders, drawn 400 times, make it fetch."""
    orders, shard = Orders({"a": size}, seed=0), Assembly(size, per_block)
    drawn = [shard.blocks_of(orders.positions(Span(epoch, "a", 0, samples))) for epoch in range(400)]
    rows = [sum(min(per_block, size - number * per_block) for number in numbers) for numbers in drawn]
    assert sum(rows) / len(rows) / size == pytest.approx(share_touched(samples, size, per_block), rel=0.05)
