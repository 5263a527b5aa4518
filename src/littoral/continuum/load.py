"""A continuum from its YAML file, and back.

>>> text = "name: one\\nsites: [{name: lab}]\\ndevices: [{name: pi, site: lab, kind: raspberry-pi-4b}]\\n"
>>> parse_continuum(text).device("pi").memory_bytes
4000000000.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from littoral import units
from littoral.continuum.app import App, Store
from littoral.continuum.catalogue import Kind, find_kind
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import TIERS, Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant, Scaled, Signal, Steps, read_trace
from littoral.document import Section, parse_document, read_document, suggest
from littoral.errors import InputError

DEFAULT_JITTER = 0.03
MOST_DEVICES = 1_000_000  # in one entry: more is a slip of the pen that would fill the memory
T = TypeVar("T")


def load_continuum(path: Path) -> Continuum:
    """The continuum described in a YAML file."""
    return _continuum(read_document(path))


def parse_continuum(text: str, path: Path = Path("continuum.yaml")) -> Continuum:
    """The continuum described in YAML text."""
    return _continuum(parse_document(text, path))


def _continuum(top: Section) -> Continuum:
    top.only(["name", "sites", "devices", "links", "apps", "stores"])
    name = top.name("name", top.file.stem)
    sites = _each(top, "sites", _site)
    names = [site.name for site in sites]
    devices = _each(top, "devices", lambda section: _devices(section, names))
    taken = {device.name: device.site for device in devices}
    links = _each(top, "links", lambda section: _link(section, names), _ends)
    stores = _each(top, "stores", lambda section: _store(section, names, taken))
    if not devices:
        raise top.error("a continuum needs at least one device", key="devices", remedy="describe it there")
    bare = Continuum(name=name, sites=sites, devices=devices, links=links, stores=stores)
    apps = _each(top, "apps", lambda section: _app(section, bare))
    top.close()
    return replace(bare, apps=apps)


def _each(
    top: Section,
    key: str,
    build: Callable[[Section], list[T]],
    identity: Callable[[T], object] = attrgetter("name"),
) -> tuple[T, ...]:
    """Everything a list describes, each of it once."""
    found: dict[object, T] = {}
    for section in top.sections(key):
        for entry in build(section):
            if found.setdefault(identity(entry), entry) is not entry:
                name, remedy = getattr(entry, "name", ""), "keep one of them, or give each its own name"
                raise section.error(f"{key}: {name!r} is described twice", key="name", remedy=remedy)
    return tuple(found.values())


def _ends(link: Link) -> object:
    return frozenset((link.a, link.b))


def _site(section: Section) -> list[Site]:
    site = Site(name=section.name("name"), tier=section.choice("tier", TIERS, "edge"))
    section.close()
    return [site]


def _known_site(section: Section, key: str, name: str, sites: list[str]) -> str:
    if name not in sites:
        raise section.error(f"unknown site {name!r}", key=key, remedy=suggest(name, sites))
    return name


# -- devices -------------------------------------------------------------------------------------------------


def _devices(section: Section, sites: list[str]) -> list[Device]:
    name = section.name("name")
    site = _known_site(section, "site", section.text("site"), sites)
    kind = section.read("kind", find_kind) if section.text("kind", "") else None
    step = _step_time(section, kind)
    if kind is None and "memory" not in section:
        raise section.missing("key 'memory' is missing", ["memory"], "give 'kind', or 'memory: 4 GiB'")
    count = section.integer("count", 1, least=1, most=MOST_DEVICES)
    common: dict[str, Any] = {
        "site": site,
        "step": step,
        "kind": section.text("label", kind.name if kind else "custom"),
        "memory_bytes": section.quantity("memory", units.size, kind.memory_bytes if kind else 0.0, positive=True),
        "memory_bytes_per_s": section.quantity(
            "memory_bandwidth", units.rate, kind.memory_bytes_per_s if kind else 20e9, positive=True
        ),
        "uplink": _port(section, "uplink", kind),
        "downlink": _port(section, "downlink", kind),
        "price_usd_per_s": section.quantity("price", units.price_per_time, kind.price_usd_per_s if kind else 0.0),
        "load": _signal(section, "load", units.fraction, _LOAD) or Constant(0.0),
        "jitter": section.number("jitter", DEFAULT_JITTER, most=2.0),
        "cpu": section.number("cpu", None, least=0.001),
        "card": section.integer("card", None, least=0),
        "card_share": section.number("card_share", 1.0, least=0.01, most=1.0),
    }
    section.close()
    return [Device(name=each, **common) for each in _numbered(name, count, "count" in section)]


def _numbered(name: str, count: int, asked: bool) -> list[str]:
    """``nano-1`` with count 3 gives nano-1, nano-2, nano-3; ``nano`` gives the same."""
    if not asked:
        return [name]
    match = re.fullmatch(r"(.*?)-?(\d+)", name)
    stem, first = (match[1], int(match[2])) if match else (name, 1)
    return [f"{stem}-{first + i}" for i in range(count)]


def _step_time(section: Section, kind: Kind | None) -> StepTime:
    given = section.section("step")
    if given is not None:
        for other in ("speed", "samples_per_second", "overhead"):
            if other in section:
                raise section.error(f"both 'step' and {other!r}", key=other, remedy="keep one of them")
        step = StepTime(
            fixed_seconds=given.quantity("fixed", units.duration, 0.0),
            seconds_per_sample=given.quantity("per_sample", units.duration, positive=True),
        )
        given.close()
        return step
    fixed = section.quantity("overhead", units.duration, kind.fixed_seconds if kind else 0.0)
    if "samples_per_second" in section:
        rate = section.quantity("samples_per_second", units.sample_rate, positive=True)
        return StepTime(fixed_seconds=0.0, seconds_per_sample=1.0 / rate)
    if "speed" in section:
        return StepTime(fixed_seconds=fixed, flops=section.quantity("speed", units.speed, positive=True))
    section.value("speed", None), section.value("samples_per_second", None)
    if kind is None:
        remedy = "give 'kind', 'step: {fixed: 5 ms, per_sample: 2 ms}', 'samples_per_second' or 'speed'"
        keys = ["kind", "step", "samples_per_second", "speed"]
        raise section.missing("nothing says how fast this device is", keys, remedy)
    return StepTime(fixed_seconds=fixed, flops=kind.flops)


def _port(section: Section, key: str, kind: Kind | None) -> Signal | None:
    signal = _signal(section, key, units.rate)
    if signal is None:
        return None if kind is None else Constant(kind.network_bytes_per_s)
    return _above_zero(signal, section, key)


def _above_zero(signal: Signal, section: Section, key: str) -> Signal:
    if signal.mean() <= 0:
        raise section.error(f"{key}: the rate is zero", key=key, remedy="give more than zero; cut it with a fault")
    return signal


# -- links, stores, apps -------------------------------------------------------------------------------------


def _link(section: Section, sites: list[str]) -> list[Link]:
    ends = section.texts("between")
    if len(ends) != 2:
        raise section.error("'between' needs two sites", key="between", remedy="write [plant, region]")
    a, b = (_known_site(section, "between", end, sites) for end in ends)
    forward, backward = _link_rates(section)
    link = Link(
        a=a,
        b=b,
        forward=forward,
        backward=backward,
        latency_s=_latency(section),
        price_usd_per_byte=section.quantity("price", units.price_per_byte, 0.0),
        loss=section.read("loss", units.fraction, 0.0),
        half_duplex=section.choice("duplex", ["full", "half"], "full") == "half",
        shared=section.flag("shared", False),
    )
    if link.shared and a != b:
        remedy = "remove it: links between sites are always shared"
        raise section.error("'shared' is for links within a site", key="shared", remedy=remedy)
    if link.half_duplex and a == b:
        remedy = "write 'shared: true' for one medium that all devices share, as Wi-Fi is"
        raise section.error("'duplex: half' is for links between sites", key="duplex", remedy=remedy)
    if (link.half_duplex or link.shared) and ("up" in section or "down" in section) and forward != backward:
        remedy = "give 'bandwidth': both directions share it"
        raise section.error("'up' and 'down' on a link that has only one rate", key="up", remedy=remedy)
    if link.loss == 1.0:
        raise section.error("the link loses everything", key="loss", remedy="give less; cut it with a fault")
    section.close()
    return [link]


def _link_rates(section: Section) -> tuple[Signal, Signal]:
    both = _signal(section, "bandwidth", units.rate)
    if "trace" in section:  # the nominal bandwidth may stand beside it
        both = _scaled(_trace(section, _MBPS), section)
    else:
        section.value("trace", None)
    forward, backward = (_signal(section, way, units.rate) or both for way in ("up", "down"))
    if forward is None or backward is None:
        remedy = "add 'bandwidth: 20 Mbit/s', or 'up' and 'down', or 'trace: file.csv'"
        raise section.missing("the link has no rate", ["bandwidth", "up", "down", "trace"], remedy)
    return _above_zero(forward, section, "up"), _above_zero(backward, section, "down")


def _latency(section: Section) -> float:
    if "rtt" in section and "latency" in section:
        raise section.error("both 'rtt' and 'latency'", key="rtt", remedy="keep one; latency is half of rtt")
    return section.quantity("latency", units.duration, section.quantity("rtt", units.duration, 0.0) / 2)


def _store(section: Section, sites: list[str], taken: Mapping[str, str]) -> list[Store]:
    """``taken``: the site of each device."""
    name, on = section.name("name"), section.text("on", None)
    if name in taken:
        raise section.error(f"store {name!r} has the name of a device", key="name", remedy=f"call it '{name}-data'")
    if on is None and "site" not in section:
        raise section.missing("the store has no place", ["site", "on"], "add 'site: ...' or 'on: device'")
    if on is not None and on not in taken:
        raise section.error(f"unknown device {on!r}", key="on", remedy=suggest(on, list(taken)))
    site = _known_site(section, "site", section.text("site", taken.get(on or "")), sites)
    if on is not None and site != taken[on]:
        raise section.error(f"device {on!r} is at {taken[on]!r}", key="site", remedy="remove 'site'")
    store = Store(name=name, site=site, device=on, samples=section.integer("samples", 0))
    section.close()
    return [store]


def _app(section: Section, continuum: Continuum) -> list[App]:
    period = section.quantity("every", units.duration, positive=True)
    app = App(
        name=section.name("name"),
        on=section.read("on", lambda value: continuum.matching(value if isinstance(value, list) else [value])),
        period_s=period,
        deadline_s=section.quantity("deadline", units.duration, period, positive=True),
        work_s=section.quantity("work", units.duration, period / 4, positive=True),
        demand=section.read("demand", units.fraction, 0.5),
        run=section.text("run", ""),
    )
    if app.work_s > app.deadline_s:
        remedy = "give a deadline of at least its 'work'"
        raise section.error(f"app {app.name!r} cannot meet its deadline even alone", key="work", remedy=remedy)
    section.close()
    return [app]


# -- signals -------------------------------------------------------------------------------------------------

_MBPS, _LOAD = ("mbps", 1e6 / 8), ("load", 1.0)  # a trace's column, and what one of it is in SI


def _signal(
    section: Section, key: str, parser: Callable[[object], float], column: tuple[str, float] = _MBPS
) -> Signal | None:
    """A quantity, {trace: file.csv, scale: 0.5} or {steps: [[0 s, 20 Mbit/s], ...], repeat: 60 s}."""
    if not section.is_mapping(key):
        value = section.quantity(key, parser, None)
        return None if value is None else Constant(value)
    given = section.section(key)
    assert given is not None
    signal = _scaled(_trace(given, column) if "trace" in given else _steps(given, parser), given)
    given.close()
    return signal


def _scaled(signal: Signal, section: Section) -> Signal:
    scale = section.number("scale", 1.0)
    return signal if scale == 1.0 else Scaled(signal, scale)


def _trace(section: Section, column: tuple[str, float]) -> Signal:
    path = section.file.parent / section.text("trace")
    return section.read("trace", lambda _: read_trace(path, *column))


def _steps(section: Section, parser: Callable[[object], float]) -> Signal:
    period = section.quantity("repeat", units.duration, float("inf"), positive=True)

    def steps(value: Any) -> Steps:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise InputError("expected a list of [time, value]", remedy="write [[0 s, 20 Mbit/s], [60 s, 5 Mbit/s]]")
        values = tuple(parser(number) for _, number in value)
        if any(number < 0 for number in values):
            raise InputError("a value is negative", remedy="give zero or more")
        return Steps(tuple(units.duration(time) for time, _ in value), values, period)

    return section.read("steps", steps)
