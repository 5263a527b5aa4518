"""Where a process of the lab lives: an address, a network namespace, control groups, processors."""

from __future__ import annotations

import os

import msgspec

from littoral.worlds.lab.spaces import join


class Place(msgspec.Struct, frozen=True):
    """Plain data that can be sent to the process that is to live there."""

    address: str
    """The IP address to bind to."""
    netns: str = ""
    """The network namespace's path; empty: stay."""
    cgroups: tuple[str, ...] = ()
    """The control groups' directories."""
    cores: tuple[int, ...] = ()
    """The processors that are its own; empty: any."""


def enter(place: Place) -> None:
    """Move the calling process there. Call it early, while there is one thread: others would stay behind."""
    for group in place.cgroups:  # first, because a namespace may hide /sys/fs/cgroup
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))
    if place.cores:
        os.sched_setaffinity(0, place.cores)
    if place.netns:
        join(place.netns)
