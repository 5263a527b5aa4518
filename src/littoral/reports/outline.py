"""The continuum in few words: sites with their devices by role, identical ones together, and links.

What the graph draws; nothing here knows about coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import TIERS
from littoral.continuum.link import Link
from littoral.continuum.signal import Signal
from littoral.planning.plan import Plan
from littoral.units import show_duration, show_rate

MANY_SITES = 6  # more alike sites than this in a tier are drawn as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Devices of a site that are alike: same kind, same role, same apps."""

    names: str
    count: int
    role: str  # worker, server, worker+server, store, idle
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A site (or ``count`` sites that are alike); ``members`` are their names."""

    title: str
    tier: str
    count: int
    members: tuple[str, ...]
    entries: tuple[Entry, ...]
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """A link between two places, the lower one first; rates in bytes/s, as seen from the lower one."""

    low: str
    high: str
    label: str
    title: str
    rate: float
    varies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """All of it; places keep the order in which they were described."""

    places: tuple[Place, ...]
    ties: tuple[Tie, ...]


def outline_of(continuum: Continuum, plan: Plan) -> Outline:
    """Describe a continuum and what a plan does with it."""
    entries = {site.name: _entries(continuum, plan, site.name) for site in continuum.sites}
    places: list[Place] = []
    for tier in TIERS:
        sites = [site.name for site in continuum.sites if site.tier == tier]
        for members in _alike(continuum, sites, entries):
            first = members[0]
            place = Place(
                title=_title(members), tier=tier, count=len(members), members=tuple(members),
                entries=entries[first], network=_network(continuum, first),
            )  # fmt: skip
            places.append(place)
    return Outline(places=tuple(places), ties=tuple(_ties(continuum, places)))


def _alike(continuum: Continuum, sites: list[str], entries: dict[str, tuple[Entry, ...]]) -> Iterable[list[str]]:
    if len(sites) <= MANY_SITES:
        return [[site] for site in sites]
    groups: dict[object, list[str]] = {}
    for site in sites:
        devices = tuple((entry.role, entry.count, entry.lines[0]) for entry in entries[site])
        links = tuple(
            (link.b if link.a == site else link.a, _rates(link, site), link.latency_s)
            for link in continuum.links if site in (link.a, link.b) and link.a != link.b
        )  # fmt: skip
        groups.setdefault((devices, links, _network(continuum, site)), []).append(site)
    return groups.values()


# -- devices ---------------------------------------------------------------------------------------------


def _entries(continuum: Continuum, plan: Plan, site: str) -> tuple[Entry, ...]:
    groups: dict[tuple[str, str, tuple[str, ...], str], list[str]] = {}
    for device in continuum.devices:
        if device.site == site:
            apps = tuple(app.name for app in continuum.apps_on(device.name))
            key = (device.kind, _role(continuum, plan, device.name), apps, _servers(plan, device.name))
            groups.setdefault(key, []).append(device.name)
    entries = [_entry(continuum, plan, *key, names) for key, names in groups.items()]
    stores = [
        Entry(names=store.name, count=1, role="store", lines=(_samples(store.samples), "data store"))
        for store in continuum.stores if store.site == site and store.device is None
    ]  # fmt: skip
    return (*entries, *stores)


def _role(continuum: Continuum, plan: Plan, device: str) -> str:
    roles = ["worker"] if any(worker.device == device for worker in plan.workers) else []
    roles += ["server"] if any(server.device == device for server in plan.servers) else []
    stores = any(store.device == device for store in continuum.stores)
    return "+".join(roles) or ("store" if stores else "idle")


def _servers(plan: Plan, device: str) -> str:
    return ", ".join(server.name for server in plan.servers if server.device == device)


def _entry(
    continuum: Continuum,
    plan: Plan,
    kind: str,
    role: str,
    apps: tuple[str, ...],
    servers: str,
    names: list[str],
) -> Entry:
    lines = [f"{kind} · {role}" + (f" {servers}" if servers else "")]
    workers = [worker for worker in plan.workers if worker.device in names]
    if workers:
        shard, batch = _range([w.shard for w in workers]), _range([w.batch for w in workers])
        lines.append(f"shard {shard} · batch {batch}")
    stores = [store for store in continuum.stores if store.device in names]
    lines += [f"stores {store.name} ({_samples(store.samples)})" for store in stores]
    lines += [f"runs {', '.join(apps)}"] if apps else []
    return Entry(names=_names(names), count=len(names), role=role, lines=tuple(lines))


def _samples(count: int) -> str:
    return f"{count:,} samples" if count else "data"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _title(sites: Sequence[str]) -> str:
    short = _names(sites)
    return short if len(sites) == 1 or ".." in short else f"{sites[0]} and {len(sites) - 1} like it"


def _names(names: Sequence[str]) -> str:
    """Names in short.

    >>> _names(["nano-1", "nano-2", "nano-3"]), _names(["tx2", "pi"])
    ('nano-1..3', 'tx2, pi')
    """
    parts = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    stems = {part[1] for part in parts if part}
    numbers = [int(part[2]) for part in parts if part]
    if len(names) > 1 and all(parts) and len(stems) == 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{names[0]}..{numbers[-1]}"
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


# -- links -----------------------------------------------------------------------------------------------


def _network(continuum: Continuum, site: str) -> str:
    inner = next((link for link in continuum.links if link.a == link.b == site), None)
    if inner is None:
        return ""
    kind = "shared medium" if inner.shared else "network"
    return f"{kind}: {_rates(inner, site)} · {show_duration(inner.latency_s)}"


def _ties(continuum: Continuum, places: Sequence[Place]) -> Iterable[Tie]:
    tier_of = {member: TIERS.index(place.tier) for place in places for member in place.members}
    place_of = {member: place for place in places for member in place.members}
    seen: set[tuple[str, str]] = set()
    for link in continuum.links:
        low, high = (link.a, link.b) if tier_of[link.a] <= tier_of[link.b] else (link.b, link.a)
        below, above = place_of[low], place_of[high]
        if link.a == link.b or (below.title, above.title) in seen:
            continue
        seen.add((below.title, above.title))
        each = " each" if below.count > 1 else ""
        price = f", {link.price_usd_per_byte * 1e9:.3g} USD/GB" if link.price_usd_per_byte else ""
        rates = f"{_rates(link, low)} · {show_duration(link.latency_s)}{each}"
        yield Tie(
            low=below.title,
            high=above.title,
            label=f"→ {above.title}: {rates}",
            title=f"{low} to {high}: {rates} one way{price}",
            rate=(link.forward.mean() + link.backward.mean()) / 2,
            varies=_varies(link.forward) or _varies(link.backward),
        )


def _rates(link: Link, low: str) -> str:
    up, down = (link.forward, link.backward) if link.a == low else (link.backward, link.forward)
    if up == down or link.half_duplex:
        return _rate(up)
    above, below = _rate(up), _rate(down)
    unit = f" {below.split()[1]}"
    return f"↑ {above.removesuffix(unit)} ↓ {below}"


def _varies(signal: Signal) -> bool:
    return signal.next_change(0.0) != float("inf")


def _rate(signal: Signal) -> str:
    if not _varies(signal):
        return show_rate(signal.at(0.0))
    t = 0.0
    seen: list[float] = []
    while t != float("inf") and len(seen) < 2000:
        seen.append(signal.at(t))
        t = signal.next_change(t)
    low, high = show_rate(min(seen)), show_rate(max(seen))
    low = low.split()[0] if low.split()[1] == high.split()[1] else low
    return f"{low}-{high} trace"
