"""Labs are found again and removed, however their owner ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.worlds.lab import cgroups, register, spaces
from littoral.worlds.lab.lab import Lab, leftovers, take_down, up_and_leave
from littoral.worlds.lab.parts import LabUnavailable, missing_parts

TEXT = """\
sites: [{name: s}]
devices:
  - {name: a, site: s, samples_per_second: 9 samples/s, memory: 1 TB, cpu: 0.1}
  - {name: b, site: s, samples_per_second: 9 samples/s, memory: 1 TB, cpu: 0.1}
links: [{between: [s, s], bandwidth: 100 Mbit/s}]
"""

OWNER = """\
import subprocess, sys, time
from littoral.continuum.load import parse_continuum
from littoral.worlds.lab.lab import Lab
lab = Lab.up(parse_continuum(sys.argv[1]), python_router=sys.argv[2] == "python")
lodger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for group in lab.place("a").cgroups:
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(lodger.pid))
print(lab.name, lodger.pid, flush=True)
time.sleep(600)
"""


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("router", ["compiled", "python"])
def test_after_the_owner_is_killed(router: str) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, TEXT, router], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name, lodger = owner.stdout.readline().split()
        record = register.read(name)
        assert record is not None and record.router is not None and record.router.alive
        assert name not in leftovers()  # it is needed
        owner.kill()
    wait_until(lambda: not record.router.alive)  # the router ends by itself
    assert name in leftovers()
    removed = take_down(name)
    assert any("namespace" in each for each in removed) and any("control group" in each for each in removed)
    assert register.started(int(lodger)) == 0
    assert name not in register.found() and name not in leftovers()
    assert not spaces.named(name) and not cgroups.named(name) and register.read(name) is None


@pytest.mark.usefixtures("machine")
def test_the_next_lab_sweeps_up_after_a_killed_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, TEXT, "compiled"], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().split()[0]
        owner.kill()
    with Lab.up(parse_continuum(TEXT)):
        assert name not in register.found()


@pytest.mark.usefixtures("machine")
def test_a_kept_lab_stays_until_taken_down() -> None:
    name, *rows = up_and_leave(parse_continuum(TEXT)).splitlines()
    try:
        assert [row.split()[0] for row in rows] == ["a", "b", "(this"]
        record = register.read(name)
        assert record is not None and record.owner.alive and set(record.places) == {"a", "b"}
        assert record.places["a"].netns == f"/run/netns/{name}-a"
        with Lab.up(parse_continuum(TEXT)):
            pass
        assert name in leftovers() and record.owner.alive  # another lab does not sweep it away
    finally:
        removed = take_down(name)
    assert any(name in each for each in removed)
    assert not record.owner.alive and name not in register.found()


@pytest.mark.usefixtures("machine")
def test_who_reads_the_output_of_lab_up_reaches_its_end(tmp_path: Path) -> None:
    """What stays behind holds neither output nor errors open: `littoral lab up FILE 2>&1 | tail` must come back."""
    (tmp_path / "continuum.yaml").write_text(TEXT)
    command = [sys.executable, "-m", "littoral", "lab", "up", str(tmp_path / "continuum.yaml")]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout
    take_down(told.splitlines()[0])


@pytest.mark.usefixtures("machine")
def test_a_lab_that_cannot_be_kept_says_why() -> None:
    greedy = TEXT.replace("cpu: 0.1", f"cpu: {os.cpu_count()}")
    with pytest.raises(LabUnavailable, match="the devices ask for"):
        up_and_leave(parse_continuum(greedy))


def test_a_name_that_is_no_lab() -> None:
    with pytest.raises(InputError, match="there is no lab 'lit-none'"):
        take_down("lit-none")


def test_without_root_the_lab_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "it needs root (try sudo)" in missing_parts()
    with pytest.raises(LabUnavailable, match=r"needs root.*'--world processes' work") as caught:
        Lab.up(parse_continuum(TEXT))
    assert caught.value.exit_code == 2


def test_a_process_is_not_mistaken_for_a_later_one() -> None:
    mine = register.process(os.getpid())
    assert mine.alive
    assert not register.Process(mine.pid, mine.started + 1).alive
