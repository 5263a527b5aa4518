"""Control groups of both versions, as far as files can tell; the lab's own tests use the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from littoral.worlds.lab import cgroups
from littoral.worlds.lab.cgroups import Controllers

V1 = """\
30 20 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
33 30 0:28 / {unified} rw,nosuid - cgroup2 cgroup2 rw
"""
V2 = "33 30 0:28 / {unified} rw,nosuid - cgroup2 cgroup2 rw\n"


def offered(folder: Path, controllers: str) -> Path:
    (folder / "cgroup.controllers").write_text(controllers)
    return folder


def test_version_1_is_found_beside_an_empty_unified_tree(tmp_path: Path) -> None:
    found = cgroups.find_controllers(V1.format(unified=offered(tmp_path, "")))
    assert found == Controllers(Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/memory"), None)


def test_version_2_is_found(tmp_path: Path) -> None:
    found = cgroups.find_controllers(V2.format(unified=offered(tmp_path, "cpuset cpu io memory pids")))
    assert found == Controllers(tmp_path, tmp_path, tmp_path)


def test_nothing_is_found_where_nothing_is_offered(tmp_path: Path) -> None:
    assert cgroups.find_controllers(V2.format(unified=offered(tmp_path, "pids"))).cpu is None


@pytest.fixture
def group(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A group as the kernel would make it."""
    for name in request.param:
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("group", [("cpu.max", "cpu.weight", "memory.max")], indirect=True)
def test_limits_of_version_2(group: Path) -> None:
    cgroups.limit_cpu((str(group),), 0.4)
    assert ((group / "cpu.max").read_text(), (group / "cpu.weight").read_text()) == ("8000 20000", "40")
    cgroups.limit_cpu((str(group),), 0.01)  # the kernel takes no quota below a millisecond
    assert (group / "cpu.max").read_text() == "1000 100000"
    cgroups.limit_cpu((str(group),), 0.0)
    assert (group / "cpu.max").read_text() == "1000 1000000"
    cgroups.limit_memory((str(group),), 1 << 30)
    assert (group / "memory.max").read_text() == "1073741824"


@pytest.mark.parametrize("group", [("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares")], indirect=True)
def test_limits_of_version_1(group: Path) -> None:
    cgroups.limit_cpu((str(group),), 1.5)
    told = [(group / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares")]
    assert told == ["30000", "20000", "1536"]


def test_version_2_is_switched_on_for_the_lab(tmp_path: Path) -> None:
    groups = cgroups.create(Controllers(tmp_path, tmp_path, tmp_path), "lit-0000", "pi")
    assert groups == (str(tmp_path / "lit-0000" / "pi"),)
    for folder in (tmp_path, tmp_path / "lit-0000"):
        assert (folder / "cgroup.subtree_control").read_text() in ("+cpu", "+memory")
    assert not cgroups.can_limit_cpu(groups)  # no kernel here that would have made the files


@pytest.mark.usefixtures("machine")
def test_the_caller_leaves_a_group_that_is_removed() -> None:
    groups = cgroups.create(cgroups.find_controllers(), "lit-ffff", "pi")
    for group in groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    for lab in cgroups.named("lit-ffff"):
        cgroups.remove(lab)
    assert not cgroups.named("lit-ffff")
    assert "lit-ffff" not in Path("/proc/self/cgroup").read_text()
