"""Our own stressors, called as functions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from littoral.profiling import burners, gpu_burner


def until(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_share_of_a_core_in_processor_time(share: float) -> None:
    cpu, wall = time.process_time(), time.monotonic()
    burners.burn(share, until(0.8))
    had = (time.process_time() - cpu) / (time.monotonic() - wall)
    assert share / 4 < had < share + 0.1  # neighbours may leave it less; inside a quota of its own it is exact


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_memory_is_resident() -> None:
    before = resident_bytes()
    held = burners.hold(64 << 20)
    assert resident_bytes() - before > 60 << 20 and len(held) == 64 << 20


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(SystemExit, match="no stressor 'disk'"):
        burners.main("disk", "1")


@pytest.mark.parametrize("share", [0.25, 0.8, 1.0])
def test_bursts_on_a_card_take_their_share_of_the_time(share: float) -> None:
    busy = itertools.count(1)

    def product() -> None:
        time.sleep(0.002)
        next(busy)

    begin = time.monotonic()
    gpu_burner.burn(share, product, until(0.5))
    burst_s = 0.002 * next(busy)
    assert burst_s / (time.monotonic() - begin) <= share + 0.05
    assert burst_s > 0.3 * share * 0.5  # sleeps take longer than asked, so less than the share is seen here
