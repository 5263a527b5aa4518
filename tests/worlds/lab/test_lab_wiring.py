"""What the router is told is what planner and simulator count with."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import load_continuum, parse_continuum
from littoral.continuum.routes import Routes
from littoral.errors import InputError
from littoral.worlds.lab.pairs import pairs, ring_of, rounds
from littoral.worlds.lab.wiring import COORDINATOR, Wiring

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/**/continuum.yaml"))

TIERS = """\
sites: [{name: plant}, {name: region}, {name: island}]
devices:
  - {name: pi, site: plant, samples_per_second: 50 samples/s, memory: 1 GB, uplink: 20 Mbit/s, downlink: 50 Mbit/s}
  - {name: nano, site: plant, samples_per_second: 100 samples/s, memory: 1 GB, uplink: 1 Gbit/s, downlink: 1 Gbit/s}
  - {name: gpu, site: region, samples_per_second: 900 samples/s, memory: 8 GB, uplink: 1 Gbit/s}
  - {name: far, site: island, samples_per_second: 900 samples/s, memory: 8 GB}
stores:
  - {name: camera, site: plant, samples: 10}
  - {name: archive, site: region, samples: 10}
  - {name: disk, on: gpu, samples: 10}
links:
  - {between: [plant, plant], bandwidth: 300 Mbit/s, shared: true, latency: 2 ms, loss: 0.1}
  - {between: [plant, region], up: 10 Mbit/s, down: 50 Mbit/s, latency: 40 ms, loss: 0.2}
"""


@pytest.fixture
def tiers() -> Continuum:
    return parse_continuum(TIERS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_paths_are_the_routes(path: Path) -> None:
    continuum = load_continuum(path)
    names = continuum.device_names[:8]
    kept = tuple(device for device in continuum.devices if device.name in names)
    small = replace(continuum, devices=kept, stores=(), apps=())
    wiring, routes = Wiring(small, home=names[0]), Routes(small)
    for source, target in itertools.permutations(names, 2):
        try:
            route = routes.between(source, target)
        except InputError:
            assert (source, target) not in wiring.paths
            continue
        path_there = wiring.paths[source, target]
        assert path_there.pipes == tuple(pipe.name for pipe in route.pipes)
        assert path_there.latency_s == route.latency_s
        assert {wiring.pipes[pipe.name] for pipe in route.pipes} == set(route.pipes)


def test_the_coordinator_shares_its_homes_ports(tiers: Continuum) -> None:
    wiring = Wiring(tiers, home="pi")
    assert wiring.paths[COORDINATOR, "gpu"] == wiring.paths["pi", "gpu"]
    assert wiring.paths["gpu", COORDINATOR] == wiring.paths["gpu", "pi"]
    assert wiring.paths[COORDINATOR, "pi"].pipes == () and wiring.paths[COORDINATOR, "pi"].latency_s == 0.0
    wiring.move_home("gpu")
    assert wiring.paths[COORDINATOR, "pi"] == wiring.paths["gpu", "pi"]
    assert wiring.paths["gpu", COORDINATOR].pipes == ()
    assert ("far", COORDINATOR) not in wiring.paths


def test_a_store_without_a_device_is_a_host_without_a_port(tiers: Continuum) -> None:
    wiring, routes = Wiring(tiers, home="pi"), Routes(tiers)
    assert "camera" in wiring.hosts and "archive" in wiring.hosts and "disk" not in wiring.hosts
    for store, device in itertools.product(["camera", "archive"], ["pi", "nano", "gpu"]):
        there = tuple(pipe.name for pipe in routes.between(store, device).pipes)
        assert wiring.paths[store, device].pipes == there
        assert wiring.paths[store, device].latency_s == routes.between(store, device).latency_s
    assert wiring.paths["pi", "camera"].pipes == ("pi.up", "plant~")
    assert wiring.paths["gpu", "archive"].pipes == ("gpu.up",)  # a site without a network: by its port
    assert wiring.paths["gpu", "camera"].pipes == ("gpu.up", "plant~", "region->plant")


def test_losses_add_up_over_links(tiers: Continuum) -> None:
    wiring = Wiring(tiers, home="pi")
    assert wiring.paths["pi", "nano"].loss == pytest.approx(0.1)
    assert wiring.paths["pi", "gpu"].loss == pytest.approx(1 - 0.9 * 0.8)
    assert wiring.paths["gpu", "archive"].loss == 0.0


def test_nothing_connects_an_island(tiers: Continuum) -> None:
    wiring = Wiring(tiers, home="pi")
    assert not [pair for pair in wiring.paths if "far" in pair]


def test_segments_travel_joined_unless_each_may_be_lost(tiers: Continuum) -> None:
    clean = replace(tiers, links=tuple(replace(link, loss=0.0) for link in tiers.links))
    assert Wiring(tiers, home="pi").segments("nano") == 1
    joined = Wiring(clean, home="pi")
    assert [joined.segments(name) for name in ("pi", "nano", "gpu", COORDINATOR)] == [3, 44, 44, 3]


def test_buffers_hold_what_passes_while_a_quota_stops_a_process(tiers: Continuum) -> None:
    wiring = Wiring(tiers, home="pi")
    send, receive = wiring.buffers("nano")
    assert send == 1e9 / 8 * 0.03 and receive == 4 << 20
    assert wiring.buffers("pi")[0] == 75_000


def test_addresses_differ(tiers: Continuum) -> None:
    wiring = Wiring(tiers, home="pi", subnet=7)
    addresses = [wiring.address(host) for host in wiring.hosts]
    assert len(set(addresses)) == 7 and all(address.startswith("10.77.7.") for address in addresses)


def test_too_many_devices_are_refused() -> None:
    text = "sites: [{name: s}]\ndevices: [{name: d, site: s, kind: t4, count: 253}]\n"
    with pytest.raises(InputError, match="253 devices and stores are too many"):
        Wiring(parse_continuum(text), home="d-1")


def test_many_pairs_are_measured_once_per_pipe() -> None:
    text = """\
sites: [{name: p}, {name: q}]
devices:
  - {name: a, site: p, count: 9, samples_per_second: 9 samples/s, memory: 1 GB, uplink: 1 Gbit/s, downlink: 1 Gbit/s}
  - {name: b, site: q, count: 9, samples_per_second: 9 samples/s, memory: 1 GB, uplink: 1 Gbit/s, downlink: 1 Gbit/s}
links: [{between: [p, q], up: 10 Mbit/s, down: 50 Mbit/s}, {between: [q, q], bandwidth: 100 Mbit/s}]
"""
    wiring = Wiring(parse_continuum(text), home="a-1")
    chosen = pairs(wiring)
    slowest = [pair.slowest for pair in chosen]
    assert len(set(slowest)) == len(slowest) and {"p->q", "q->p"} <= set(slowest)
    assert {f"b-{n}.up" for n in range(1, 10)} <= set(slowest)
    groups = list(rounds(chosen))
    assert sorted(pair.where for group in groups for pair in group) == sorted(pair.where for pair in chosen)
    for group in groups:
        used = [name for pair in group for name in pair.pipes]
        assert len(set(used)) == len(used)
    assert ring_of(wiring) == []  # the first eight have no network
