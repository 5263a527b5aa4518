"""Our own stressors, called as functions, on a clock of their own: how busy this machine is does not matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from littoral.profiling import burners, gpu_burner


class Fake:
    """Time on a core that is shared: every processor second takes ``slowness`` seconds, and sleeps last too long."""

    def __init__(self, slowness: float = 1.0) -> None:
        self.wall = self.cpu = 0.0
        self._slowness = slowness

    def monotonic(self) -> float:
        return self.wall

    def process_time(self) -> float:
        self.cpu += 5e-6
        self.wall += 5e-6 * self._slowness
        return self.cpu

    def sleep(self, seconds: float) -> None:
        self.wall += seconds + 1e-4

    def until(self, seconds: float) -> Callable[[], bool]:
        return lambda: self.wall < seconds


@pytest.mark.parametrize("slowness", [1.0, 1.05])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.9])
def test_a_share_of_a_core_in_processor_time(monkeypatch: pytest.MonkeyPatch, share: float, slowness: float) -> None:
    time = Fake(slowness)
    monkeypatch.setattr(burners, "time", time)
    burners.burn(share, time.until(2.0))
    assert time.cpu / time.wall == pytest.approx(share, rel=0.05)


def test_asking_for_more_than_there_is_has_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def had(share: float) -> float:
        time = Fake(slowness=3.0)
        monkeypatch.setattr(burners, "time", time)
        burners.burn(share, time.until(2.0))
        return time.cpu / time.wall

    assert 0.2 < had(0.5) < had(0.8) < had(1.0) <= 0.34


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
def test_bursts_on_a_card_take_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    time, busy = Fake(), 0.0
    monkeypatch.setattr(gpu_burner, "time", time)

    def product() -> None:
        nonlocal busy
        busy += 0.002
        time.wall += 0.002

    gpu_burner.burn(share, product, time.until(5.0))
    assert busy / time.wall == pytest.approx(share, abs=0.02)
