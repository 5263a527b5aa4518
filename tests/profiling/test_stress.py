"""Commanded stress against what a probe sees, and that nothing of it stays.

Neighbours on the machine are allowed for: tolerances are wide, and of several samples the median counts.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from littoral.errors import InputError, RunFailed
from littoral.profiling import burners, companion
from littoral.profiling import stress as stress_module
from littoral.profiling.devices import Size
from littoral.profiling.keeper import Order
from littoral.profiling.probe import Probe, settle
from littoral.profiling.rows import State
from littoral.profiling.stress import stressed
from littoral.profiling.stressors import Stress, commands_for, has_stress_ng
from littoral.worlds.lab.ending import end
from littoral.worlds.lab.places import Place

HALF_CORE = Size(cores=0.5, memory_bytes=1e9, free_bytes=9e8)
WAYS = [
    pytest.param(True, id="stress-ng", marks=pytest.mark.skipif(not has_stress_ng(), reason="stress-ng is missing")),
    pytest.param(False, id="own"),
]


def state_under(stress: Stress, place: Place | None, stress_ng: bool | None = None) -> State:
    """The median state, about a second after the stressors were started."""
    with Probe(place) as probe, stressed(stress, place, stress_ng=stress_ng) as running:
        time.sleep(0.9)
        start = probe.clock()
        time.sleep(1.0)
        running.check()
        return probe.summary(start, probe.clock(), 0.5)


def eventually(true: Callable[[], Any], patience_s: float = 10.0) -> bool:
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(child) for child in children.read_text().split()] if children.exists() else []
    return found + [below for child in found for below in descendants(child)]


def gone(pids: list[int]) -> bool:
    return not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where stressors put their files: others on this machine may run some, too."""
    monkeypatch.setattr(stress_module, "_disk_folder", lambda: str(tmp_path))
    return tmp_path


def empty(folder: Path) -> bool:
    return not list(folder.iterdir())


@pytest.mark.parametrize("stress_ng", WAYS)
def test_processor_within_a_quota_and_memory_within_a_limit(place: Place, stress_ng: bool) -> None:
    state = state_under(Stress(cpu=0.5, memory=0.3), place, stress_ng)
    assert state.cpu == pytest.approx(0.5, abs=0.15)
    assert state.memory == pytest.approx(0.32, abs=0.08)
    assert state.pressure < 0.4


@pytest.mark.parametrize("stress_ng", WAYS)
def test_too_much_for_a_quota(place: Place, stress_ng: bool) -> None:
    state = state_under(Stress(cpu=2.0), place, stress_ng)
    assert state.cpu > 0.85 and state.pressure > 0.25 and state.load > 1.2


def test_processor_of_the_machine(machine: None) -> None:
    assert state_under(Stress(cpu=0.5), None).cpu > 0.35  # others only add to it


@pytest.mark.skipif(not has_stress_ng(), reason="stress-ng is missing")
def test_disk_and_bandwidth(place: Place, folder: Path) -> None:
    stress = Stress(disk=0.3, bandwidth=0.1)
    with Probe(place) as probe, stressed(stress, place) as running:
        time.sleep(0.5)
        state = settle(probe, window_s=1.0, tolerance=0.2, limit_s=4.0)
        running.check()
        assert running.names == ("bandwidth", "disk") and running.memory_bytes_per_s > 1e7
        assert not empty(folder)
    assert state.disk_bytes_per_s > 1e5 and state.cpu > 0.01
    assert empty(folder)


@pytest.mark.parametrize("stress_ng", WAYS)
def test_nothing_stays(machine: None, folder: Path, stress_ng: bool) -> None:
    with stressed(Stress(cpu=0.1, memory=0.001), stress_ng=stress_ng) as running:
        assert eventually(lambda: len(descendants(running.pid)) >= 2)
        pids = [running.pid, *descendants(running.pid)]
    assert gone(pids) and empty(folder)


