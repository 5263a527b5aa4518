from __future__ import annotations

import pytest

from littoral.events import RunFinished, Sent
from littoral.reports.story import read_story
from littoral.reports.usage import pipe_uses


def shares(write_run, *sent: Sent) -> tuple[float, ...]:
    story = read_story(write_run(events=[*sent, RunFinished(10.0, "epochs")]))
    uses, _ = pipe_uses(story, bins=10)
    return next(use.shares for use in uses if use.pipe == "shed->hall")


def test_a_message_fills_the_link_until_a_latency_before_it_arrives(write_run) -> None:
    found = shares(write_run, Sent(3.5, "w1", "ps-1", "Push", 1_000_000, 2.0, True))
    assert found == pytest.approx((0, 0, 1, 0, 0, 0, 0, 0, 0, 0))


def test_messages_of_a_pair_pass_one_after_the_other(write_run) -> None:
    first = Sent(3.5, "w1", "ps-1", "Push", 1_000_000, 2.0, True)
    queued = Sent(4.5, "w1", "ps-1", "Push", 1_000_000, 2.0, True)
    assert shares(write_run, first, queued) == pytest.approx((0, 0, 1, 1, 0, 0, 0, 0, 0, 0))


def test_capacity_is_that_of_the_time(write_run) -> None:
    """From 5 s on the link carries twice as much: the same megabyte is half of a second's capacity."""
    found = shares(write_run, Sent(7.0, "w1", "ps-1", "Push", 1_000_000, 6.0, True))
    assert found == pytest.approx((0, 0, 0, 0, 0, 0, 0.5, 0, 0, 0))


def test_means_are_bytes_over_capacity_whatever_the_bins(write_run) -> None:
    story = read_story(write_run())
    for bins in (7, 160):
        uses, _ = pipe_uses(story, bins=bins)
        use = next(use for use in uses if use.pipe == "shed->hall")
        assert use.mean == pytest.approx(2e6 / (5 * 1e6 + 5 * 2e6))
        assert uses == sorted(uses, key=lambda use: -use.mean)


def test_without_messages_there_is_nothing_to_show(write_run) -> None:
    assert pipe_uses(read_story(write_run(detail=False))) == ([], 0)
