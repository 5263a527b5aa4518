"""Samples from readings, windows over samples, limits of groups, and this machine for a moment."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from littoral.errors import InputError, RunFailed
from littoral.profiling.devices import Device, size_of
from littoral.profiling.groups import Groups, Members, scheduling
from littoral.profiling.limits import own_limits
from littoral.profiling.probe import Probe, settle
from littoral.profiling.readings import Reading, Watched, disk_bytes, network_bytes
from littoral.profiling.samples import between
from littoral.worlds.lab.places import Place

FIRST = Reading(at=10.0, cores=0.5, cpu_s=1.0, held_s=2.0, waited_s=3.0, stalled_s=0.0, disk_bytes=0.0, memory=0.25)


class Fake:
    """A device whose readings, and a clock whose moments, are given beforehand."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._left = list(readings)
        self.now = 0.0

    def read(self, at: float) -> Reading:
        self.now = self._left[0].at
        return self._left.pop(0)

    def close(self) -> None: ...


def probe_of(readings: Iterable[Reading], **options: int) -> Probe:
    fake = Fake(readings)
    return Probe(source=fake, clock=lambda: fake.now, **options)


def readings_of(shares: Iterable[float]) -> list[Reading]:
    """Of a device that used these shares of one core, one second each."""
    used = accumulate(shares, initial=0.0)
    return [Reading(at=float(second), cpu_s=seconds) for second, seconds in enumerate(used)]


def test_rates_are_differences_and_shares_are_of_the_quota() -> None:
    after = replace(FIRST, at=12.0, cpu_s=1.5, held_s=2.5, waited_s=4.0, stalled_s=0.2, disk_bytes=4e6, memory=0.5)
    sample = between(FIRST, after)
    assert (sample.cpu, sample.waiting, sample.load, sample.memory) == (0.5, 0.5, 1.5, 0.5)
    assert (sample.stalled, sample.disk_bytes_per_s) == (pytest.approx(0.1), 2e6)
    assert sample.network_bytes_per_s is None and sample.queued is None  # nobody tells


def test_a_counter_that_goes_backwards_is_skipped() -> None:
    rebooted = replace(FIRST, at=11.0, cpu_s=0.1, disk_bytes=8.0)
    sample = between(FIRST, rebooted)
    assert sample.cpu is None and sample.disk_bytes_per_s == 8.0
    probe = probe_of([FIRST, rebooted, replace(rebooted, at=12.0, cpu_s=0.35)])
    for _ in range(3):
        probe.take()
    assert probe.summary(10, 12).cpu == pytest.approx(0.5)


def test_a_window_leaves_out_what_is_not_wholly_in_it() -> None:
    probe = probe_of(readings_of([1.0, 1.0, 0.2, 0.4, 0.2]))
    for _ in range(6):
        probe.take()
    assert probe.summary(2, 5, None).cpu == pytest.approx(0.8 / 3)
    assert probe.summary(1.5, 5, 1.0).cpu == pytest.approx(0.4)
    assert probe.summary(0, 5, 0.5).cpu == pytest.approx(0.4)
    with pytest.raises(RunFailed, match=r"no sample between 4\.2 and 4\.9"):
        probe.summary(4.2, 4.9)


def test_memory_is_bounded() -> None:
    probe = probe_of((Reading(at=float(second)) for second in range(50)), keep=10)
    for _ in range(50):
        probe.take()
    assert len(probe.samples) == 10 and probe.samples[-1].at == 49


def test_kernel_pressure_counts_only_where_threads_do_not_tell() -> None:
    probe = probe_of([Reading(at=0.0, queued_s=0.0), Reading(at=1.0, queued_s=0.0), Reading(at=2.0, queued_s=0.6)])
    for _ in range(3):
        probe.take()
    assert probe.summary(0, 2, 0.95).pressure == pytest.approx(0.3)  # a mean: such files come up to date in leaps


def test_settling_waits_for_two_windows_alike() -> None:
    probe = probe_of(readings_of([0.9, 0.5, 0.3, 0.31, 0.9]))
    probe.take()
    state = settle(probe, sleep=lambda seconds: probe.take())
    assert state.cpu == pytest.approx(0.305) and probe.clock() == 4


def test_settling_has_a_limit() -> None:
    readings = [Reading(at=float(second), cpu_s=second % 2 + second) for second in range(20)]
    probe = probe_of(readings)
    probe.take()
    settle(probe, limit_s=6, sleep=lambda seconds: probe.take())
    assert probe.clock() == 6


