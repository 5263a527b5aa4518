"""A lab is what its continuum says: rates, latencies, quotas, and their changes over time."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.worlds.lab import check, probe, register
from littoral.worlds.lab.lab import Lab, LabUnavailable, Place, check_lab
from littoral.worlds.lab.pairs import GOODPUT, pair_of, pairs, ring_of
from littoral.worlds.lab.router import compiled_router
from littoral.worlds.lab.spaces import inside

pytestmark = pytest.mark.usefixtures("machine")


def site(*devices: str, link: str = "bandwidth: 10 Gbit/s, latency: 0.2 ms") -> Continuum:
    rows = "\n".join(
        f"  - {{name: d{n}, site: s, samples_per_second: 9 samples/s, memory: 1 TB, {row}}}"
        for n, row in enumerate(devices)
    )
    return parse_continuum(f"sites: [{{name: s}}]\ndevices:\n{rows}\nlinks: [{{between: [s, s], {link}}}]\n")


def ports(rate: str, cpu: float = 0.1) -> str:
    return f"uplink: {rate}, downlink: {rate}, cpu: {cpu}"


@pytest.fixture
def pair() -> Iterator[Lab]:
    with Lab.up(site(ports("20 Mbit/s", 0.3), ports("50 Mbit/s"), link="bandwidth: 1 Gbit/s, latency: 10 ms")) as lab:
        yield lab


def assert_within(found: list[check.Measured]) -> None:
    assert found and all(each.within for each in found), found


def rate_of(lab: Lab, source: str, target: str) -> list[check.Measured]:
    wanted = pair_of(lab.wiring, source, target)
    assert wanted is not None
    return check.again(partial(check.measure_rate, wanted, lab.place))


def reaches(measure: Callable[[], float], expected: float, rel: float = 0.1) -> None:
    """A machine with other work may disturb a measurement, not three of them."""
    found = [measure()]
    while found[-1] != pytest.approx(expected, rel=rel) and len(found) < 3:
        found.append(measure())
    assert found[-1] == pytest.approx(expected, rel=rel), found


def run_inside(place: Place, code: str) -> subprocess.CompletedProcess[str]:
    """A process that lives at ``place``, and its end."""
    start = f"""\
import msgspec, sys
from littoral.worlds.lab.places import Place, enter
enter(msgspec.json.decode(sys.argv[1], type=Place))
{textwrap.dedent(code)}
"""
    command = [sys.executable, "-c", start, msgspec.json.encode(place).decode()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


# -- links ------------------------------------------------------------------------------------------------------------


def test_rates_from_1_to_500_megabits() -> None:
    with Lab.up(site(*(ports(f"{rate} Mbit/s") for rate in (1, 20, 100, 500)), ports("1 Gbit/s"))) as lab:
        for device in ("d0", "d1", "d2", "d3"):
            assert_within(rate_of(lab, device, "d4"))


def test_round_trips(pair: Lab) -> None:
    for each in pairs(pair.wiring):
        assert_within(check.again(partial(check.measure_round_trip, each, pair.place)))


def test_the_router_in_python_shapes_the_same() -> None:
    with Lab.up(site(ports("20 Mbit/s"), ports("50 Mbit/s")), python_router=True) as lab:
        assert_within(rate_of(lab, "d0", "d1"))
        wanted = pairs(lab.wiring)[0]
        assert_within(check.again(partial(check.measure_round_trip, wanted, lab.place)))
        assert_within([check.measure_cut(wanted, lab.place, lab.scale)])
        assert lab.stats()["bytes"]["d0.up"] > 0


def test_without_a_compiler_the_router_is_in_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert compiled_router() is None
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = compiled_router()
    if program is not None:  # where there is a compiler it is used once
        made = program.stat().st_mtime_ns
        assert compiled_router() == program and program.stat().st_mtime_ns == made


def test_those_who_share_a_pipe_share_its_rate() -> None:
    text = """\
sites: [{name: p}, {name: q}]
devices:
  - {name: a, site: p, samples_per_second: 9 samples/s, memory: 1 TB}
  - {name: b, site: p, samples_per_second: 9 samples/s, memory: 1 TB}
  - {name: c, site: q, samples_per_second: 9 samples/s, memory: 1 TB}
