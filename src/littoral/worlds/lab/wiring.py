"""What the router must know of a continuum: hosts with addresses, pipes they share, a path for every pair. Pure.

The pipes are those of ``continuum.routes``, so the lab shapes exactly what planner and simulator count with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, StepTime
from littoral.continuum.link import Link
from littoral.continuum.routes import LOCAL, Pipe, Route, Routes
from littoral.continuum.signal import Constant
from littoral.errors import InputError

COORDINATOR = ""  # no device's name
MTU = 1500
FRAME_BYTES = 14  # a link's rate counts what an Ethernet would carry, as shapers in the kernel do
_GSO_S, _MOST_SEGMENTS = 0.002, 44
_STOPPED_S, _MOST_BUFFER = 0.03, 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The way of packets from one host to another."""

    pipes: tuple[str, ...]
    latency_s: float
    loss: float


@dataclass
class Wiring:
    """The network of one lab. ``home`` is the device whose ports the coordinator shares."""

    continuum: Continuum
    home: str
    subnet: int = 0
    pipes: dict[str, Pipe] = field(init=False, default_factory=dict)
    hosts: dict[str, int] = field(init=False)
    paths: dict[tuple[str, str], Path] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.hosts = {name: number for number, name in enumerate([COORDINATOR, *_places(self.continuum)], start=1)}
        if len(self.hosts) > 253:
            raise InputError(f"{len(self.hosts) - 1} devices and stores are too many for a lab", remedy="at most 252")
        self._stand_in, self._routes = Routes(with_stores_as_devices(self.continuum)), Routes(self.continuum)
        self._stores = set(self.hosts) - set(self.continuum.device_names) - {COORDINATOR}
        for source, target in itertools.permutations(self.hosts, 2):
            self._connect(source, target)

    def address(self, host: str) -> str:
        """The IP address of a host."""
        return f"10.77.{self.subnet}.{self.hosts[host]}"

    def move_home(self, device: str) -> None:
        """Let the coordinator share another device's ports."""
        self.home = device
        for host in self.hosts:
            if host != COORDINATOR:
                self._connect(COORDINATOR, host)
                self._connect(host, COORDINATOR)

    def segments(self, host: str) -> int:
        """How many TCP segments may travel joined: two milliseconds worth, so that others wait no longer."""
        if any(path.loss for (source, _), path in self.paths.items() if source == host):
            return 1  # each is lost or not by itself
        fitting = self._port_rate(host) * _GSO_S / (MTU + FRAME_BYTES)
        return int(min(max(fitting, 2), _MOST_SEGMENTS))

    def buffers(self, host: str) -> tuple[int, int]:
        """Bytes that a connection of a host may have waiting at first, to send and received.

        A quota stops a process for up to 20 ms at a time; meanwhile its kernel must be able to go on, as the kernel
        of a slower machine would.
        """
        send = self._port_rate(host) * _STOPPED_S
        receive = self._port_rate(host, "down") * 2 * _STOPPED_S
        return int(min(max(send, 65536), _MOST_BUFFER)), int(min(max(receive, 131072), _MOST_BUFFER))

    def _port_rate(self, host: str, way: str = "up") -> float:
        pipe = self.pipes.get(f"{host or self.home}.{way}")
        return pipe.capacity.peak() if pipe else math.inf

    def _connect(self, source: str, target: str) -> None:
        route = self._route(source or self.home, target or self.home)
        if route is None:
            self.paths.pop((source, target), None)
            return
        pipes = [pipe for pipe in route.pipes if pipe.name.rpartition(".")[0] not in self._stores]
        for pipe in pipes:
            self.pipes.setdefault(pipe.name, pipe)
        loss = _loss(self.continuum.links, route.pipes)
        path = Path(pipes=tuple(pipe.name for pipe in pipes), latency_s=route.latency_s, loss=loss)
        self.paths[source, target] = path

    def _route(self, source: str, target: str) -> Route | None:
        """None where nothing connects them: their packets go nowhere, as they would."""
        if source == target:
            return LOCAL
        routes = self._stand_in if {source, target} & self._stores else self._routes
        try:
            return routes.between(source, target)
        except InputError:
            return None


def _places(continuum: Continuum) -> list[str]:
    return [*continuum.device_names, *(store.name for store in continuum.stores if store.device is None)]


def with_stores_as_devices(continuum: Continuum) -> Continuum:
    """Stores without a device become devices, so that there are ways to them too.

    A site without a network of its own gets one that limits nothing: its store is reached through the device's port.
    """
    bare = {site.name for site in continuum.sites} - {link.a for link in continuum.links if link.a == link.b}
    free = Constant(math.inf)
    inner = [Link(a=site, b=site, forward=free, backward=free) for site in sorted(bare)]
    step = StepTime(seconds_per_sample=1.0)
    added = [
        Device(name=store.name, site=store.site, step=step, memory_bytes=math.inf)
        for store in continuum.stores
        if store.device is None
    ]
    devices, links = (*continuum.devices, *added), (*continuum.links, *inner)
    return replace(continuum, devices=devices, links=links, stores=())


def _loss(links: Iterable[Link], pipes: Iterable[Pipe]) -> float:
    passed = {pipe.link for pipe in pipes}
    return 1.0 - math.prod(1.0 - link.loss for link in links if link.name in passed)
