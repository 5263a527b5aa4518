"""A node's clock follows the run's, and believes the echo that was back fastest."""

from __future__ import annotations

import time

import pytest

from littoral.worlds.processes.clock import RunClock


def test_a_quick_echo_sets_the_clock_and_a_slow_one_does_not_spoil_it() -> None:
    clock = RunClock(zero=0.0)
    clock.learn(time.monotonic(), 100.0)
    assert clock() == pytest.approx(100.0, abs=0.05)
    clock.learn(time.monotonic() - 2.0, 500.0)  # two seconds under way: any of them could be 500
    assert clock() == pytest.approx(100.0, abs=0.05)


def test_the_beginning_may_be_moved() -> None:
    clock = RunClock(zero=time.monotonic())
    clock.shift(10.0)
    assert clock() == pytest.approx(-10.0, abs=0.05)
