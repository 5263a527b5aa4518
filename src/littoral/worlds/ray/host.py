"""What runs on a device's machine: a node's program in a process that Ray started there."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from littoral.worlds.lab.places import Place
from littoral.worlds.processes.boot import Boot, decode
from littoral.worlds.ray.cluster import ray_module


class Whereabouts(NamedTuple):
    """A process: its number, and its machine's address and Ray identity."""

    pid: int
    address: str
    machine: str


class Host:
    """The actor. It is asked where it is, then runs a node for as long as that lives."""

    def where(self) -> Whereabouts:
        """Where this process is."""
        ray = ray_module()
        return Whereabouts(os.getpid(), ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id())

    def run(self, raw: bytes) -> None:
        """Be a node until the run is over."""
        from littoral.worlds.processes.process import main

        boot = at_home(decode(raw), self.where().address)
        main(boot)
        shutil.rmtree(boot.pantry, ignore_errors=True)  # the run is over: nobody will come back for it


def at_home(boot: Boot, address: str) -> Boot:
    """A boot record with this machine's own address and folders instead of the coordinator's.

    What is installed here comes first: the coordinator's search path may lead to builds for another processor, or to
    nothing. It only helps to find a task's module that lies in the same folder on every machine.
    """
    sys.path += [path for path in boot.paths if path not in sys.path and os.path.isdir(path)]
    return msgspec.structs.replace(boot, place=Place(address), paths=(), pantry=str(_pantry(boot)))


def _pantry(boot: Boot) -> Path:
    """A folder that a later process of the same run finds again, be it after a resumption, and no other run's."""
    name = hashlib.blake2b(f"{boot.pantry} {boot.node}".encode(), digest_size=8).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "littoral" / "pantry" / name


def poke(at: Whereabouts, number: int, _after: None) -> None:
    """Send a process of this machine a signal. Ray calls it when the one ``_after`` which it comes was sent."""
    os.kill(at.pid, number)