def test_a_source_that_fails_is_told() -> None:
    with Probe(every_s=0.01, source=Fake([Reading(at=0.0), Reading(at=1.0)])) as probe:
        deadline = time.monotonic() + 10
        while any(thread.name == "probe" for thread in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(RunFailed, match="the probe ended"):
            probe.summary(0, 1)


@pytest.mark.parametrize("every_s", [0.0, -1.0, float("inf"), float("nan")])
def test_odd_intervals_are_refused(every_s: float) -> None:
    with pytest.raises(InputError):
        Probe(every_s=every_s)


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.procs": "", **files}.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_groups_of_version_2(tmp_path: Path) -> None:
    write(tmp_path / "lab", cpu__max="30000 100000\n", memory__max="max\n")
    stat, held = "usage_usec 2500000\nnr_throttled 4\nthrottled_usec 500000\n", "anon 7\ninactive_file 1000\n"
    device = write(
        tmp_path / "lab/device", cpu__max="50000 100000", cpu__stat=stat, memory__max="4000", memory__current="3000",
        memory__stat=held, memory__pressure="some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
    )  # fmt: skip
    reader = Device(Place("", "", (str(device),)))
    reading = reader.read(1.0)
    assert (reading.cores, reading.cpu_s, reading.held_s) == (0.3, 2.5, 0.5)  # the group above is tighter
    assert (reading.memory, reading.stalled_s) == (0.5, 1.5)  # file pages that can go do not count
    (tmp_path / "lab/cpu.max").write_text("max 100000")
    assert reader.size().cores == 0.5
    reader.close()


def test_groups_of_version_1(tmp_path: Path) -> None:
    cpu = write(
        tmp_path / "cpu/device", cpu__cfs_quota_us="4000", cpu__cfs_period_us="20000",
        cpu__stat="nr_periods 9\nnr_throttled 4\nthrottled_time 500000000\n", cpuacct__usage="2500000000\n",
    )  # fmt: skip
    memory = write(tmp_path / "memory/device", memory__limit_in_bytes="9223372036854771712", memory__stat="")
    groups = Groups([cpu, memory])
    assert groups.cores.now(2.0) == 0.2 and groups.times()[:2] == (2.5, 0.5)
    assert groups.memory_bytes.now(1e9) == 1e9  # no limit: the machine's
    groups.close()


def test_inside_a_container_its_limits_count(tmp_path: Path) -> None:
    write(tmp_path / "box/inner", cpu__max="max 100000", memory__max="max")
    write(tmp_path / "box", cpu__max="150000 100000", memory__max="max")
    assert own_limits("0::/box/inner\n", str(tmp_path))[0] == tmp_path / "box"
    write(tmp_path / "bare", cpu__max="max 100000", memory__max="max")
    assert own_limits("0::/bare\n", str(tmp_path)) == []


def test_threads_count_from_when_they_are_seen_and_what_the_dead_used_stays() -> None:
    members = Members("schedstat", scheduling)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        time.sleep(0.2)
        assert members.sums([busy.pid]) == (0.0, 0.0)
        time.sleep(0.2)
        used, _ = members.sums([busy.pid])
        busy.kill()
    assert used > 0 and members.sums([busy.pid])[0] == members.sums([])[0] == used
    members.close()


def test_whole_disks_and_real_interfaces_only() -> None:
    row = "254 0 {} 9 9 {} 9 9 9 {} 9 0 9 9"
    names = ("vda", "vda1", "nvme0n1", "nvme0n1p2", "loop0", "dm-0")
    assert disk_bytes("\n".join(row.format(name, 1, 2) for name in names)) == 2 * 3 * 512
    header = "Inter-| Receive\n face | bytes\n"
    assert network_bytes(header + "    lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 10 0 0 0 0 0 0 0 7 0\n") == 17.0


def test_a_watched_file_is_read_whole_and_anew(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    path.write_text("long" * 50_000)
    file = Watched(path)
    assert file.text() == "long" * 50_000
    path.write_text("short")
    assert file.text() == "short"
    file.close()
    assert file.text() == Watched(tmp_path / "none").text() == ""


def test_this_machine_for_a_moment() -> None:
    Probe().take()  # NVML keeps a file open from its first use on
    open_files = len(os.listdir("/proc/self/fd"))
    with Probe(every_s=0.02) as probe:
        start = probe.clock()
        time.sleep(0.4)
        state = probe.summary(start, probe.clock())
    assert 0 <= state.cpu <= 1 and 0 < state.memory < 1 and 0 <= state.pressure <= 1 and state.load >= 0
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert not any(thread.name == "probe" for thread in threading.enumerate())
    size = size_of(None)
    assert size.cores <= (os.cpu_count() or 1) and 0 < size.free_bytes < size.memory_bytes
