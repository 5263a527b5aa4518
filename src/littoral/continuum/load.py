"""A continuum from its YAML file, and back.

>>> text = "name: one\\nsites: [{name: lab}]\\ndevices: [{name: pi, site: lab, kind: raspberry-pi-4b}]\\n"
>>> parse_continuum(text).device("pi").memory_bytes
4000000000.0
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def load_continuum(path: Path) -> Continuum:
    """The continuum described in a YAML file."""
    return _continuum(read_document(path))


def parse_continuum(text: str, path: Path = Path("continuum.yaml")) -> Continuum:
    """The continuum described in YAML text."""
    return _continuum(parse_document(text, path))


def _continuum(top: Section) -> Continuum:
    name = top.text("name", top.file.stem)
    sites = tuple(_site(section) for section in top.sections("sites"))
    names = [site.name for site in sites]
    devices = tuple(device for section in top.sections("devices") for device in _devices(section, names))
    links = tuple(_link(section, names) for section in top.sections("links"))
    _refuse_parallel(links, top)
    stores = tuple(_store(section, names, devices) for section in top.sections("stores"))
    bare = _placed(top, lambda: Continuum(name=name, sites=sites, devices=devices, links=links, stores=stores))
    apps = tuple(_app(section, bare) for section in top.sections("apps"))
    top.close()
    return _placed(
        top,
        lambda: Continuum(name=name, sites=sites, devices=devices, links=links, apps=apps, stores=stores),
    )


def _placed(section: Section, build: Callable[[], Continuum]) -> Continuum:
    try:
        return build()
    except InputError as error:
        raise error.at(section.file, section.line) from error


def _refuse_parallel(links: tuple[Link, ...], top: Section) -> None:
    seen: set[frozenset[str]] = set()
    for link in links:
        ends = frozenset((link.a, link.b))
        if ends in seen:
            remedy = "keep one, with the sum of their rates"
            raise top.error(f"two links between {link.a!r} and {link.b!r}", key="links", remedy=remedy)
        seen.add(ends)


def _site(section: Section) -> Site:
    site = Site(name=section.text("name"), tier=section.choice("tier", TIERS, "edge"))
    section.close()
    return site


def _known_site(section: Section, key: str, name: str, sites: list[str]) -> str:
    if name not in sites:
        raise section.error(f"unknown site {name!r}", key=key, remedy=suggest(name, sites))
    return name


# -- devices ----------------------------------------------------------------------------------------------------


def _devices(section: Section, sites: list[str]) -> list[Device]:
    name = section.text("name")
    site = _known_site(section, "site", section.text("site"), sites)
    kind = section.read("kind", find_kind, None)
    step = _step_time(section, kind)
    if kind is None and "memory" not in section:
        raise section.error("key 'memory' is missing", remedy="give 'kind', or 'memory: 4 GiB'")
    count = section.integer("count", 1, least=1)
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
        "load": _signal(section, "load", units.fraction) or Constant(0.0),
        "jitter": section.number("jitter", DEFAULT_JITTER, most=2.0),
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
        raise section.error("nothing says how fast this device is", remedy=remedy)
    return StepTime(fixed_seconds=fixed, flops=kind.flops)


def _port(section: Section, key: str, kind: Kind | None) -> Signal | None:
    signal = _signal(section, key, units.rate)
    if signal is None and kind is not None:
        return Constant(kind.network_bytes_per_s)
    return signal


# -- links, stores, apps ----------------------------------------------------------------------------------------


def _link(section: Section, sites: list[str]) -> Link:
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
        raise section.error("'shared' is for links within a site", key="shared", remedy="remove it: links between "
                            "sites are always shared")  # fmt: skip
    section.close()
    return link


def _link_rates(section: Section) -> tuple[Signal, Signal]:
    both = _signal(section, "bandwidth", units.rate)
    if "trace" in section:
        both = _trace(section, "trace", section.number("scale", 1.0))
    section.value("trace", None), section.value("scale", None)
    forward, backward = _signal(section, "up", units.rate) or both, _signal(section, "down", units.rate) or both
    if forward is None or backward is None:
        raise section.error("the link has no rate", remedy="add 'bandwidth: 20 Mbit/s', or 'up' and 'down', "
                            "or 'trace: file.csv'")  # fmt: skip
    for key, signal in (("up", forward), ("down", backward)):
        if signal.mean() <= 0:
            raise section.error(f"{key}: the rate is zero", remedy="give more than zero; cut it with a fault")
    return forward, backward


def _latency(section: Section) -> float:
    if "rtt" in section:
        return section.quantity("rtt", units.duration) / 2
    section.value("rtt", None)
    return section.quantity("latency", units.duration, 0.0)


def _store(section: Section, sites: list[str], devices: tuple[Device, ...]) -> Store:
    name = section.text("name")
    on, site = section.text("on", None), section.text("site", None)
    if on is not None:
        device = next((device for device in devices if device.name == on), None)
        if device is None:
            remedy = suggest(on, [device.name for device in devices])
            raise section.error(f"unknown device {on!r}", key="on", remedy=remedy)
        site = device.site
    elif site is None:
        raise section.error("the store has no place", remedy="add 'site: ...' or 'on: device'")
    _known_site(section, "site", site, sites)
    store = Store(name=name, site=site, device=on, samples=section.integer("samples", 0))
    section.close()
    return store


def _app(section: Section, continuum: Continuum) -> App:
    period = section.quantity("every", units.duration, positive=True)
    app = App(
        name=section.text("name"),
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
    return app


# -- signals ----------------------------------------------------------------------------------------------------


def _signal(section: Section, key: str, parser: Callable[[object], float]) -> Signal | None:
    """A quantity, or a mapping: {trace: file.csv, scale: 0.5} or {steps: [[0 s, 20 Mbit/s], ...], repeat: 60 s}."""
    if not section.is_mapping(key):
        value = section.quantity(key, parser, None)
        return None if value is None else Constant(value)
    given = section.section(key)
    assert given is not None
    scale = given.number("scale", 1.0)
    signal = _trace(given, "trace", 1.0) if "trace" in given else _steps(given, parser)
    given.value("trace", None), given.value("steps", None), given.value("repeat", None)
    given.close()
    return signal if scale == 1.0 else Scaled(signal, scale)


def _trace(section: Section, key: str, scale: float) -> Signal:
    trace = section.read(key, lambda value: read_trace(section.file.parent / str(value)))
    return trace if scale == 1.0 else Scaled(trace, scale)


def _steps(section: Section, parser: Callable[[object], float]) -> Signal:
    def pairs(value: Any) -> list[tuple[float, float]]:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise InputError("expected a list of [time, value]", remedy="write [[0 s, 20 Mbit/s], [60 s, 5 Mbit/s]]")
        steps = [(units.duration(time), parser(number)) for time, number in value]
        if any(number < 0 for _, number in steps):
            raise InputError("a value is negative", remedy="give zero or more")
        return steps

    steps = section.read("steps", pairs)
    period = section.quantity("repeat", units.duration, float("inf"), positive=True)
    try:
        return Steps(tuple(t for t, _ in steps), tuple(v for _, v in steps), period)
    except InputError as error:
        raise section.error(error.found, key="steps") from error
