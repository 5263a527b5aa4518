"""The pipes a message passes on its way: sender's port, networks between, receiver's port.

A pipe is one capacity that everything passing it shares. Planner and simulator read the same pipes, so they
cannot disagree on who shares what.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device
from littoral.continuum.link import Link, loss_limit
from littoral.continuum.signal import Constant, Lowest, Signal
from littoral.errors import InputError


@dataclass(frozen=True, slots=True)
class Pipe:
    """A shared capacity in bytes/s over time; ``link`` is the described link it hangs on, if any."""

    name: str
    capacity: Signal
    link: str = ""

    def __hash__(self) -> int:
        return hash(self.name)  # a trace has thousands of values


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way from one device to another."""

    pipes: tuple[Pipe, ...]
    latency_s: float
    price_usd_per_byte: float = 0.0
    flow_limit: float = math.inf
    wide_area: bool = False  # leaves its site

    def rate(self) -> float:
        """Mean bytes/s of a lone flow."""
        slowest = min((pipe.capacity.mean() for pipe in self.pipes), default=math.inf)
        return min(slowest, self.flow_limit)

    def seconds(self, size: float) -> float:
        """Time for ``size`` bytes to arrive when nothing else is on the way."""
        return self.latency_s + size / self.rate()


LOCAL = Route(pipes=(), latency_s=0.0)


@dataclass
class Routes:
    """All routes of a continuum, found on first use: fewest seconds of latency, then fewest hops."""

    continuum: Continuum
    _found: dict[tuple[str, str], Route] = field(default_factory=dict)
    _pipes: dict[str, Pipe] = field(default_factory=dict)

    def between(self, source: str, target: str) -> Route:
        """The route from a device or store to a device; the same device is reached for free."""
        key = (source, target)
        if key not in self._found:
            self._found[key] = LOCAL if source == target else self._find(source, target)
        return self._found[key]

    def _find(self, source: str, target: str) -> Route:
        store = next((store for store in self.continuum.stores if store.name == source), None)
        if store is not None and store.device is not None:
            return self.between(store.device, target)
        a, b = store or self.continuum.device(source), self.continuum.device(target)
        hops = self._site_path(a.site, b.site)
        inside = [self._inner(site) for site in ([a.site] if a.site == b.site else [a.site, b.site])]
        if store is None and a.site == b.site and inside[0] is None:
            raise missing_link(a.site, b.site)
        middle = [self._crossing(link, start) for link, start in hops]
        first = [self._port(a, "up", inside[0])] if isinstance(a, Device) else []
        pipes = [*first, *self._shared(inside), *middle, self._port(b, "down", inside[-1])]
        links = [link for link, _ in hops] + [link for link in inside if link is not None]
        latency = sum(link.latency_s for link in links)
        loss = 1.0 - math.prod(1.0 - link.loss for link in links)
        return Route(
            pipes=tuple(dict.fromkeys(pipes)),
            latency_s=latency,
            price_usd_per_byte=sum(link.price_usd_per_byte for link in links),
            flow_limit=loss_limit(loss, latency),
            wide_area=bool(hops),
        )

    def _site_path(self, source: str, target: str) -> list[tuple[Link, str]]:
        """The links to cross, each with the site it is entered from."""
        order = itertools.count()  # ties go to the link described first
        heap: list[tuple[float, int, int, str, list[tuple[Link, str]]]] = [(0.0, 0, next(order), source, [])]
        seen: set[str] = set()
        while heap:
            latency, hops, _, site, path = heapq.heappop(heap)
            if site == target:
                return path
            if site in seen:
                continue
            seen.add(site)
            for link in self.continuum.links:
                if site in (link.a, link.b) and link.a != link.b:
                    other = link.b if site == link.a else link.a
                    if other not in seen:
                        cost = latency + link.latency_s
                        heapq.heappush(heap, (cost, hops + 1, next(order), other, [*path, (link, site)]))
        raise missing_link(source, target)

    def _inner(self, site: str) -> Link | None:
        return next((link for link in self.continuum.links if link.a == link.b == site), None)

    def _crossing(self, link: Link, start: str) -> Pipe:
        if link.half_duplex:
            return self._pipe(link.name, link.forward, link.name)
        if start == link.a:
            return self._pipe(f"{link.a}->{link.b}", link.forward, link.name)
        return self._pipe(f"{link.b}->{link.a}", link.backward, link.name)

    def _shared(self, inside: list[Link | None]) -> list[Pipe]:
        return [self._pipe(f"{link.a}~", link.forward, link.name) for link in inside if link and link.shared]

    def _port(self, device: Device, way: str, inner: Link | None) -> Pipe:
        own = device.uplink if way == "up" else device.downlink
        switch = None if inner is None or inner.shared else inner.forward if way == "up" else inner.backward
        rates = [signal for signal in (own, switch) if signal is not None]
        return self._pipe(f"{device.name}.{way}", _lowest(rates), "" if inner is None else inner.name)

    def _pipe(self, name: str, capacity: Signal, link: str) -> Pipe:
        return self._pipes.setdefault(name, Pipe(name, capacity, link))


def _lowest(rates: list[Signal]) -> Signal:
    if all(isinstance(rate, Constant) for rate in rates):
        return min(rates, key=lambda rate: rate.mean(), default=Constant(math.inf))
    return rates[0] if len(rates) == 1 else Lowest(tuple(rates))


def missing_link(a: str, b: str) -> InputError:
    """The complaint about two places that nothing connects."""
    if a == b:
        found = f"site {a!r} has several communicating devices but no network of its own"
    else:
        found = f"no link leads from site {a!r} to site {b!r}"
    remedy = f"add a link {{between: [{a}, {b}], bandwidth: 1 Gbit/s, latency: 0.2 ms}}"
    return InputError(found, remedy=remedy, key="links")