links: [{between: [p, q], bandwidth: 40 Mbit/s, latency: 2 ms}]
"""
    with Lab.up(parse_continuum(text)) as lab:
        tasks = [partial(probe.goodput, lab.place(name), lab.place("c"), warm_s=0.5, seconds=1.0) for name in "ab"]
        reaches(lambda: sum(check.together(tasks)), 5e6 * GOODPUT)
        reaches(lambda: min(check.together(tasks)), 2.5e6 * GOODPUT)


def test_a_small_message_does_not_queue_behind_a_large_one(pair: Lab) -> None:
    def round_trip() -> float:
        with probe.flowing(pair.place("d0"), pair.place("d1")):
            time.sleep(0.5)  # a queue builds up, of 50 ms if flows did not take turns
            return probe.round_trip(pair.place("d0"), pair.place("d1"), probes=20)

    reaches(round_trip, 0.025, rel=0.3)


def test_losses() -> None:
    with Lab.up(site(ports("40 Mbit/s"), ports("40 Mbit/s"), link="bandwidth: 1 Gbit/s, loss: 0.05"), seed=3) as lab:
        assert_within(rate_of(lab, "d0", "d1"))


def test_a_pipe_can_be_cut_restored_and_slowed(pair: Lab) -> None:
    wanted = pairs(pair.wiring)[0]
    assert_within([check.measure_cut(wanted, pair.place, pair.scale)])
    pair.scale("d0.up", 0.25)
    task = partial(probe.goodput, pair.place("d0"), pair.place("d1"), warm_s=0.5, seconds=1.0)
    reaches(task, 20e6 / 8 / 4 * GOODPUT)


def test_a_connection_outlives_a_cut(pair: Lab) -> None:
    a, b = pair.place("d0"), pair.place("d1")
    with (
        inside(b.netns, lambda: socket.create_server((b.address, 0))) as door,
        inside(a.netns, lambda: socket.create_connection(door.getsockname()[:2])) as sender,
        door.accept()[0] as receiver,
    ):
        receiver.settimeout(20.0)
        pair.scale("d0.up", 0.0)
        sender.sendall(b"x" * 1000)
        while not pair.stats()["dropped"]["d0.up"]:
            time.sleep(0.01)
        pair.scale("d0.up", 1.0)
        assert receiver.recv(1000) == b"x" * 1000


def test_traces_follow_the_clock_once_it_runs() -> None:
    steps = "{steps: [[0 s, 8 Mbit/s], [300 ms, 40 Mbit/s]]}"
    with Lab.up(site(f"uplink: {steps}, cpu: 0.1", ports("1 Gbit/s"))) as lab:
        task = partial(probe.goodput, lab.place("d0"), lab.place("d1"), warm_s=0.5, seconds=0.5)
        reaches(task, 1e6 * GOODPUT)
        lab.start_clock()
        reaches(task, 5e6 * GOODPUT)


def test_the_coordinator_uses_its_homes_port(pair: Lab) -> None:
    def carried(target: str) -> dict[str, int]:
        before = pair.stats()["bytes"]
        probe.round_trip(pair.coordinator, pair.place(target), probes=3)
        after = pair.stats()["bytes"]
        return {name: after[name] - before[name] for name in after if after[name] > before[name]}

    assert carried("d0") == {}
    assert set(carried("d1")) == {"d0.up", "d1.down", "d1.up", "d0.down"}
    pair.set_home("d1")
    assert carried("d1") == {}
    assert set(carried("d0")) == {"d0.up", "d1.down", "d1.up", "d0.down"}


# -- devices ----------------------------------------------------------------------------------------------------------


def test_quotas_hold_for_all_at_once() -> None:
    devices = [ports("1 Gbit/s", cpu) for cpu in (0.4, 0.2, 0.2, 0.1)]
    with Lab.up(site(*devices)) as lab:
        assert_within(check.again(partial(check.measure_cpu, lab.quotas, lab.place)))


def test_speed_and_load_change_the_quota() -> None:
    with Lab.up(site(f"{ports('1 Gbit/s', 0.8)}, load: 50 %", ports("1 Gbit/s"))) as lab:

        def holds(cores: float) -> None:
            assert_within(check.again(partial(check.measure_cpu, {"d0": cores}, lab.place)))

        lab.set_speed("d0", 0.25)
        holds(0.2)
        lab.set_speed("d0", 1.0)
        lab.start_clock()
        holds(0.4)


def test_a_process_lives_where_its_place_is(pair: Lab) -> None:
    place = pair.place("d1")
    code = """
        import json, socket
        with socket.create_server(("0.0.0.0", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("10.77.0.1", 9))
            groups = open("/proc/self/cgroup").read()
            print(json.dumps([probe.getsockname()[0], [name for _, name in socket.if_nameindex()], groups]))
    """
    done = run_inside(place, code)
    address, interfaces, groups = json.loads(done.stdout)
    assert address == place.address
    assert interfaces == ["lo", pair.name]
    assert f"/{pair.name}/d1" in groups


def test_memory_is_limited() -> None:
    small = "samples_per_second: 9 samples/s, memory: 100 MB, cpu: 0.5"
    text = f"sites: [{{name: s}}]\ndevices: [{{name: small, site: s, {small}}}]\n"
    with Lab.up(parse_continuum(text)) as lab:
        code = "print('alive', flush=True)\ndata = bytearray(b'x') * {size}\nprint('done')"
        assert run_inside(lab.place("small"), code.format(size=20 << 20)).stdout.split() == ["alive", "done"]
        assert run_inside(lab.place("small"), code.format(size=200 << 20)).stdout.split() == ["alive"]


# -- the whole --------------------------------------------------------------------------------------------------------


def test_check_measures_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_MEASURE_S", 0.5)
    monkeypatch.setattr(check, "_BURN_S", 0.5)
    told: list[str] = []
    measured = check_lab(site(ports("20 Mbit/s"), ports("50 Mbit/s")), progress=told.append)
    assert_within(measured)
    assert {each.what for each in measured} == {"rate", "round trip", "cpu", "step", "cut"}
    assert {"d0 -> d1", "d1 -> d0"} <= {each.where for each in measured if each.what == "rate"}
    assert told[-1].startswith("the router used")


def test_all_links_at_once_and_a_cut() -> None:
    rates = ("1 Gbit/s", "100 Mbit/s", "100 Mbit/s", "20 Mbit/s")
    with Lab.up(site(*map(ports, rates))) as lab:
        ring = ring_of(lab.wiring)
        assert [pair.where for pair in ring] == ["d0 -> d1", "d1 -> d2", "d2 -> d3", "d3 -> d0"]
        measured = check.again(partial(check.measure_at_once, lab, ring))
        assert_within(measured)
        assert [each.asked > 0 for each in measured] == [True] * 6 + [False] * 2  # the cut port also carried answers


def test_two_labs_do_not_meet(pair: Lab) -> None:
    with Lab.up(site(ports("20 Mbit/s"), ports("50 Mbit/s")), python_router=True) as other:
        assert other.place("d0").address.rpartition(".")[0] != pair.place("d0").address.rpartition(".")[0]
        with probe.echo(other.place("d0"), other.place("d1")) as client:
            assert probe.ping(client, 2.0)
    with probe.echo(pair.place("d0"), pair.place("d1")) as client:
        assert probe.ping(client, 2.0)


def test_down_ends_what_runs_inside_and_may_be_called_again() -> None:
    lab = Lab.up(site(ports("20 Mbit/s"), ports("50 Mbit/s")))
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as lodger:
        assert lodger.stdout is not None
        lodger.stdout.readline()
        for group in lab.place("d0").cgroups:
            Path(group, "cgroup.procs").write_text(str(lodger.pid))
        lab.down()
        assert lodger.wait(10) == -9
    lab.down()
    assert lab.name not in register.found()


def test_what_is_not_there_is_named(pair: Lab) -> None:
    with pytest.raises(InputError, match="no place 'd3'"):
        pair.place("d3")
    with pytest.raises(InputError, match=r"no pipe 'd0.upp'.*did you mean 'd0.up'"):
        pair.scale("d0.upp", 0.0)
    with pytest.raises(InputError, match="no device 'd7'"):
        pair.set_speed("d7", 0.5)


def test_a_failed_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("littoral.worlds.lab.router.compiled_router", lambda: Path("/bin/false"))
    with pytest.raises(LabUnavailable, match=r"the router ended.*'--world processes'"):
        Lab.up(site(ports("20 Mbit/s"), ports("50 Mbit/s")))
