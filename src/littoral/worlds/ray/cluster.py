"""A Ray cluster as a run sees it: which of its machines is which device, and where everybody listens.

A machine says which device it is when it joins: by the label ``littoral.device``, or, where one machine stands for
several devices or the name cannot be a label, by custom resources ``device:NAME``.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from littoral.errors import InputError, MissingExtra
from littoral.worlds.lab.places import Place
from littoral.worlds.processes.ground import Ground

LABEL = "littoral.device"
RESOURCE = "device:"
PATIENCE_S = 5.0
_CRUMB = 0.0001  # of a device's resource, of which each process takes one
_AS_LABEL = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Machine:
    """A Ray node that is up."""

    address: str
    label: str | None
    resources: frozenset[str]

    @property
    def devices(self) -> set[str]:
        """Every device that it says it is."""
        named = {name.removeprefix(RESOURCE) for name in self.resources if name.startswith(RESOURCE)}
        return named | ({self.label} if self.label else set())

    def __str__(self) -> str:
        return f"{' and '.join(sorted(self.devices)) or 'no device'} at {self.address}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machine of every device of one run."""

    machines: Mapping[str, Machine]
    home: str  # the coordinator's address

    def pin(self, device: str) -> dict[str, Any]:
        """The options that make Ray start something on a device: now, or when the device is back."""
        if self.machines[device].label == device:
            return {"label_selector": {LABEL: device}}
        return {"resources": {RESOURCE + device: _CRUMB}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGround(Ground):
    """Every device is a machine of its own."""

    cluster: Cluster

    def place(self, device: str) -> Place:
        return Place(self.cluster.machines[device].address)

    @property
    def coordinator(self) -> Place:
        return Place(self.cluster.home)


@contextmanager
def join(address: str, devices: Collection[str]) -> Iterator[Cluster]:
    """Connect to the Ray cluster at ``address`` (host:port; empty: this machine's) and find the devices in it."""
    ray = ray_module()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    try:
        found = _machines(ray)
        head, home = ray.get_runtime_context().gcs_address, ray.util.get_node_ip_address()
        yield Cluster({device: _machine(device, devices, found, head) for device in devices}, home)
    finally:
        if ours:
            ray.shutdown()


def ray_module() -> Any:
    """Ray, which is optional."""
    # Ray prints on stdout what its daemons say about processes that died; stdout is for results.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        return import_module("ray")
    except ImportError as error:
        raise MissingExtra("ray", "ray", "the ray world") from error


def _connect(ray: Any, address: str) -> None:
    _knock(address)
    try:
        ray.init(address=address or "auto", log_to_driver=False, configure_logging=False, logging_level="ERROR")
    except Exception as error:  # Ray raises many kinds here, all of which mean that this cluster cannot be joined
        where = f"at {address}" if address else "on this machine"
        remedy = "run littoral on a machine of the cluster (ray start), with its token; see docs/cluster.md"
        raise InputError(f"cannot join a Ray cluster {where}: {_first_line(error)}", remedy=remedy) from error


def _knock(address: str) -> None:
    """Ray itself would try for many minutes."""
    if not address or address == "auto":
        return
    if not re.fullmatch(r"[^/]+:\d+", address):
        raise InputError(f"{address!r} is no address of a Ray cluster", remedy="write HOST:PORT, such as 10.0.0.1:6379")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        remedy = f"on {host} run: ray start --head --port={port}; and see that no firewall is between"
        raise InputError(f"no Ray cluster answers at {address}: {error}", remedy=remedy) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _machines(ray: Any) -> list[Machine]:
    up = [node for node in ray.nodes() if node["Alive"]]
    return [Machine(n["NodeManagerAddress"], n["Labels"].get(LABEL), frozenset(n["Resources"])) for n in up]


def _machine(device: str, devices: Collection[str], found: list[Machine], head: str) -> Machine:
    """The one that is a device."""
    mine = [machine for machine in found if device in machine.devices]
    if len(mine) == 1:
        return mine[0]
    if mine:
        at = " and ".join(machine.address for machine in mine)
        raise InputError(f"{len(mine)} Ray nodes say that they are {device}: {at}", remedy="give each its own name")
    here = {name for machine in found for name in machine.devices}
    missing = [name for name in devices if name not in here]
    there = ", ".join(str(machine) for machine in found)
    remedy = "; ".join(f"on {name} run: {start_line(name, head)}" for name in missing)
    raise InputError(f"no Ray node is {' or '.join(missing)} (found: {there})", remedy=remedy)


def start_line(device: str, head: str) -> str:
    """What to type on a machine for it to be a device.

    >>> start_line("nano-1", "10.0.0.1:6379")
    'ray start --address=10.0.0.1:6379 --labels=littoral.device=nano-1'
    """
    if _AS_LABEL.fullmatch(device):
        return f"ray start --address={head} --labels={LABEL}={device}"
    return f"ray start --address={head} --resources='{{\"{RESOURCE}{device}\": 1}}'"
