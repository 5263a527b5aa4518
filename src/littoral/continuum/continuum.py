"""The continuum: sites, devices, links, apps and stores as one checked, immutable record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from littoral.continuum.app import App, Store
from littoral.continuum.device import Device, Site
from littoral.continuum.link import Link
from littoral.document import suggest
from littoral.errors import InputError, brief


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
        _unique("device or store", [*self.device_names, *(store.name for store in self.stores)])
        _unique("app", [app.name for app in self.apps])
        if not self.devices:
            raise InputError("a continuum needs at least one device", remedy="add one under 'devices'")
        _known("site", (device.site for device in self.devices), self._sites)
        _known("site", (end for link in self.links for end in (link.a, link.b)), self._sites)
        _known("site", (store.site for store in self.stores), self._sites)
        _known("device", (store.device for store in self.stores if store.device), self._devices)
        _known("device", (name for app in self.apps for name in app.on), self._devices)

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
        """Device names that any of the patterns matches, in the order described; each must match something.

        ``["nano-*"]`` gives ``("nano-1", "nano-2")``.
        """
        patterns = list(patterns)
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise InputError(f"{brief(pattern)} is not a device", remedy="give names or patterns such as 'nano-*'")
            if not any(fnmatchcase(name, pattern) for name in self.device_names):
                raise InputError(f"no device matches {pattern!r}", remedy=suggest(pattern, list(self.device_names)))
        return tuple(n for n in self.device_names if any(fnmatchcase(n, pattern) for pattern in patterns))


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {name!r} is described twice", remedy="give each its own name")
        seen.add(name)


def _known(what: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}", remedy=suggest(name, list(known)))
