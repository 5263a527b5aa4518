"""The continuum: sites, devices, links, apps and stores as one checked, immutable record."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from littoral.continuum.app import App, Store
from littoral.continuum.device import Device, Site
from littoral.continuum.link import Link
from littoral.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Continuum:
    """What there is to train on. Names are unique; every reference is checked on construction."""

    name: str
    sites: tuple[Site, ...]
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    apps: tuple[App, ...] = ()
    stores: tuple[Store, ...] = ()

    def __post_init__(self) -> None:
        _unique("site", [site.name for site in self.sites])
        _unique("device", [device.name for device in self.devices])
        _unique("store", [store.name for store in self.stores])
        _unique("app", [app.name for app in self.apps])
        if not self.devices:
            raise InputError("a continuum needs at least one device", remedy="add one under 'devices'")

    @cached_property
    def device_names(self) -> tuple[str, ...]:
        """Every device, in the order described."""
        return tuple(device.name for device in self.devices)

    @cached_property
    def _devices(self) -> dict[str, Device]:
        return {device.name: device for device in self.devices}

    @cached_property
    def _sites(self) -> dict[str, Site]:
        return {site.name: site for site in self.sites}

    def device(self, name: str) -> Device:
        """The device of that name."""
        return self._devices[name]

    def site(self, name: str) -> Site:
        """The site of that name."""
        return self._sites[name]

    def apps_on(self, device: str) -> tuple[App, ...]:
        """The apps that run on a device."""
        return tuple(app for app in self.apps if device in app.on)

    def matching(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Device names that any of the patterns matches, in the order described; a pattern must match something.

        >>> # continuum.matching(["nano-*"]) -> ("nano-1", "nano-2")
        """
        patterns = list(patterns)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in self.device_names):
                raise InputError(f"no device matches {pattern!r}", remedy=_nearest(pattern, self.device_names))
        return tuple(n for n in self.device_names if any(fnmatchcase(n, pattern) for pattern in patterns))


def _nearest(word: str, names: Iterable[str]) -> str:
    names = list(names)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names[:12])}"


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {name!r} is described twice", remedy="give each its own name")
        seen.add(name)