CHILD = """
import sys, time
from littoral.profiling import stress
from littoral.profiling.stress import Stress, stressed
stress._disk_folder = lambda: sys.argv[2]
with stressed(Stress(cpu=0.1, memory=0.001), stress_ng=sys.argv[1] == "True") as running:
    print(running.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("stress_ng", WAYS)
def test_nothing_stays_of_a_parent_that_was_killed(machine: None, folder: Path, stress_ng: bool) -> None:
    command = [sys.executable, "-c", CHILD, str(stress_ng), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        keeper = int(parent.stdout.readline())
        assert eventually(lambda: len(descendants(keeper)) >= 2)
        pids = [keeper, *descendants(keeper)]
        parent.kill()
    assert eventually(lambda: gone(pids)) and eventually(lambda: empty(folder))


@pytest.mark.parametrize("stress_ng", WAYS)
def test_a_keeper_that_was_killed_is_noticed_and_leaves_nothing(machine: None, folder: Path, stress_ng: bool) -> None:
    with stressed(Stress(cpu=0.1, memory=0.001), stress_ng=stress_ng) as running:
        assert eventually(lambda: len(descendants(running.pid)) >= 2)
        pids = descendants(running.pid)
        os.kill(running.pid, signal.SIGKILL)
        assert eventually(lambda: gone([running.pid]))
        with pytest.raises(RunFailed, match="their keeper was killed"):
            running.check()
    assert eventually(lambda: gone(pids)) and empty(folder)


def test_what_a_stressor_started_ends_though_the_keeper_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["sh", "-c", "sleep 60 & sleep 60"]
    monkeypatch.setattr(stress_module, "commands_for", lambda *_, **__: {"with a child": command})
    with stressed(Stress(cpu=0.1)) as running:
        assert eventually(lambda: len(descendants(running.pid)) == 3)
        pids = descendants(running.pid)
        os.kill(running.pid, signal.SIGKILL)
    assert eventually(lambda: gone(pids))


def test_a_stressor_that_ends_is_named(machine: None) -> None:
    with stressed(Stress(memory=0.001), stress_ng=False) as running:
        running.check()
        os.kill(descendants(running.pid)[0], signal.SIGKILL)
        assert eventually(lambda: gone([running.pid]))
        for _ in range(2):
            with pytest.raises(RunFailed, match="a stressor ended too early: memory"):
                running.check()


def test_no_stress_at_all() -> None:
    with stressed(Stress()) as running:
        running.check()
        assert running.names == () and running.memory_bytes_per_s == 0


def test_a_card_that_there_is_not(machine: None) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a graphics card")
    with stressed(Stress(gpu=0.5)) as running:
        assert eventually(lambda: gone([running.pid]), 30.0)
        with pytest.raises(RunFailed, match="gpu: torch finds no graphics card"):
            running.check()


def test_shares_may_be_of_other_cores_than_there_are_now(machine: None) -> None:
    with stressed(Stress(cpu=1.0), stress_ng=False, cores=0.25) as running:
        commands = [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in descendants(running.pid)]
    assert [command[-3:-1] for command in commands] == [["cpu", "0.25"]]


def test_memory_is_all_there_when_its_stress_begins(place: Place) -> None:
    with Probe(place) as probe:
        start = probe.clock()
        time.sleep(0.3)
        before = probe.summary(start, probe.clock(), None).memory
        with stressed(Stress(memory=0.5, cpu=1.0), place):
            start = probe.clock()
            time.sleep(0.4)
            assert probe.summary(start, probe.clock(), None).memory > before + 0.45


def test_others_are_started_when_a_slow_one_is_at_work(machine: None, tmp_path: Path) -> None:
    slow = ["sh", "-c", f"sleep 0.4; touch {tmp_path}/begun; echo burning; sleep 60"]
    next_one = ["sh", "-c", f"ls {tmp_path} > {tmp_path}/seen; sleep 60"]
    order = Order(None, str(tmp_path / "folder"), {"gpu": slow, "cpu": next_one}, telling=("gpu",))
    Path(order.folder).mkdir()
    keeper = companion.start("littoral.profiling.keeper", order)
    assert keeper.stdout is not None and keeper.stdout.readline() == b"ready\n"
    try:
        assert eventually(lambda: (tmp_path / "seen").exists() and "begun" in (tmp_path / "seen").read_text())
    finally:
        end(keeper)
        keeper.stdout.close()


def test_a_card_is_busy_as_soon_as_its_stress_begins(machine: None) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no graphics card")
    with Probe(None, card=0) as probe, stressed(Stress(gpu=0.8)):
        start = probe.clock()
        time.sleep(1.5)
        assert probe.summary(start, probe.clock(), 0.5).gpu > 0.4


def test_a_place_that_there_is_not(folder: Path) -> None:
    nowhere = Place("", "", ("/nowhere",))
    failing = pytest.raises(RunFailed, match=r"stressors did not start: .*/nowhere/cgroup\.procs")
    with failing, stressed(Stress(cpu=0.1), nowhere, stress_ng=False):
        pass
    assert empty(folder)


@pytest.mark.parametrize(
    "wrong", [{"cpu": -0.1}, {"cpu": float("nan")}, {"memory": 1.01}, {"gpu": float("inf")}, {"disk": "much"}]
)
def test_shares_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"stress: {next(iter(wrong))} is"):
        Stress(**wrong)


def test_without_stress_ng_the_disk_cannot_be_stressed() -> None:
    with pytest.raises(InputError, match="install it: apt install stress-ng"):
        commands_for(Stress(disk=0.5), HALF_CORE, None)


def test_in_a_quota_our_own_stressors_are_taken(tmp_path: Path) -> None:
    everything = Stress(cpu=0.5, memory=0.1, bandwidth=0.2, disk=0.5)
    by = {
        held: {name: words[0] for name, words in commands_for(everything, HALF_CORE, str(tmp_path), held=held).items()}
        for held in (False, True)
    }
    assert [name for name, program in by[False].items() if program == "stress-ng"] == ["cpu", "bandwidth", "disk"]
    assert [name for name, program in by[True].items() if program == "stress-ng"] == ["disk"]


def test_copies_keep_their_share_of_processor_time() -> None:
    turns = iter(range(400))
    begin, used = math.inf, 0.0

    def more() -> bool:
        nonlocal begin, used
        if math.isinf(begin):  # the memory is there
            begin, used = time.monotonic(), time.process_time()
        return next(turns, None) is not None

    copied = burners.copy(0.1, more)
    share = (time.process_time() - used) / (time.monotonic() - begin)
    assert copied > 1 << 20 and 0.05 < share < 0.2


def test_memory_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory 0\.9 does not fit; free now is a share of 0\.83"):
        commands_for(Stress(memory=0.9), HALF_CORE, None)


def test_commands_scale_with_the_quota() -> None:
    two = Size(cores=2.0, memory_bytes=1e9, free_bytes=9e8)
    assert commands_for(Stress(cpu=0.5), two, "/t")["cpu"][4:8] == ["--cpu", "2", "--cpu-load", "50"]
    assert commands_for(Stress(cpu=0.5), HALF_CORE, "/t")["cpu"][4:8] == ["--cpu", "1", "--cpu-load", "25"]
    assert list(commands_for(Stress(cpu=1.5), two, None)) == ["cpu 0", "cpu 1", "cpu 2"]
    assert commands_for(Stress(memory=0.5), two, None)["memory"][-1] == "500000000"
    assert commands_for(Stress(), two, None) == {}
